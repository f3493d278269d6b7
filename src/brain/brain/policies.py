# SPDX-License-Identifier: Apache-2.0
"""Policies of an evaluation: the brain, and the controls that it is to be compared with.

``oracle`` and ``tour`` know the true room and need no brain. The others are the brain with one thing changed:
``blind`` gets black pictures, ``shuffled-words`` the sentences of another episode, ``scripted`` sees by what the
graph's vision names as its conventional baseline.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Any, Sequence

from brain.ablations import NONE, Ablation, of_region
from brain_runtime.graph import Graph
from brain_runtime.region import Region

WITHOUT_BRAIN = ("oracle", "tour")
WITH_BRAIN = ("brain", "scripted", "blind", "shuffled-words")
POLICIES = WITH_BRAIN + WITHOUT_BRAIN
_INSTEAD = {"blind": ("camera", "blind"), "scripted": ("vision", "conventional")}
"""Region that a policy replaces, and by which of its ablations."""


def regions_of(graph: Graph, policy: str, ablation: Ablation = NONE) -> dict[str, str]:
    """Class, as ``package.module:Class``, of each region of the graph under a policy and an ablation.

    Raises:
        ValueError: an unknown policy, or one region is to be replaced that the graph does not have.
    """
    if policy not in WITH_BRAIN:
        raise ValueError(f"policy {policy!r} does not run a brain; those that do are {', '.join(WITH_BRAIN)}")
    found = {spec.name: spec.cls for spec in graph.regions}
    if policy in _INSTEAD:
        name, way = _INSTEAD[policy]
        if name not in found:
            raise ValueError(f"policy {policy} replaces the region {name}, which graph {graph.name} does not have")
        instead = of_region(graph.spec(name).load()).get(way)
        if not isinstance(instead, str):
            raise ValueError(f"policy {policy} replaces the region {name} by what it names as {way}; {found[name]} "
                             f"names none")
        found[name] = instead
    for name, cls in ablation.classes.items():
        if name not in found:
            raise ValueError(f"an ablation replaces the region {name}, which graph {graph.name} does not have")
        found[name] = cls
    return found


def joined(classes: Sequence[str]) -> dict[str, str]:
    """Names for classes, as ``package.module:Class``, that join a brain: the class's in lower case.

    Raises:
        ValueError: one is not written so, or two get one name.
    """
    found: dict[str, str] = {}
    for cls in classes:
        module, _, name = cls.partition(":")
        if not module or not name or name.lower() in found:
            raise ValueError(f"--join {cls!r} must read package.module:Class, each class once")
        found[name.lower()] = cls
    return found


def make_regions(graph: Graph, policy: str, join: Sequence[str] = (), ablation: Ablation = NONE) -> dict[str, Region]:
    """New regions of the graph, by name, in its order, and then those that join."""
    from brain_runtime.graph import RegionSpec

    return {name: RegionSpec(name, cls).load()(name)
            for name, cls in {**regions_of(graph, policy, ablation), **joined(join)}.items()}


def told(policy: str, episodes: Sequence, index: int) -> Any:
    """The episode as the robot is told of it; room, target and what counts as success stay.

    Under ``shuffled-words``, with the sentences of the next episode that wants another target.
    """
    episode = episodes[index]
    if policy != "shuffled-words":
        return episode
    for step in range(1, len(episodes)):
        other = episodes[(index + step) % len(episodes)]
        if other.target != episode.target:
            return replace(episode, sentence=other.sentence, stop_text=other.stop_text, stop_after=other.stop_after)
    raise ValueError("shuffled-words needs two episodes with different targets; ask for more --episodes")

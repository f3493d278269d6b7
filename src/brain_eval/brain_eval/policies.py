# SPDX-License-Identifier: Apache-2.0
"""Policies of an evaluation: the brain, and the controls that it is to be compared with.

``oracle`` and ``tour`` know the true room and need no brain. The others are the brain with one thing changed:
``blind`` gets pictures in which nothing stands, ``shuffled-words`` the sentences of another episode, ``scripted`` sees
by what the graph's vision names as its conventional baseline.
"""
from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Sequence

from brain_eval.ablations import declared, of_region
from brain_runtime.contract.ablation import NONE, Ablation
from brain_runtime.contract.declared import named
from brain_runtime.graph import SIM_WORLD
from brain_runtime.graph.graphs import DEFAULT, load

WITHOUT_BRAIN = ("oracle", "tour")
WITH_BRAIN = ("brain", "scripted", "blind", "shuffled-words")
POLICIES = WITH_BRAIN + WITHOUT_BRAIN
_INSTEAD = {"blind": ("camera", "blind"), "scripted": ("vision", "conventional")}
"""Region that a policy replaces, and by which of its ablations."""
ENDING = 10.0   # s before an episode's time limit, by when a search is told to end: to drive off, and to say so


def ablation_of(policy: str, ablation: Ablation = NONE, graph: str = DEFAULT) -> Ablation:
    """Combines what a policy changes of a graph's brain with an ablation, which wins.

    Raises:
        ValueError: an unknown policy, or one region is to be replaced that the graph does not have.
        GraphError: there is no such graph, or the class of that region cannot be loaded.
        ModuleNotFoundError: the package of what the policy puts in is not installed.
    """
    if policy not in WITH_BRAIN:
        raise ValueError(f"policy {policy!r} does not run a brain; those that do are {', '.join(WITH_BRAIN)}")
    if policy not in _INSTEAD:
        return ablation
    name, way = _INSTEAD[policy]
    loaded = load(graph, SIM_WORLD)
    if name not in {spec.name for spec in loaded.regions}:
        raise ValueError(f"policy {policy} replaces the region {name}, which graph {loaded.name} does not have")
    instead = of_region(loaded.spec(name).load()).get(way)
    if not isinstance(instead, str):
        raise ValueError(f"policy {policy} replaces the region {name} by what it names as {way}; "
                         f"{loaded.spec(name).cls} names none")
    named(instead, f"policy {policy}")
    return replace(ablation, classes={name: instead, **ablation.classes})


def patience_of(time_limit: float, asked: float | None = None) -> float:
    """Computes the time that the robot is told a search may take (s).

    Args:
        time_limit: of the episode (s).
        asked: what is asked for; None: :data:`ENDING` less than the limit, of a limit below 60 s a sixth.
    """
    return time_limit - min(ENDING, time_limit / 6) if asked is None else asked


def patient(ablation: Ablation, graph: str, seconds: float) -> Ablation:
    """An ablation, and how long whoever searches is told that it may: their parameter ``patience``.

    Args:
        ablation: where it has that parameter, it stays.
        graph: name or path.
        seconds: 0: until everything was looked at, or for as long as a robot waits for by itself.

    Raises:
        GraphError: there is no such graph, or the class of a region cannot be loaded.
    """
    told = {}
    for name, cls in declared(graph).items():
        instead = ablation.classes.get(name)
        cls = cls if instead is None else named(instead, f"the ablation of {name}")
        if "patience" in {known.name for known in fields(cls.Parameters)}:
            told[name] = {"patience": seconds, **ablation.parameters.get(name, {})}
    return replace(ablation, parameters={**ablation.parameters, **told})


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

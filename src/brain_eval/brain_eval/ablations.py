# SPDX-License-Identifier: Apache-2.0
"""Ablations of an evaluation: one thing of the brain taken away or replaced, to measure what it contributes.

What there is, each region of the graph says itself: its baselines, which stand behind the same ports without spikes
(``ann``) or without a network (``conventional``), and its ablations (see :mod:`brain_runtime.contract.declared`).
Each is written NAME=VALUE: a region and one of its names, as ``vision=silent``; ``all`` and a name that all networks
have; or
what a region calls a part of it, as ``integration=off`` and ``qpfc=constant:0.5``. What happens to the spikes of one
population is written REGION.POPULATION=KIND, as ``pfc.memory=silent`` and ``vision.edges=drop:0.3`` (see
:mod:`brain_regions.lesions`).
"""
from __future__ import annotations

from dataclasses import fields
from typing import Any, Mapping, Sequence

from brain_regions import lesions
from brain_runtime.graph import graphs
from brain_runtime.contract.ablation import NONE, Ablation
from brain_runtime.graph import SIM_WORLD
from brain_runtime.contract.declared import NUMBER, named
from brain_runtime.contract.region import Region
from brain_wire.parameters import ParameterError, check_parameters

ALL, LESIONS = "all", "lesions"


Change = str | Mapping[str, Any]
"""A class that takes a region's place, or its parameters that change."""


def parse(options: Sequence[str], graph: str = graphs.DEFAULT) -> Ablation:
    """Parses some options NAME=VALUE into an ablation.

    Args:
        options: as they are written.
        graph: name or path of the graph whose regions they are of.

    Raises:
        ValueError: one is unknown, or two contradict each other; says what there is.
        GraphError: there is no such graph.
        ModuleNotFoundError: the package of a class that takes a region's place is not installed.
    """
    if not options:
        return NONE
    regions = declared(graph)
    classes: dict[str, str] = {}
    parameters: dict[str, dict[str, Any]] = {}
    said: dict[str, str] = {}
    for option in dict.fromkeys(options):       # what is said twice is one thing
        name, _, value = option.partition("=")
        found = _changes(regions, option)
        if not found:
            raise ValueError(f"there is no ablation {option!r}; there are {', '.join(names(graph))}")
        for region in found if name == ALL else (name,):
            if said.setdefault(region, value) != value:
                raise ValueError(f"--ablate {option} contradicts {region}={said[region]}")
        for region, change in found.items():
            if isinstance(change, str):
                classes[region] = change
                continue
            known = parameters.setdefault(region, {})
            known.update({**change, LESIONS: known.get(LESIONS, ()) + change[LESIONS]} if LESIONS in change else change)
    for region, cls in classes.items():
        loaded = named(cls, f"the ablation {region}={said[region]}")
        lacking = [name for name in parameters.get(region, {})
                   if name not in {known.name for known in fields(loaded.Parameters)}]
        if lacking:
            raise ValueError(f"--ablate {region}={said[region]} leaves no network of which {', '.join(lacking)} could "
                             f"be changed; take it away, or what changes {region}")
        lesions.parse(parameters.get(region, {}).get(LESIONS, ()), loaded.populations,
                      f"--ablate {region}={said[region]}")
    return Ablation(classes, parameters)


def declared(graph: str) -> dict[str, type[Region]]:
    """Classes of a graph's regions, and of the devices of its simulated room, by name.

    Raises:
        GraphError: there is no such graph, or a class of it cannot be loaded.
    """
    return {spec.name: spec.load() for spec in graphs.load(graph, SIM_WORLD).regions if not spec.lacks_package()}


def of_region(cls: type[Region]) -> dict[str, Change]:
    """Lists what a region's class says can be taken away or replaced; see :class:`brain_runtime.Region`."""
    taken = {name: change for name, change in cls.ablations.items() if not isinstance(change, str)}
    return {**taken, **cls.baselines, **cls.ablations}


def names(graph: str = graphs.DEFAULT) -> list[str]:
    """All ablations of a graph, as they are written."""
    written: dict[str, list[str]] = {}
    parts: dict[str, list[str]] = {}
    regions = declared(graph)
    for region, cls in regions.items():
        for name in of_region(cls):
            part, _, value = name.partition("=")
            (parts.setdefault(part, []) if value else written.setdefault(region, [])).append(value or part)
    written |= {ALL: list(_of_all(regions))} if _of_all(regions) else {}
    written |= {f"{region}.{'|'.join(populations)}": list(lesions.KINDS)
                for region, cls in regions.items() if (populations := lesionable(cls))}
    return [f"{name}={'|'.join(values)}" for name, values in {**written, **parts}.items()]


def lesionable(cls: type[Region]) -> list[str]:
    """Names of a region's populations to whose spikes something can happen."""
    can = any(known.name == LESIONS for known in fields(cls.Parameters))
    return [population.name for population in cls.populations] if can else []


def _lesion(regions: Mapping[str, type[Region]], option: str) -> dict[str, Change]:
    """Parses an option REGION.POPULATION=KIND into the change that it makes; empty where it is none.

    Raises:
        ValueError: the region has no such population, or there is no such kind.
    """
    name, _, kind = option.partition("=")
    region, _, population = name.partition(".")
    if not population or region not in regions or not lesionable(regions[region]):
        return {}
    lesions.parse([f"{population}={kind}"], regions[region].populations, f"--ablate {option}")
    return {region: {LESIONS: (f"{population}={kind}",)}}


def _of_all(regions: Mapping[str, type[Region]]) -> list[str]:
    """Names that every network has."""
    networks = [of_region(cls) for cls in regions.values() if cls.network is not None]
    return [name for name in networks[0] if not {"=", ":"} & set(name) and all(name in other for other in networks)
            ] if networks else []


def _changes(regions: Mapping[str, type[Region]], option: str) -> dict[str, Change]:
    """Returns the changes that an option makes, by region; empty where there is no such option."""
    name, _, value = option.partition("=")
    if name == ALL:
        return {region: of_region(cls)[value] for region, cls in regions.items() if cls.network is not None
                } if value in _of_all(regions) else {}
    if name in regions:
        for written, change in of_region(regions[name]).items():
            before, colon, number = written.partition(":")
            if "=" not in written and colon and value.startswith(f"{before}:"):
                return {name: _with_number(regions[name], change, option, number)}
            if written == value and not colon:
                return {name: change}
    if found := _lesion(regions, option):
        return found
    for region, cls in regions.items():
        for written, change in of_region(cls).items():
            before, colon, number = written.partition(":")
            if "=" not in written:
                continue
            if written == option and not colon:
                found[region] = change
            elif colon and option.startswith(f"{before}:"):
                found[region] = _with_number(cls, change, option, number)
    return found


def _with_number(cls: type[Region], change: Mapping[str, Any], option: str, what: str) -> dict[str, Any]:
    """The parameters of an ablation in whose name a number stands.

    Raises:
        ValueError: it is no number, or out of the parameter's range.
    """
    (name,) = (name for name, value in change.items() if value == NUMBER)
    (known,) = (known for known in fields(cls.Parameters) if known.name == name)
    low, high = known.metadata["low"], known.metadata["high"]
    written, _, text = option.partition(":")
    try:
        filled = {**change, name: float(text)}
        check_parameters(cls.__name__, cls.Parameters, filled)
    except (ParameterError, ValueError):
        raise ValueError(f"--ablate {option}: {what.lower()} is a number from {low:g} to {high:g}, as in "
                         f"{written}:{(low + high) / 2:g}") from None
    return filled

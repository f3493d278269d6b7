# SPDX-License-Identifier: Apache-2.0
"""``brain fleet plan`` and ``brain fleet costs``."""
from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.command.options import (
    Domain, Json, Namespace, Router, Secure, fail, tell_json, use_domain, use_security)

EXAMPLE = "example"
KNOWN = "brain"     # the graph whose needs and costs come with the package
Graph = Annotated[str, typer.Argument(metavar="GRAPH", help="Graph: a name or a path.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it there, too.")]


def shipped(name: str) -> Path:
    """A file that comes with the package."""
    return Path(str(resources.files("brain_cloud.placement").joinpath("examples", name)))


def plan(graph: Graph,
         tiers: Annotated[str, typer.Argument(metavar="TIERS", help="File of the tiers, or example: the one that "
                                              "comes with the package.")],
         needs: Annotated[Path | None, typer.Option("--needs", metavar="FILE", help="Declared latency budgets. "
                                                    "Some come with the package for the graph brain; all others are "
                                                    "derived.")] = None,
         costs: Annotated[Path | None, typer.Option("--costs", metavar="FILE", help="What `brain fleet costs` told. "
                                                    "Default: what comes with it for the graph brain.")] = None,
         place: Annotated[list[str] | None, typer.Option("--place", metavar="REGION=TIER", help="A region is to live "
                                                         "there; may be given several times.")] = None,
         as_json: Json = False, out: Out = None) -> None:
    """Says where each region of a brain may live, where it should and why, and what each cut of a link would cost.

    The cheapest places are taken that keep all latency budgets, bandwidths, cores and memory. Exit status: 1 where
    there are none.
    """
    from brain_cloud.placement.demand import demand, regions_of
    from brain_cloud.placement.files import Needs, PlacementProblem, read_costs, read_needs
    from brain_cloud.placement.planning import plan as planned
    from brain_cloud.placement.planning import to_dict
    from brain_cloud.placement.rehearsal import rehearse
    from brain_cloud.placement.tiers import read_tiers

    asked = _asked(place or [])
    try:
        found_tiers = read_tiers(shipped("tiers.yaml") if tiers == EXAMPLE else Path(tiers))
        name, regions = regions_of(graph)
        if costs is None and name != KNOWN:
            fail(f"nothing is known of what graph {name} costs; while it runs: brain fleet costs {graph} --out FILE, "
                 f"and then give --costs FILE", 2)
        said = (read_needs(needs) if needs is not None else
                read_needs(shipped("brain.needs.yaml")) if name == KNOWN else Needs())
        wanted = demand(name, regions, read_costs(costs or shipped("brain.costs.json")), said, found_tiers, asked)
        found = planned(wanted, found_tiers)
        predicted = {chain.name: rehearse(wanted, found_tiers, found.place, chain) for chain in wanted.chains}
    except PlacementProblem as problem:
        fail(str(problem))
    plain = to_dict(wanted, found_tiers, found, predicted)
    if out is not None:
        _write(out, plain)
    if as_json:
        tell_json(plain)
        return
    from brain_cloud.placement.words import told
    from brain_runtime.command.terminal import Terminal

    Terminal().print(told(wanted, found_tiers, found, predicted), soft_wrap=False)


def costs(graph: Graph = KNOWN,
          seconds: Annotated[float, typer.Option(min=1.0, max=3600.0, help="How long to listen.")] = 20.0,
          as_json: Json = False, out: Out = None, router: Router = None, secure: Secure = None, domain: Domain = None,
          namespace: Namespace = "") -> None:
    """Measures what each region of a brain costs that is at work on this machine, for `brain fleet plan`.

    Of each region: cores, memory (PSS), steps; of each topic: messages and bytes. Let it do meanwhile what it is for.
    """
    use_domain(domain)
    use_security(secure)
    from brain_cloud.placement.demand import regions_of, types_of
    from brain_cloud.placement.files import PlacementProblem
    from brain_cloud.placement.measuring import measure
    from brain_wire import NameProblem, NoRouter, SessionProblem, open_node

    try:
        name, regions = regions_of(graph)
        with open_node("brain_costs", namespace or "/", router=router) as node:
            found = measure(node, name, regions, types_of(graph), seconds).to_dict()
    except (PlacementProblem, NoRouter, SessionProblem, NameProblem) as problem:
        fail(str(problem))
    except KeyboardInterrupt:
        fail("interrupted; nothing was measured", 130)
    if out is not None:
        _write(out, found)
    if as_json:
        tell_json(found)
        return
    from brain_cloud.placement.words import costs_told
    from brain_runtime.command.terminal import Terminal

    Terminal().print(costs_told(found), soft_wrap=False)


def _asked(place: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in place:
        region, equals, tier = one.partition("=")
        if not (region and equals and tier):
            fail(f"--place {one!r} must read REGION=TIER, as pfc=access", 2)
        if region in found:
            fail(f"--place says twice where {region} is to live; leave one away", 2)
        found[region] = tier
    return found


def _write(path: Path, found: Any) -> None:
    """Writes plain values as JSON, which is YAML too, all at once."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)
    except (OSError, ValueError) as error:
        fail(f"cannot write {path}: {getattr(error, 'strerror', None) or error}; name another file with --out")

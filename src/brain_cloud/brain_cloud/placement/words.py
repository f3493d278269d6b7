# SPDX-License-Identifier: Apache-2.0
"""A plan in words and tables, for a terminal."""
from __future__ import annotations

from typing import Any, Mapping

from rich.console import Group
from rich.table import Table
from rich.text import Text

from brain_cloud.placement.demand import Demand
from brain_cloud.placement.planning import Plan
from brain_cloud.placement.tiers import Tiers
from brain_edge.processes.tables import new_table

SHOWN = 6       # budgets that bind nothing, the nearest to their limits


def told(demand: Demand, tiers: Tiers, plan: Plan, predicted: Mapping[str, Any]) -> Any:
    """All that a person wants to know of a plan, as a Rich renderable."""
    return Group(_places(demand, tiers, plan), *_heading(f"{plan.price:.4g} an hour; what decides it:"),
                 _limits(plan), *_predicted(predicted), *_cuts(plan), *_without(plan))


def _heading(text: str) -> list[Text]:
    return [Text(), Text(text, "bold")]


def _places(demand: Demand, tiers: Tiers, plan: Plan) -> Group:
    table = new_table("region", "should live on", "may live on", "why there")
    reasons: dict[str, list[str]] = {}
    for name, tier in plan.place.items():
        may = plan.may[name]
        table.add_row(name, Text(tier, "green"), ", ".join(one for one in tiers.names if not may[one]), plan.why[name])
        if name not in demand.fixed:
            for other in tiers.names:
                if may[other]:
                    reasons.setdefault(f"{name}\0{may[other]}", []).append(other)
    lines = []
    for key, where in reasons.items():
        name, _, why = key.partition("\0")
        lines.append(Text(f"{name} cannot live on {', '.join(where)}: {why}", "dim"))
    return Group(table, *([Text(), *lines] if lines else []))


def _limits(plan: Plan) -> Table:
    table = new_table("limit", "spent", "of", "", "where it comes from")
    binding = plan.binding
    near = sorted((one for one in plan.limits if not one.saves and one.spent > 0),
                  key=lambda one: -one.spent / one.limit if one.limit else 0.0)[:SHOWN]
    for one in [*binding, *near]:
        table.add_row(Text(one.name, "yellow" if one.saves else ""), f"{one.spent:.4g}", f"{one.limit:.4g} {one.unit}",
                      f"binds: {one.saves:.4g} an hour less without it" if one.saves else "", one.why)
    return table


def _predicted(predicted: Mapping[str, Any]) -> list[Text]:
    found = []
    for name, one in predicted.items():
        times = ("nothing comes through" if one["p50"] is None else
                 f"p50 {1e3 * one['p50']:.1f} ms, p95 {1e3 * one['p95']:.1f} ms")
        found.append(Text(f"{name}: predicted {times}"))
    return [*_heading("how long its chains take:"), *found] if found else []


def _cuts(plan: Plan) -> list[Text]:
    found = _heading("what a cut of a link would cost:")
    for cut in plan.cuts:
        lost = f"loses {', '.join(cut.lost)}. " if cut.lost else ""
        found.append(Text(f"{cut.link}: {lost}" + "; ".join(cut.left)))
        if cut.missing:
            found.append(Text("  then missing: " + "; ".join(f"{', '.join(topics)} to {name}"
                                                             for name, topics in cut.missing.items()), "dim"))
        if cut.chains:
            found.append(Text(f"  broken: {', '.join(cut.chains)}", "dim"))
    return found


def _without(plan: Plan) -> list[Text]:
    found = [Text(f"{name}: {what}") for name, what in plan.without.items()]
    return [*_heading("what it would cost to be without the link of a region alone:"), *found] if found else []


def costs_told(found: Mapping[str, Any]) -> Any:
    """Formats what was measured, as :meth:`.files.Costs.to_dict` has it, as a Rich renderable."""
    regions = new_table("region", "cores", "MB", "step p50, ms", "p99")
    topics = new_table("topic", "Hz", "bytes", "kB/s")
    for name, one in found["regions"].items():
        regions.add_row(name, *(f"{one[key]:.4g}" for key in ("cores", "memory_mb", "step_ms", "step_p99_ms")))
    for name, one in found["topics"].items():
        topics.add_row(name, f"{one['hz']:.4g}", f"{one['bytes']}", f"{1e-3 * one['hz'] * one['bytes']:.4g}")
    return Group(regions, Text(), topics, Text(), Text(
        f"{found['measured']}; from publishing to receipt {found['hop_ms']:.3g} ms (p50), {found['hop_p99_ms']:.3g} ms "
        f"(p99)"))

# SPDX-License-Identifier: Apache-2.0
"""Dry run: what would run, in lines for a person; for ``brain up --dry-run`` and launch's ``dry_run:=true``."""
from __future__ import annotations

from typing import Any, Collection

from brain_runtime.graph.resolved import Resolved, ResolvedRegion

LONGEST = 60    # characters of a parameter's value
HEADS = ("region", "class", "critical", "restart", "")


def lines(resolved: Resolved, only: Collection[str] | None = None, one_process: bool = False) -> list[str]:
    """A table of the regions, and below each what it is given, hears and publishes.

    Args:
        only: names of the regions that are wanted; None: all.
        one_process: those that can share a process do.
    """
    wanted = [region for region in resolved.regions if only is None or region.name in only]
    shared = [region.name for region in wanted if one_process and region.shares]
    rows = [HEADS, *((region.name, region.cls, "yes" if region.critical else "no", region.restart,
                      "in one process" if region.name in shared else _whose(region)) for region in wanted)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEADS))]
    table = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows]
    started = sum(region.shards for region in wanted if not region.external) - max(0, len(shared) - 1)
    processes = "1 process" if started == 1 else f"{started} processes"
    found = [f"graph {resolved.name}, robot {resolved.robot or 'none'}, world {resolved.world}, host {resolved.host}, "
             f"namespace {resolved.namespace}: {processes} would be started", table[0]]
    for region, row in zip(wanted, table[1:]):
        found += [row, *(f"    {what}: {text}" for what, text in _more(region) if text)]
    return found


def _whose(region: ResolvedRegion) -> str:
    whose = ["of the world"] if region.device else []
    whose += ["run by others"] if region.external else []
    whose += [_spread(region)] if region.shards > 1 else []
    return ", ".join([*whose, *([f"a copy of {region.copies}"] if region.copies else [])])


def _spread(region: ResolvedRegion) -> str:
    return f"spread over {region.shards} processes by {region.backend}"


def _more(region: ResolvedRegion) -> list[tuple[str, str]]:
    return [("parameters", ", ".join(f"{name} {_value(value)}" for name, value in region.changed.items())),
            ("hears", ", ".join(region.hears)), ("publishes", ", ".join(region.publishes)),
            ("serves", ", ".join(region.actions))]


def _value(value: Any) -> str:
    text = f"[{', '.join(map(str, value))}]" if isinstance(value, (list, tuple)) else str(value)
    return text if len(text) <= LONGEST else text[:LONGEST - 3] + "..."

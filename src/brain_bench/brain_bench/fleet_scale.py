# SPDX-License-Identifier: Apache-2.0
"""``brain bench fleet-scale``: the verb. What it measures is in :mod:`.bench_fleet_scale`, the rest in the model."""
from __future__ import annotations

from typing import Annotated, Any

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

LARGE = (1_000, 10_000)     # robots that are calculated and simulated


def fleet_scale(robots: Annotated[str, typer.Option(metavar="N,N,...", help="Numbers of robots at one cloud.")
                                  ] = "10,50,100,200",
                idle: Annotated[float, typer.Option(min=2, max=300, help="How long nothing is ordered (s).")] = 15.0,
                orders: Annotated[int, typer.Option(min=1, max=100, help="Given to all robots.")] = 5,
                burst: Annotated[int, typer.Option(min=1, max=1000, help="Messages of each robot at once.")] = 20,
                seed: Annotated[int, typer.Option(min=0, help="Of the simulation.")] = 0,
                as_json: Json = False) -> None:
    """Measures what grows with the robots of a fleet at one cloud; 1,000 and 10,000 robots from the measured costs.

    Robots are real edges without a brain, 25 in a process. Exit status 0 when of each size 99 of 100 robots applied an
    order within a second.
    """
    import signal
    import sys

    from brain_bench import fleet_scale_model
    from brain_bench.bench_fleet_scale import FleetScaleProblem, measure, within
    from brain_fleet.processes.asking import NoCloud
    from brain_runtime.command.terminal import Terminal

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))    # so that all ends that was started
    sizes = []
    try:
        with Terminal(stderr=True).status("starting") as shown:
            for count in _numbers(robots):
                sizes.append(measure(count, shown.update, idle, orders, burst))
    except (FleetScaleProblem, NoCloud, OSError) as problem:
        fail(str(problem))
    found: dict[str, Any] = {"sizes": sizes, "busy_machine": any(one["waited"] > 0.2 for one in sizes)}
    if len(sizes) > 1:
        costs = fleet_scale_model.fit(sizes)
        found |= {"costs": {name: value._asdict() if hasattr(value, "_asdict") else value
                            for name, value in costs._asdict().items()},
                  "most_robots": fleet_scale_model.most_robots(costs), "check": fleet_scale_model.check(
                      costs, sizes, seed), "larger": [fleet_scale_model.larger(costs, count, seed) for count in LARGE]}
    if as_json:
        tell_json(found)
    else:
        _show(found)
    raise typer.Exit(0 if within(sizes) else 1)


def _numbers(text: str) -> list[int]:
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        fail(f"--robots {text[:80]}: give whole numbers with commas between, as 10,50", 2)
    if not all(1 <= count <= 1000 for count in found):
        fail(f"--robots {text[:80]}: each from 1 to 1000", 2)
    return found


def _show(found: dict[str, Any]) -> None:
    for one in found["sizes"]:
        tell(f"{one['robots']} robots: cloud {one['cloud_pss'] / 1e6:.0f} MB, {one['idle_core']:.1%} of a core when "
             f"nothing is ordered; an order is applied after {1e3 * one['applied_p50']:.0f} ms (p50), "
             f"{1e3 * one['applied_p99']:.0f} ms (p99); {one['messages_per_s']:.0f} messages a second; a robot "
             f"{one['robot_pss'] / 1e6:.1f} MB; the cloud waited for a core in {one['waited']:.0%} of the time it "
             f"wanted one")
    if found["busy_machine"]:
        tell("the machine was busy with other things: times are those of such a machine", "yellow")
    for one in found.get("check", ()):
        tell(f"{one['robots']} robots simulated: p50 {one['applied_p50']['ratio']:.2f}, p99 "
             f"{one['applied_p99']['ratio']:.2f} of what was measured")
    for one in found.get("larger", ()):
        tell(f"{one['robots']} robots would take {one['one_cloud_core']:.2f} cores of one cloud when nothing is "
             f"ordered, calculated. Divided among {one['clouds']}: {one['cloud_pss'] / 1e6:.0f} MB and "
             f"{one['idle_core']:.2f} cores each, and an order is applied after {one['applied_p50']:.2f} s (p50), "
             f"{one['applied_p99']:.2f} s (p99), simulated")
    if "most_robots" in found:
        tell(f"one cloud carries {found['most_robots']} robots")

# SPDX-License-Identifier: Apache-2.0
"""Model of larger fleets from the measured sizes: straight lines, and a simulation of the cloud's queue.

The cloud is one process, and one thing at a time has its interpreter: so it is simulated as one server that takes each
piece of work after those before it, as long as it was measured to compute for one. Work is: a robot's delivery every
few seconds, whether it has something or not; an order, which is written down for each robot; its delivery to each;
and the report of each. What the network and the robots take is one figure, which is such that the median of the
smallest measured size is met; the other sizes then show how good the simulation is. It knows nothing of others that
want the same cores: on a busy machine the slowest robots wait longer than it says.
"""
from __future__ import annotations

import heapq
import random
from typing import Any, NamedTuple, Sequence

from brain_edge.processes.edge import KEEPALIVE
from experiments.scale import quantile
from experiments.scale_model import Line, ModelProblem, line

BEFORE = 2 * KEEPALIVE      # s that are simulated before an order
FULL = 0.7                  # of a core, that a cloud may take when nothing is ordered: the rest is for orders


class Costs(NamedTuple):
    """Of the cloud, as measured.

    Attributes:
        memory: of its process (PSS, bytes), over robots.
        idle: of a core when nothing is ordered, over robots.
        delivery: core time for one delivery of a robot (s).
        order: time in which an order is written down for one robot (s).
        told: core time for delivering an order to one robot, and for its report (s).
        message: core time for one message of many (s).
        beyond: what else passes until an order is applied (s).
    """

    memory: Line
    idle: Line
    delivery: float
    order: float
    told: float
    message: float
    beyond: float


def fit(sizes: Sequence[dict[str, Any]]) -> Costs:
    """Costs from what :mod:`experiments.fleet_scale` reports of at least two sizes.

    Raises:
        ModelProblem: they are too few.
    """
    if len({one["robots"] for one in sizes}) < 2:
        raise ModelProblem("two sizes at least must be measured: --robots 10,50")
    count = [one["robots"] for one in sizes]
    idle = line(count, [one["idle_core"] for one in sizes])
    largest, smallest = max(sizes, key=lambda one: one["robots"]), min(sizes, key=lambda one: one["robots"])
    order = max(1e-6, line(count, [one["order_answered"] for one in sizes]).slope)
    whole = (largest["orders_ran"] - largest["idle_core"] * largest["orders_lasted"]) / (
        largest["orders"] * largest["robots"])
    costs = Costs(line(count, [one["cloud_pss"] for one in sizes]), idle,
                  max(1e-6, idle.slope * KEEPALIVE), order, max(1e-6, whole - order),
                  largest["burst_ran"] / largest["burst"], 0.0)
    took = simulate(costs, smallest["robots"], 0)
    return costs._replace(beyond=max(0.0, smallest["applied_p50"] - took["applied_p50"]))


def simulate(costs: Costs, robots: int, seed: int) -> dict[str, float]:
    """Simulates the time until an order is applied by all of so many robots (s); the cloud serves one at a time."""
    rng = random.Random(seed)
    work: list[tuple[float, int, float, int]] = []      # when it comes, its number, how long it takes, whose order
    number = 0

    def put(at: float, takes: float, whose: int = -1) -> None:
        nonlocal number
        number += 1
        heapq.heappush(work, (at, number, takes, whose))

    for _ in range(robots):
        at = rng.uniform(0.0, KEEPALIVE)
        while at < BEFORE + KEEPALIVE:
            put(at, costs.delivery)
            at += KEEPALIVE
    put(BEFORE, costs.order * robots, -2)
    free, applied, busy = 0.0, [], 0.0
    while work:
        at, _, takes, whose = heapq.heappop(work)
        free = max(free, at) + takes
        busy += takes if at < BEFORE else 0.0
        if whose == -2:         # it is written down: now it is delivered to one robot after the other
            for robot in range(robots):
                put(free, costs.told / 2, robot)
        elif whose >= 0:
            applied.append(free - BEFORE + costs.beyond)
            put(free + costs.beyond, costs.told / 2)        # its report
    applied.sort()
    return {"robots": robots, "applied_p50": quantile(applied, 0.5), "applied_p99": quantile(applied, 0.99),
            "applied_longest": applied[-1], "busy_before": busy / BEFORE}


def check(costs: Costs, sizes: Sequence[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """The simulation beside what was measured: ratios of 1 are good."""
    found = []
    for one in sizes:
        simulated = simulate(costs, one["robots"], seed)
        found.append({"robots": one["robots"], **{
            name: {"measured": one[name], "simulated": simulated[name], "ratio": simulated[name] / one[name]}
            for name in ("applied_p50", "applied_p99")}})
    return found


def most_robots(costs: Costs) -> int:
    """Computes how many robots one cloud carries when it may take :data:`FULL` of a core while nothing is ordered."""
    return max(1, int((FULL - costs.idle.at) / max(1e-9, costs.idle.slope)))


def larger(costs: Costs, robots: int, seed: int) -> dict[str, Any]:
    """Estimates the cost of so many robots: memory and core calculated, an order's way simulated.

    Where one cloud does not carry them, they are divided among as many as do; then memory is of each of these, and the
    order is given to all of them at once. ``keepalive`` is the time between two deliveries of a robot (s) with which
    one cloud would carry them.
    """
    clouds = -(-robots // most_robots(costs))
    each = -(-robots // clouds)
    return {"robots": robots, "one_cloud_core": costs.idle(robots), "clouds": clouds, "each": each,
            "cloud_pss": costs.memory(each), "idle_core": costs.idle(each), "deliveries_per_s": each / KEEPALIVE,
            "keepalive": KEEPALIVE * max(1.0, robots / most_robots(costs)), **simulate(costs, each, seed)
            | {"robots": robots}}

# SPDX-License-Identifier: Apache-2.0
"""Worth of the prefrontal cortex's memory: how well it knows what it does not see, and what a snapshot saves.

Both run in lockstep, in the simulator, with the real vision. ``hidden``: the robot looks about for a second, its eyes
are shut, and it drives for twenty; where does it believe the things to be that it saw? ``restored``: the robot turns
about once; the prefrontal cortex is killed; what comes back, with what it remembered or with nothing, is sent to an
object that was seen and is behind or beside the robot now. The same seeds, the same turn up to the kill.
"""
from __future__ import annotations

import math
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment, Jobs
from brain_eval.episodes import SETTLE, text_message
from brain_eval.lockstep import lockstep_parts
from brain_regions.pfc.control import S_REACHED
from brain_regions.pfc.in_front import LOOKING
from brain_runtime.command.options import fail
from brain_runtime.contract.sights import kind
from brain_runtime.graph.rooms import Split
from brain_runtime.hosts.local import LocalHost
from brain_sim.controls import Tour
from brain_sim.geometry import wrap_angle
from brain_sim.intervals import bootstrap
from brain_sim.robot import BASE_RADIUS, REACH

SEEN, HIDDEN = 1.0, 20.0    # s
TURN = 0.8                  # rad/s, as the robot looks about
ASIDE = math.pi / 4         # rad beyond which the camera does not see
DEAD = 1.0                  # s that the prefrontal cortex is away
LIMIT = 60.0                # s that counts where the object was not reached
LIMBS = ("motor", "brainstem")      # join when the robot has looked about
SURE = 0.5                  # belief from which on something counts as seen
NEAR = 0.6                  # m between what is believed and what is there, for it to be the same


def hidden(split: str, seed: int) -> list[dict[str, float]]:
    """Errors of memory in one room, after driving with shut eyes.

    Returns:
        For each object that was seen: ``bearing_error`` (rad; pi where it was forgotten), ``distance_error`` (share),
        ``distance`` (m).
    """
    regions, parameters, critical = lockstep_parts(split, seed, keep={"world", "camera", "vision", "pfc"})
    host = LocalHost(regions, seed=seed, critical=critical, parameters=parameters)
    remembered: list[Any] = []
    host.listen("pfc/memory", lambda m: remembered.__setitem__(slice(None), m.objects))
    host.advance(SEEN)
    sim = host.regions["world"].simulation
    seen = _seen(sim, remembered)
    host.kill("vision")
    tour = Tour(None, sim)
    for _ in range(round(HIDDEN / 0.05)):
        sim.command(*tour.command())
        host.advance(0.05)
    errors = []
    for thing in seen:
        bearing, distance = _true(thing, sim)
        found = _of(thing, remembered, sim)
        errors.append({
            "bearing_error": math.pi if found is None else abs(wrap_angle(float(found.bearing) - bearing)),
            "distance_error": math.nan if found is None else abs(float(found.distance) - distance) / distance,
            "distance": distance})
    return errors


def restored(split: str, seed: int) -> dict[str, Any] | None:
    """Time to a remembered object with what was remembered and with nothing.

    Returns:
        ``restored`` and ``blank``: s from the sentence to standing before the object, at most :data:`LIMIT`; None where
        the room does not serve: nothing that was seen, and is the only one of its kind, is out of view.
    """
    found: dict[str, Any] = {"seed": seed}
    for how in ("restored", "blank"):
        regions, parameters, critical = lockstep_parts(split, seed)
        limbs = {name: regions.pop(name) for name in LIMBS}
        host = LocalHost(regions, seed=seed, critical=critical - set(limbs), parameters=parameters)
        remembered: list[Any] = []
        host.listen("pfc/memory", lambda m, r=remembered: r.__setitem__(slice(None), m.objects))
        sim = host.regions["world"].simulation
        host.advance(SETTLE)
        sim.command(0.0, TURN)
        for _ in range(round(2 * math.pi / TURN / 0.05)):
            sim.command(0.0, TURN)
            host.advance(0.05)
        sim.command(0.0, 0.0)
        known = [thing for thing in _seen(sim, remembered) if abs(_true(thing, sim)[0]) > ASIDE
                 and sum(t.kind == thing.kind for t in sim.room.objects) == 1]
        if not known:
            return None
        goal = max(known, key=lambda thing: abs(_true(thing, sim)[0]))
        left = host.kill("pfc")
        host.advance(DEAD)
        again = type(left.region)("pfc")
        host.join("pfc", again)
        if how == "restored":
            host.kill("pfc")
            host.join("pfc", again, state=again.restore({n: np.asarray(v) for n, v in left.state.items()}))
        for name, region in limbs.items():
            host.join(name, region)
        host.advance(0.2)
        found[how] = _go(host, sim, goal)
    return found


def difference(pairs: list[dict[str, Any]]) -> dict[str, float]:
    """Mean of restored minus blank (s) with its 95 % interval, by bootstrap; NaN where all pairs differ by the same."""
    steps = np.array([p["restored"] - p["blank"] for p in pairs])
    low, high = bootstrap(steps) or (math.nan, math.nan)
    return {"n": len(steps), "mean": float(steps.mean()), "low": low, "high": high,
            "restored": float(np.mean([p["restored"] for p in pairs])),
            "blank": float(np.mean([p["blank"] for p in pairs]))}


def _seen(sim: Any, remembered: list[Any]) -> list[Any]:
    """Lists the things that are surely remembered, and where they are."""
    return [thing for thing in sim.room.objects if (found := _of(thing, remembered, sim)) is not None
            and found.confidence >= SURE and apart(thing, found, sim) < NEAR]


def _go(host: LocalHost, sim: Any, thing: Any) -> float:
    """Says that the robot is to go to a thing; s until it stands before it, at most :data:`LIMIT`."""
    host.publish("goal/text", text_message(f"go to the {thing.color} {thing.shape}"))
    begin = host.now
    while host.now - begin < LIMIT:
        host.advance(0.1)
        status = host.latest("goal/status")
        near = thing.footprint.distance_at(sim.x, sim.y) < BASE_RADIUS + REACH
        if status is not None and (status.state == S_REACHED or status.reason == LOOKING) and near:
            return host.now - begin
    return LIMIT


def _of(thing: Any, remembered: list[Any], sim: Any) -> Any | None:
    """Finds what is remembered of a thing: the nearest of its color and shape; None: nothing."""
    same = [m for m in remembered if (m.color, m.shape) == kind(thing.color, thing.shape)]
    return min(same, key=lambda m: apart(thing, m, sim), default=None)


def _true(thing: Any, sim: Any) -> tuple[float, float]:
    x, y = thing.x - sim.x, thing.y - sim.y
    return wrap_angle(math.atan2(y, x) - sim.yaw), math.hypot(x, y)


def apart(thing: Any, found: Any, sim: Any) -> float:
    """Distance (m) between a thing and where something is said to be: ``bearing`` (rad), ``distance`` (m)."""
    bearing, distance = _true(thing, sim)
    return math.hypot(distance * math.cos(bearing) - found.distance * math.cos(found.bearing),
                      distance * math.sin(bearing) - found.distance * math.sin(found.bearing))


class Memory(Experiment):
    """Measures what the prefrontal cortex remembers, and what a snapshot of it saves.

    Where are things that were seen for 1 s, after 20 s of driving with shut eyes? And how long does it take to an
    object that was seen before, with its memory restored after a crash and with a blank one?

    Exit status 0 when the median error of the bearing is at most 15 degrees and the restored memory is faster, with an
    interval that excludes 0.
    """

    quick = {"rooms": 1, "pairs": 1}

    def measure(self, rooms: Annotated[int, typer.Option(min=0, help="Rooms to drive through with shut eyes.")] = 40,
                pairs: Annotated[int, typer.Option(min=0, help="Pairs of runs with and without what was remembered.")
                                 ] = 40,
                split: Annotated[Split, typer.Option(help="Rooms: train, val or test.")] = Split.val,
                seed: Annotated[int, typer.Option(min=0, help="Seed of the rooms.")] = 0, jobs: Jobs = 1
                ) -> dict[str, Any]:
        """Takes both; see :func:`hidden` and :func:`restored`."""
        if not (rooms or pairs):
            fail("--rooms 0 and --pairs 0 leave nothing to measure", 2)

        def played(work: Any, first: int, count: int) -> list[Any]:
            items = [(split.value, seed * 10_000 + first + number) for number in range(count)]
            return self.side_by_side(work, items, jobs, f"rooms, {work.__name__}")

        errors = [error for found in played(hidden, 0, rooms) for error in found]
        times: list[dict[str, Any]] = []
        tried = 0
        while (left := pairs - len(times)) > 0:     # not every room serves
            times += [found for found in played(restored, tried, left) if found is not None]
            tried += left
        report: dict[str, Any] = {"split": split.value, "seed": seed, "objects": len(errors), "hidden": errors,
                                  "restored": times}
        if errors:
            report["median_bearing_error_degrees"] = math.degrees(median(e["bearing_error"] for e in errors))
        if len(times) > 1:
            report["difference"] = difference(times)
        return report

    def good(self, found: dict[str, Any]) -> bool:
        return (found.get("median_bearing_error_degrees", 0.0) <= 15.0
                and ("difference" not in found or found["difference"]["high"] < 0))

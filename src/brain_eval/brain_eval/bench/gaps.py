# SPDX-License-Identifier: Apache-2.0
"""``brain bench gaps``: how long ``cmd_vel`` is silent when a working brain's brainstem or router is killed."""
from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Annotated, Any, Callable, Iterator

import typer

from brain_eval.bench.experiment import Experiment, alone
from brain_wire.temporary_folder import TemporaryFolder

BOUNDS = {"brainstem": 1.5, "router": 0.7}  # s, for the median
READY = 60.0        # s after which a brain counts as not coming up
AGAIN = 30.0        # s in which commands must have come again
WATCHED = 2.0       # s after a kill in which the longest silence is looked for
SETTLE = 4.0        # s at work between two kills; a spare process is ready again after about half of it
SPLIT, SEED = "val", 5


def measure(folder: Path, *, kills: int, endpoint: str, domain: int, console: Any, stop: Any
            ) -> dict[str, list[float]]:
    """Kills the brainstem and the router by turns, so many times each, while the robot looks for what is not there.

    Returns:
        By process the longest silence (s) between two commands that followed each kill.

    Raises:
        GraphError, StartError, NoRouter: it does not come up.
        TimeoutError: after a kill no command came any more.
    """
    from brain_eval.shown_stage import ShownStage
    from brain_sim.room import generate_room
    from brain_wire import open_node
    from brain_wire.qos import FEATURE

    stage = ShownStage("brain", folder, split=SPLIT, seed=SEED, router=endpoint, domain=domain, stop=stop,
                       console=console, request={"split": SPLIT, "seed": SEED})
    gaps: dict[str, list[float]] = {name: [] for name in BOUNDS}
    try:
        stage.start(READY)
        there = {(o.color, o.shape) for o in generate_room(SPLIT, SEED).objects}
        absent = next((c, s) for c in ("red", "green", "blue", "yellow") for s in ("ball", "box", "cylinder")
                      if (c, s) not in there)
        with open_node("bench_gaps", domain=domain, router=endpoint) as node:
            commands = node.subscription("cmd_vel", "geometry_msgs/msg/TwistStamped", FEATURE.with_depth(1000))
            for _ in range(kills):
                for name in BOUNDS:
                    stage.speaker.say(f"find the {absent[0]} {absent[1]}")
                    _round(stage, SETTLE, lambda: False)
                    if not _round(stage, AGAIN, stage.supervised.ready):
                        raise TimeoutError("; ".join(stage.supervised.missing()) or "the brain is not ready again")
                    times = [arrival.received for arrival in commands.take()][-1:]
                    stage.supervised.supervisor.kill(name)
                    killed = time.monotonic()

                    def again() -> bool:
                        times.extend(arrival.received for arrival in commands.take())
                        return times[-1] > killed + WATCHED
                    if not times or not _round(stage, AGAIN, again):
                        raise TimeoutError(f"no commands within {AGAIN:g} s after {name} was killed")
                    gaps[name].append(max(after - before for before, after in zip(times, times[1:])))
                    console.tell(f"{name} killed: silent for {gaps[name][-1]:.2f} s")
    finally:
        stage.close()
    return gaps


def _round(stage: Any, seconds: float, condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until or stage.stopped:
            return False
        stage.round()
    return True


class Gaps(Experiment):
    """Kills the brainstem and the router of a brain at work, and measures how long cmd_vel is silent.

    It has a router of its own, and is heard from outside. Exit status 0 when the silence is at most 1.5 s after the
    brainstem was killed, and 0.7 s after the router was, in the median.
    """

    cpu = True
    quick = {"kills": 1}

    def measure(self, kills: Annotated[int, typer.Option(min=1, help="Of each of the two.")] = 20) -> dict[str, Any]:
        """Kills both by turns; see :func:`measure`."""
        from brain_runtime.command.terminal import Terminal

        stop, endpoint, domain = alone()
        with TemporaryFolder("bench") as folder:
            found = measure(Path(folder), kills=kills, endpoint=endpoint, domain=domain,
                            console=Terminal(stderr=True), stop=stop)
        return {name: {"n": len(times), "median": statistics.median(times), "longest": max(times),
                       "bound": BOUNDS[name], "seconds": times} for name, times in found.items()}

    def rows(self, found: dict[str, Any]) -> Iterator[str]:
        for name, r in found.items():
            yield (f"{name} killed: silent for {r['median']:.2f} s (median of {r['n']}; longest {r['longest']:.2f} s; "
                   f"at most {r['bound']:g} s in the median)")

    def good(self, found: dict[str, Any]) -> bool:
        return all(r["median"] <= r["bound"] for r in found.values())

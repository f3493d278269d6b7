# SPDX-License-Identifier: Apache-2.0
"""``brain bench one-process``: memory, latency and work of a brain in one process, beside one process a region."""
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any, Sequence

import typer

from brain_eval.bench.experiment import Experiment, alone
from brain_eval.stage import Stage
from brain_sim.room import generate_room
from brain_wire.temporary_folder import TemporaryFolder
from experiments.costs import core_time, pss

READY = 240.0       # s after which it counts as not coming up
OTHERS = ("router", "world", "camera")      # what is no region of the brain


def at_work(folder: Path, *, one_process: bool, seconds: float, seed: int, endpoint: str, domain: int, stop: Any
            ) -> dict[str, Any]:
    """Lets a brain look for one object of a room after the other, and takes its figures.

    Returns:
        ``ready_after`` (s), ``latency`` from camera to cmd_vel (``n``, ``p50`` and ``p95`` in s), ``processes`` of
        regions, and of these in sum ``pss_mb``, ``rss_mb`` and ``cores`` (s of processor time for each s).

    Raises:
        GraphError, StartError, NoRouter: it does not come up.
    """
    stage = Stage("brain", folder, split="val", seed=seed, router=endpoint, domain=domain, stop=stop,
                  request={"split": "val", "seed": seed}, one_process=one_process)
    try:
        stage.start(READY)
        things = [f"find the {o.color} {o.shape}" for o in generate_room("val", seed).objects]
        supervisor, ear = stage.supervised.supervisor, stage.supervised.ear
        pids = [supervisor.pid(name) for name in supervisor.names if name not in OTHERS]
        began, before = time.monotonic(), _worked(pids)
        for thing in things:
            stage.speaker.say(thing)
            stage.settle(seconds / len(things))
        took = time.monotonic() - began
        assert ear is not None, "it is started"
        return {"one_process": one_process, "ready_after": stage.ready_after, "latency": ear.latency.report(),
                "processes": len(pids), "cores": round((_worked(pids) - before) / took, 2),
                "pss_mb": _memory(pids, "Pss"),
                "rss_mb": _memory(pids, "Rss")}
    finally:
        stage.close()


def _worked(pids: Sequence[Any]) -> float:
    return sum(core_time(pid) or 0.0 for pid in pids)


def _memory(pids: Sequence[Any], kind: str) -> float:
    """Of all together (MB)."""
    return round(sum(pss(pid, kind) for pid in pids) / 2**20, 1)


class OneProcess(Experiment):
    """Measures what one process for all regions but the brainstem saves and costs, beside one process a region.

    Memory and processor time are those of the regions, without the simulated world and the router. How busy the machine
    was is told as its load before each.
    """

    quick = {"seconds": 5.0, "pairs": 1}
    cpu = True

    def measure(self, seconds: Annotated[float, typer.Option(min=5, help="How long each brain is at work.")] = 30.0,
                pairs: Annotated[int, typer.Option(min=1, help="Brains of each kind, by turns.")] = 2,
                seed: Annotated[int, typer.Option(min=0, help="Seed of the room.")] = 5) -> dict[str, Any]:
        """Takes the figures of each brain; see :func:`at_work`."""
        stop, endpoint, domain = alone()
        found = []
        for number in range(2 * pairs):
            self.status(f"{number} of {2 * pairs} brains")
            load = os.getloadavg()[0]
            with TemporaryFolder("bench") as folder:
                found.append({"load": round(load, 1), **at_work(
                    Path(folder), one_process=bool(number % 2), seconds=seconds, seed=seed, endpoint=endpoint,
                    domain=domain, stop=stop)})
        return {"runs": found}

# SPDX-License-Identifier: Apache-2.0
"""A training of the tiny task whose ranks may die: ``FOLDER PLAN PERIOD SURVIVORS HOLDS``; ranks have ``rank`` too.

HOLDS is a list of steps, as ``20,35``, after which the first rank waits for the file FOLDER/on-STEP; ``end``: while it
examines the network; ``torn-STEP``: the last rank dies in the step after that, when rank 0 has heard of it what belongs
to the step, and nobody else has. A line for each step of the first rank goes to FOLDER/log.
"""
from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import parallel_tasks as tasks
import torch

from brain_training.parallel import ranks, surviving, watch
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.parallel.plan import maker, parse
from brain_training.parallel.surviving import Survivors
from brain_training.settings import Settings
from brain_training.task import TrainingError

folder, holds = Path(sys.argv[1]), sys.argv[5].split(",")
how = How(parse(sys.argv[2]), "zenoh", exact=True, survive=True, survivors=int(sys.argv[4]))
rank = int(os.environ.get("RANK", "-1"))


def hold(where: object) -> None:
    """Waits, where that is asked for."""
    while str(where) in holds and not (folder / f"on-{where}").exists():
        time.sleep(0.02)


def tear(trainer: Any) -> None:
    """Has a rank send its last message to rank 0 alone, and die when that one has done the step."""
    step = next((int(its.removeprefix("torn-")) for its in holds if its.startswith("torn-")), -1)
    gathered = trainer.gathered

    def die() -> None:
        while not any(line.startswith(f"{step + 1} ") for line in (folder / "log").read_text().splitlines()):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)

    def last(lost: Any) -> Any:
        if trainer.step == step:
            link = trainer.ranks.group.wire.link
            send = link.send
            link.send = lambda to, *more: send((0,), *more)
            threading.Thread(target=die, daemon=True).start()
        return gathered(lost)

    trainer.gathered = last


def main() -> None:
    """Trains as one of the ranks."""
    torch.set_num_threads(1)
    with ranks.joined(Settings(how=how)) as (every, _):
        survivors, task = Survivors(every, how), tasks.Spikes()
        handed = surviving.handed

        def seen(kept: Any, every: Ranks, source: int) -> Any:
            (folder / f"handed-by-{source}-to-{rank}-at-{kept.step}").touch()
            return handed(kept, every, source)

        surviving.handed = seen

        def told(what: str, done: int, of: int, note: str) -> None:
            with (folder / "log").open("a") as log:
                log.write(f"{done} {survivors.ranks.size} {time.time()} {rank}\n")
            hold(done)

        def made(every: Ranks, how: How) -> Any:
            trainer = maker(how.plan, True)(task, 5, ranks=every, how=how, checkpoint=folder / "s.checkpoint",
                                            period=float(sys.argv[3]), progress=told)
            if every.rank == every.size - 1:
                tear(trainer)
            return trainer

        network, losses, cost = survivors.trained(made)

        def work() -> dict[str, Any]:
            (folder / "examines").touch()
            hold("end")
            (folder / f"weights-{rank}").touch()
            return {"sha": tasks.sha(network), "first": rank, "losses": len(losses), "cost": cost}

        survivors.finished(work)


try:
    if sys.argv[-1] == "rank":
        main()
    else:
        assert how.plan is not None
        print(json.dumps(watch.launch(how.plan.world, [__file__, *sys.argv[1:], "rank"])))
except TrainingError as error:
    sys.exit(f"{error}" if not ranks.started() else ranks.failed(str(error), error))

# SPDX-License-Identifier: Apache-2.0
"""An elastic training of the tiny task: ``FOLDER MIN:MAX STORE|- HOLD|- [wrong]``; a rank has the same and ``rank``.

Ranks wait after HOLD steps, until FOLDER has a file ``on``. A line for each step of rank 0 goes to FOLDER/log.
"""
from __future__ import annotations

import json
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import parallel_tasks as tasks
import torch

from brain_training.checkpoint import folder_of, held
from brain_training.parallel import elastic, ranks
from brain_training.parallel.how import How, agents
from brain_training.parallel.plan import maker, parse
from brain_training.runs import Settings
from brain_training.task import TrainingError

folder, hold = Path(sys.argv[1]), sys.argv[4]
how = How(parse("dp=2"), "gloo", exact=True, elastic=agents(sys.argv[2]))
path = folder / "s.checkpoint"


def told(what: str, done: int, of: int, note: str) -> None:
    """Rank 0's, after each step."""
    with (folder / "log").open("a") as log:
        log.write(f"{done} {os.environ['WORLD_SIZE']} {time.time()}\n")
    if str(done) == hold:
        while not (folder / "on").exists():
            time.sleep(0.02)


def rank() -> None:
    """Trains from wherever it stood."""
    torch.set_num_threads(1)
    if "wrong" in sys.argv:
        tasks.Spikes.wrong_at = 127
    with held(path) if ranks.first() else nullcontext(), ranks.joined(Settings(how=how)) as (every, settings):
        assert settings.how.plan is not None
        trainer = maker(settings.how.plan)(tasks.Spikes(), 5, ranks=every, how=settings.how, checkpoint=path,
                                           period=0.0, progress=told)
        trainer.resume()
        found = tasks.sha(trainer.run())
    if ranks.first():
        ranks.tell({"sha": found, "world": every.size})


try:
    if sys.argv[-1] == "rank":
        rank()
    else:
        at = None if sys.argv[3] == "-" else sys.argv[3]
        assert how.elastic is not None
        print(json.dumps(elastic.launch(
            *how.elastic, 2, at, "tiny", [__file__, *sys.argv[1:], "rank"], [folder_of(path)], lambda: None)))
except TrainingError as error:
    sys.exit(f"{error}" if not ranks.started() else ranks.failed(str(error), error))

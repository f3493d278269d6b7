# SPDX-License-Identifier: Apache-2.0
"""One rank: checkpoints of each form, taken up by others, and what cannot be; prints what came of it at rank 0."""
from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist

from brain_training.checkpoint import folder_of
from brain_training.parallel.group import Ranks, leave
from brain_training.parallel.how import How
from brain_training.parallel.plan import maker, parse
from brain_training.task import TrainingError

tasks = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("parallel_tasks.py")), run_name="parallel_tasks"))
torch.set_num_threads(1)
folder = Path(sys.argv[1])
dist.init_process_group("gloo")


def trainer(plan, path, recipe=None, period=1e9):
    how = How(parse(plan), "gloo", exact=True)
    task = tasks.Spikes(recipe=recipe)
    return maker(how.plan)(task, 5, ranks=Ranks(exact=True), how=how, checkpoint=path, period=period)


def say(*what):
    if dist.get_rank() == 0:
        print(*what, flush=True)


for written in ("dp=2", "dp=2,zero=1", "dp=2,zero=3"):
    path = folder / f"{written}.checkpoint"
    first = trainer(written, path)
    for _ in range(23):
        first.advance()
    first.save()
    first.written()
    found, kept = folder_of(path), path.with_suffix(".kept")
    if dist.get_rank() == 0:
        shutil.copytree(found, kept)
    first.advance()     # what was not saved is done again
    for read in ("dp=2", "dp=2,zero=1", "dp=2,zero=2"):
        if dist.get_rank() == 0:
            shutil.rmtree(found)        # the one before has written its end
            shutil.copytree(kept, found)
        second = trainer(read, path)
        assert second.resume() == 23
        say("resumed", written, read, tasks.sha(second.run()))

path = folder / "nan.checkpoint"
wrong = trainer("dp=2,zero=3", path, period=0)
tasks.Spikes.wrong_at = 127       # of step 12, the last that rank 1 makes
try:
    wrong.run()
except TrainingError as error:
    say("nan", wrong.step, error)
tasks.Spikes.wrong_at = None
dist.barrier()
say("kept", trainer("dp=2", path).resume())
try:
    trainer("dp=2", None, tasks.Recipe(batch=0))
except ValueError as error:
    say("small", error)
del wrong
leave()

# SPDX-License-Identifier: Apache-2.0
"""Several jobs at once, each in a process of its own that ends with this one."""
from __future__ import annotations

import multiprocessing
import os
import queue
import time
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from brain_runtime.run.end_with_parent import die_with
from brain_training.checkpoint import CheckpointError
from brain_training.task import Progress, TrainingError

PERIOD = 0.5        # s between two news of one bar
TOLD = (CheckpointError, OSError, TrainingError)    # said in one line; of all else the traceback is seen


class Job(NamedTuple):
    """Call for a worker process: ``work(*args, progress)``, at a niceness of 0 to 19."""

    work: Callable[..., Any]
    args: tuple[Any, ...]
    nice: int = 0


class Failed(NamedTuple):
    """Failure of a job, with the reason: it takes the place of the result."""

    why: str


def _run(key: str, job: Job, news: Any, parent: int) -> None:
    die_with(parent)
    os.nice(job.nice)
    last: dict[str, float] = {}

    def tell(what: str, done: int, of: int, note: str) -> None:
        if done == of or time.monotonic() - last.get(what, 0.0) > PERIOD:
            last[what] = time.monotonic()
            news.put((None, (what, done, of, note)))

    try:
        news.put((key, job.work(*job.args, tell)))
    except TOLD as error:
        news.put((key, Failed(str(error))))


def at_once(jobs: Mapping[str, Job], progress: Progress) -> Iterator[tuple[str, Any]]:
    """Runs jobs, and yields the name of each with its result, or with :class:`Failed`, when it is done."""
    context = multiprocessing.get_context("spawn")
    news = context.Queue()
    workers = {key: context.Process(target=_run, args=(key, job, news, os.getpid())) for key, job in jobs.items()}
    for worker in workers.values():
        worker.start()
    left = set(workers)
    try:
        while left:
            ended = [key for key in left if workers[key].exitcode is not None]  # before the news, maybe its last
            try:
                key, told = news.get(timeout=1.0)
            except queue.Empty:
                for key in ended:
                    left.discard(key)
                    yield key, Failed(f"it ended with {workers[key].exitcode}; what it said stands above")
                continue
            if key is None:
                progress(*told)
            elif key in left:
                left.discard(key)
                yield key, told
    finally:
        for key, worker in workers.items():
            if key in left:
                worker.terminate()
            worker.join()

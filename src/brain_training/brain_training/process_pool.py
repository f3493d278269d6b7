# SPDX-License-Identifier: Apache-2.0
"""Several jobs at once, each in a process of its own that ends with this one."""
from __future__ import annotations

import os
import time
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from brain_runtime.run.called import Call
from brain_runtime.run.processes import Ended, Processes
from brain_runtime.run.workload import NEVER, Workload
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


class _Bar(NamedTuple):
    """Progress of a job."""

    what: str
    done: int
    of: int
    note: str


def _run(job: Job, tell: Callable[[Any], None]) -> None:
    os.nice(job.nice)
    last: dict[str, float] = {}

    def progress(what: str, done: int, of: int, note: str) -> None:
        if done == of or time.monotonic() - last.get(what, 0.0) > PERIOD:
            last[what] = time.monotonic()
            tell(_Bar(what, done, of, note))

    try:
        tell((job.work(*job.args, progress),))
    except TOLD as error:
        tell((Failed(str(error)),))


def at_once(jobs: Mapping[str, Job], progress: Progress, environment: Mapping[str, str | None] | None = None
            ) -> Iterator[tuple[str, Any]]:
    """Runs jobs, and yields the name of each with its result, or with :class:`Failed`, when it is done.

    ``environment``: added to theirs.
    """
    left = set(jobs)
    with Processes([Workload(key, call=Call(_run, lambda job=job: (job,)), restart=NEVER)
                    for key, job in jobs.items()], environment=environment) as workers:
        while left:
            heard = workers.hear()
            assert heard is not None, "it has no end of its waiting"
            key, told = heard
            if isinstance(told, _Bar):
                progress(*told)
            elif key in left:
                left.discard(key)
                yield key, (Failed(f"it ended with {told.status}; what it said stands above")
                            if isinstance(told, Ended) else told[0])

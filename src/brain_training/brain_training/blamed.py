# SPDX-License-Identifier: Apache-2.0
"""Blame for errors in a task's own file: each is told in one sentence with its line, and not as this package's."""
from __future__ import annotations

import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator

from brain_training.checkpoint import CheckpointError
from brain_training.task import Task, TrainingError

WORDS = 60      # of an error's own sentence that are told


@contextmanager
def blamed(task: Task, when: Callable[[], str]) -> Iterator[None]:
    """Makes a TrainingError of what a task's own module raises in the block, with the function, the file and the line.

    What is raised elsewhere, the loss of another rank and errors that tell already what is wrong pass as they are.

    Args:
        task: whose module.
        when: says when it was, as "after 3 steps".
    """
    try:
        yield
    except (TrainingError, CheckpointError):
        raise
    except Exception as error:
        path = getattr(sys.modules.get(type(task).__module__), "__file__", None)
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        if path is None or not frames or _of_a_rank(error):
            raise
        why = " ".join(str(error).split()[:WORDS])
        raise TrainingError(f"{frames[0].name} of {task.name} ({task.which}) failed {when()}: {type(error).__name__}"
                            f"{f': {why}' if why else ''} ({Path(path).name}, line {frames[-1].lineno})") from error


def _of_a_rank(error: Exception) -> bool:
    """Tells whether an error says that another rank has gone."""
    if "torch.distributed" not in sys.modules:
        return False
    from brain_training.parallel.lost_rank import lost

    return lost(error)


def when(trainer: Any, ranks: Any = None) -> str:
    """Says how far a trainer has come, for an error message; ``trainer`` None: it had not begun."""
    if trainer is None:
        return "before the first step"
    whose = f" at rank {ranks.rank} of {ranks.size}" if ranks is not None else ""
    whose = f" at worker {trainer.rank}" if hasattr(trainer, "servers") else whose
    return f"after {trainer.step} steps{whose}" if hasattr(trainer, "step") else "in the training"

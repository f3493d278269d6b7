# SPDX-License-Identifier: Apache-2.0
"""Processes that play episodes or rooms side by side, one thread each, and end with the command that started them."""
from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Callable

from brain_runtime.run.loop import ONE_THREAD
from brain_runtime.run.end_with_parent import die_with


def _begin(parent: int, begin: Callable[..., None] | None, given: tuple) -> None:
    die_with(parent)        # a command that is killed cannot end its workers
    if "torch" in sys.modules:  # forked or imported before the environment could tell it
        sys.modules["torch"].set_num_threads(1)
    if begin is not None:
        begin(*given)


def workers(jobs: int, begin: Callable[..., None] | None = None, *given: Any) -> ProcessPoolExecutor:
    """A pool of ``jobs`` fresh processes, each of which first calls ``begin(*given)``."""
    os.environ.update(ONE_THREAD)  # read by them when they import torch
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_begin,
                               initargs=(os.getpid(), begin, given))

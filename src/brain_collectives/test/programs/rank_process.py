# SPDX-License-Identifier: Apache-2.0
"""Runs a program as one rank, in a process that was forked from one which has torch loaded already."""
from __future__ import annotations

import os
import runpy
import sys
import warnings
from multiprocessing.connection import Connection

import torch
import zenoh  # noqa: F401

import brain_collectives.backend  # noqa: F401
import brain_collectives.shrinking  # noqa: F401


def run(program: str, words: tuple[str, ...], environment: dict[str, str], told: Connection, says: Connection) -> None:
    """Runs a file as ``__main__`` with standard input and output as pipes."""
    os.dup2(told.fileno(), 0)
    for number in (1, 2):
        os.dup2(says.fileno(), number)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", buffering=1, closefd=False)    # noqa: SIM115
    sys.stderr = sys.stdout
    told.close()
    says.close()
    os.environ.clear()
    os.environ.update(environment)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.argv = [program, *words]
    runpy.run_path(program, run_name="__main__")

# SPDX-License-Identifier: Apache-2.0
"""Modules that run as commands in processes forked from one that has imported them, within milliseconds."""
from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import warnings
from pathlib import Path

from brain_runtime.run.end_with_parent import signalled

FORKS = multiprocessing.get_context("forkserver")     # what it has imported: FORKED of the root's conftest.py


class Forked:
    """``python -m module words``, as :class:`subprocess.Popen` has it, without the half second of a new interpreter.

    Args:
        module: with its words, as they stand after ``-m``.
        log: file to whose end standard output and error go.
        environment: all variables.
    """

    def __init__(self, module: str, *words: str, log: Path, environment: dict[str, str]) -> None:
        self._process = FORKS.Process(target=_run, args=(module, words, log, environment))
        self._process.start()
        self.pid: int = self._process.pid
        self.kill = self._process.kill

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self._process.is_alive():
            os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        """Waits for its end; its status.

        Raises:
            subprocess.TimeoutExpired: it has not ended.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return self._process.exitcode


def _run(module: str, words: tuple[str, ...], log: Path, environment: dict[str, str]) -> None:
    signalled(signal.SIGKILL)       # with the server, which ends with the tests
    with log.open("ab") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))   # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    warnings.filterwarnings("ignore", module="runpy")   # the module is there already
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)

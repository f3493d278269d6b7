# SPDX-License-Identifier: Apache-2.0
"""Python, for tests: what runs as a command, in a process forked from one that has imported it, within milliseconds.

What a package's tests fork has imported is in ``FORKED`` of ``conftest.py``. Each way in which the product starts a
process has a test that starts it as the product does.
"""
from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, Iterator
from unittest import mock

from brain_runtime.run.end_with_parent import signalled
from brain_runtime.run.loop import Loop, with_options
from brain_runtime.run.workload import Workload
from brain_wire.standby import OPTION

FORKS = multiprocessing.get_context("forkserver")


class Forked:
    """A :class:`subprocess.Popen` of ``python -m module`` or ``python -c code``, without a new interpreter.

    Args:
        words: as they stand after ``python``.
        log: file to whose end standard output and error go; None: they can be read from ``stdout``.
        environment: all variables.
    """

    def __init__(self, *words: str, log: Path | None = None, environment: dict[str, str]) -> None:
        self.stdout: IO[str] | None = None
        hears, tells = FORKS.Pipe(duplex=False)
        self._process = FORKS.Process(target=_run, args=(words, log, tells, environment))
        self._process.start()
        tells.close()
        if log is None:
            self.stdout = os.fdopen(os.dup(hears.fileno()), encoding="utf-8", errors="replace")
        hears.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its status as Popen has it, without waiting; None: it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """As :attr:`returncode`."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self._process.is_alive():
            with contextlib.suppress(ProcessLookupError):   # its status may come later than its end
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it without a word, unless it has ended."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; its status.

        Raises:
            subprocess.TimeoutExpired: it has not ended.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode


@contextlib.contextmanager
def forked_modules() -> Iterator[None]:
    """Has the loops of this process fork what they would start as ``python -m module``, for a while."""
    spawn = Loop._spawn

    def fork(loop: Loop, workload: Workload, more: list[str], stdin: int = subprocess.DEVNULL) -> Any:
        if tuple(workload.argv[:2]) != (sys.executable, "-m") or OPTION in more or stdin != subprocess.DEVNULL:
            return spawn(loop, workload, more, stdin)
        return Forked(*with_options(workload.argv, more)[1:], log=loop._logs.file(workload.name) or Path(os.devnull),
                      environment=loop._environment_of(workload))

    with mock.patch.object(Loop, "_spawn", fork):
        yield


def _run(words: tuple[str, ...], log: Path | None, tells: Connection, environment: dict[str, str]) -> None:
    signalled(signal.SIGKILL)       # with the server, which ends with the tests
    to = tells.fileno() if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for number in (1, 2):
        os.dup2(to, number)
    tells.close()
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))   # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    how, what, *more = words
    sys.argv = [what if how == "-m" else how, *more]
    if how == "-m":
        warnings.filterwarnings("ignore", module="runpy")   # the module is there already
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})

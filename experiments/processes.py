# SPDX-License-Identifier: Apache-2.0
"""Processes beside an experiment: all end with it, whatever happens to it, and some take orders from it."""
from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Mapping, Self

from brain_eval.bench.experiment import Problem
from brain_runtime.run import end_with_parent
from experiments.orders import PORT

START = 60.0        # s until who takes orders has come
ENDING = 15.0       # s for a process to end
NO_PATHS = {"PYTHONPATH": None, "PYTHONHOME": None}     # environment of a Python that shall not find the brain


def dying(*argv: str) -> list[str]:
    """A command that dies with this process."""
    return [sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid()), *argv]


def surroundings(more: Mapping[str, str | None] = {}) -> dict[str, str]:
    """Environment of a process: ours, and ``more``; None takes something away."""
    return {name: value for name, value in {**os.environ, **more}.items() if value is not None}


@contextlib.contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """An environment variable of this process as long as this lasts."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextlib.contextmanager
def ended(process: subprocess.Popen) -> Iterator[subprocess.Popen]:
    """A process that has ended when this is left."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def beside(*words: str, environment: Mapping[str, str | None] = {}, log: Path | None = None
           ) -> Iterator[subprocess.Popen]:
    """A process of this Python, with ``words`` for its arguments; what it writes goes to the end of ``log``."""
    with open(log or os.devnull, "ab") as written:
        process = subprocess.Popen(dying(sys.executable, *words), env=surroundings(environment),
                                   stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True)
    with ended(process):
        yield process


def finished(*argv: str, patience: float, environment: Mapping[str, str | None] = {}
             ) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end. Raises subprocess.TimeoutExpired where that takes more than ``patience`` (s)."""
    return subprocess.run(dying(*argv), env=surroundings(environment), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=patience)


def last_words(log: Path) -> str:
    """The last line of a log that tells of an error, or the last one."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    why = [line for line in lines if "panicked" in line or "rror" in line]
    return (why or lines)[-1].strip()[-200:] if lines else "it says nothing"


class NoPeer(Problem):
    """It cannot be had; says why, in words that stand in the result."""


class Peer:
    """Runs a command that takes orders, see :mod:`experiments.orders`. A context manager: it has ended after it.

    Args:
        name: for people.
        argv: of the process.
        log: file for what it writes.
        environment: of the process, beside ours; None takes something away.
        patience: s for an answer; None: for ever.
        problem: raised where it does not come, ends, or answers with an error.
    """

    def __init__(self, name: str, argv: list[str], log: Path, environment: Mapping[str, str | None] = {},
                 patience: float | None = None, problem: type[Exception] = NoPeer) -> None:
        self.name, self._log, self._patience, self._problem = name, log, patience, problem
        self._stream: Any = None
        self._server = socket.create_server(("127.0.0.1", 0))
        with log.open("ab") as written:
            self._process = subprocess.Popen(
                dying(*argv), env=surroundings({**environment, PORT: str(self._server.getsockname()[1])}),
                cwd=log.parent, stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()

    def _come(self) -> Any:
        """The stream of orders and answers, once the process takes them."""
        self._server.settimeout(0.2)
        until = time.monotonic() + START
        while self._stream is None:
            try:
                connection, _ = self._server.accept()
                connection.settimeout(self._patience)
                self._stream = connection.makefile("rw", encoding="utf-8", newline="\n")
            except TimeoutError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise self._problem(f"{self.name} does not start: {last_words(self._log)}") from None
        return self._stream

    def say(self, order: Any) -> None:
        """Gives an order, whose answer comes later."""
        try:
            stream = self._come()
            stream.write(json.dumps(order) + "\n")
            stream.flush()
        except OSError as error:
            raise self._problem(f"{self.name} ended: {last_words(self._log)}") from error

    def answer(self) -> dict[str, Any]:
        """The next answer, or what it says unasked."""
        try:
            line = self._come().readline()
        except OSError as error:
            raise self._problem(f"{self.name} does not answer: {error}") from error
        if not line:
            raise self._problem(f"{self.name} ended: {last_words(self._log)}")
        found = json.loads(line)
        if "error" in found:
            raise self._problem(f"{self.name}: {found['error']}")
        return found

    def ask(self, **order: Any) -> dict[str, Any]:
        """Its answer to an order."""
        self.say(order)
        return self.answer()

    def leave(self) -> None:
        """Lets it know that there are no more orders."""
        for one in (self._stream, self._server):
            if one is not None:
                with contextlib.suppress(OSError):  # what it was told last may be on its way to one that is gone
                    one.close()

    def close(self) -> None:
        """Ends it."""
        self.leave()
        with ended(self._process), contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDING)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: Any) -> None:
        self.close()


class ReadyPeer(Peer):
    """One that says something of itself once it is ready, which is waited for.

    Attributes:
        about: what it says of itself: versions, middleware.

    Raises:
        NoPeer: it does not come up; or ``problem``.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        try:
            self.about = self.answer()
        except BaseException:
            self.close()
            raise


class OutsidePeer(ReadyPeer):
    """A side of ``brain bench backends`` that another Python runs."""

    def __init__(self, name: str, argv: list[str], environment: Mapping[str, str | None], log: Path) -> None:
        super().__init__(name, argv, log, environment, patience=180.0)

    def block(self, size: int, count: int) -> list[float]:
        """Round trip times (s) of ``count`` messages of ``size`` bytes, without those that were lost."""
        return self.ask(do="block", size=size, count=count)["times"]

    def flows(self, sizes: Any, seconds: float) -> list[dict[str, Any]]:
        """Measures one-way throughput for each size: ``sent``, ``n`` and ``took``."""
        return self.ask(do="flows", sizes=list(sizes), seconds=seconds)["flows"]

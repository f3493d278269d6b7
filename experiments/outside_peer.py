# SPDX-License-Identifier: Apache-2.0
"""A side of ``brain bench backends`` that another Python runs: it takes orders as lines of JSON by a local socket."""
from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Mapping, Sequence

from brain_runtime.run import end_with_parent

START = 60.0        # s until it says what it is
ANSWER = 180.0      # s for a block
END = 10.0          # s for it to end


class NoPeer(RuntimeError):
    """It cannot be had; says why, in words that stand in the result."""


class OutsidePeer:
    """Runs a command that connects to the port named in its environment (BENCH_ORDERS). A context manager.

    Args:
        name: for people.
        command: of the process.
        environment: of the process, beside ours.
        log: file for what it writes.

    Attributes:
        about: what it says of itself: versions, middleware.

    Raises:
        NoPeer: it does not come up.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._name, self._log = name, log
        with socket.create_server(("127.0.0.1", 0)) as server, log.open("ab") as written:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid()), *command],
                env={**os.environ, **environment, "BENCH_ORDERS": str(server.getsockname()[1])}, cwd=log.parent,
                stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True)
            try:
                self._line = self._accepted(server).makefile("rw", encoding="utf-8", newline="\n")
                self.about = self._answer()
            except BaseException:
                self.close()
                raise

    def _accepted(self, server: socket.socket) -> socket.socket:
        server.settimeout(0.2)
        until = time.monotonic() + START
        while True:
            try:
                connection, _ = server.accept()
                connection.settimeout(ANSWER)
                return connection
            except TimeoutError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise NoPeer(f"{self._name} does not start: {self._last()}") from None

    def _last(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        why = [line for line in lines if "panicked" in line or "rror" in line]
        return (why or lines)[-1][-200:] if lines else "it says nothing"

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._line.readline()
        except OSError as error:
            raise NoPeer(f"{self._name} does not answer: {error}") from error
        if not line:
            raise NoPeer(f"{self._name} has ended: {self._last()}")
        found = json.loads(line)
        if "error" in found:
            raise NoPeer(f"{self._name}: {found['error']}")
        return found

    def ask(self, **order: Any) -> dict[str, Any]:
        """Its answer to an order. Raises NoPeer."""
        try:
            self._line.write(json.dumps(order) + "\n")
            self._line.flush()
        except OSError as error:
            raise NoPeer(f"{self._name} has ended: {self._last()}") from error
        return self._answer()

    def block(self, size: int, count: int) -> list[float]:
        """Round trip times (s) of ``count`` messages of ``size`` bytes, without those that were lost."""
        return self.ask(do="block", size=size, count=count)["times"]

    def flows(self, sizes: Sequence[int], seconds: float) -> list[dict[str, Any]]:
        """Measures one-way throughput for each size: ``sent``, ``n`` and ``took``."""
        return self.ask(do="flows", sizes=list(sizes), seconds=seconds)["flows"]

    def close(self) -> None:
        """Ends it."""
        line = getattr(self, "_line", None)
        if line is not None:
            with contextlib.suppress(OSError):      # what it was asked last may still be on its way to one that is gone
                line.close()        # which it takes for the end
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            try:
                self._process.wait(END)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> OutsidePeer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:
        self.close()

# SPDX-License-Identifier: Apache-2.0
"""The ranks of a static group as children of the process that is rank 0, all on this machine.

torchrun does the same over several machines; then rank 0 is one of what it starts.
"""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType

from brain_runtime.hosts.group_error import GroupError
from brain_runtime.hosts import torch_store
from brain_runtime.run import end_with_parent
from brain_runtime.hosts import torch_orders
from brain_runtime.hosts.torch_group import TIMEOUT, Group
from brain_wire import private

SOON = 5.0          # s in which ranks end that were told to
WORDS = 3.0         # s until all have ended, or one was killed, after which the first that ended is told of
LINES = 5           # of a log that tell why


class Ranks:
    """Starts a process for each region, and is rank 0. A context manager: all of them have ended after it.

    Args:
        count: of regions.
        timeout: how long a rank waits for another one (s).
        folder: for one log a rank; None: a temporary one.

    Attributes:
        group: of all ranks, as this process sees it.

    Raises:
        GroupError: they do not come; says what the first of them wrote that ended.
    """

    group: Group

    def __init__(self, count: int, timeout: float = TIMEOUT, folder: Path | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="brain-ranks-") if folder is None else None
        self._folder = Path(self._temporary.name) if self._temporary is not None else folder or Path()
        self._children: list[subprocess.Popen[bytes]] = []
        size = count + 1
        self._store = torch_store.serve(timeout=timedelta(seconds=timeout))
        try:
            for rank in range(1, size):
                self._start(rank, size, timeout)
            self.group = Group(timeout=timeout, store=self._store, rank=0, size=size)
        except GroupError as error:
            raise self.why(error) from error
        except BaseException:
            self.end(kill=True)
            raise

    def _start(self, rank: int, size: int, timeout: float) -> None:
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
                       "MASTER_ADDR": torch_store.HERE, "MASTER_PORT": str(self._store.port)}
        for name in ("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE"):
            environment.pop(name, None)
        argv = [sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid()),
                sys.executable, "-m", "brain_runtime.torch_process", "--timeout", str(timeout)]
        with open(self._folder / f"rank{rank}.log", "wb", opener=private.opener) as log:
            self._children.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                   env=environment, start_new_session=True))

    def processes(self) -> list[int]:
        """Process numbers, of ranks 1 and up."""
        return [child.pid for child in self._children]

    def log(self, rank: int) -> str:
        """Reads the log of a rank."""
        return (self._folder / f"rank{rank}.log").read_text(errors="replace")

    def why(self, error: GroupError) -> GroupError:
        """An error with what it came from: a rank that was killed, one that stands still, or the first that ended.

        The group is closed: the others see it and end, and who does not stands still.
        """
        if hasattr(self, "group"):
            self.group.close()
        until, found = time.monotonic() + WORDS, self._statuses()
        while time.monotonic() < until and len(found) < len(self._children) and min(found.values(), default=0) >= 0:
            time.sleep(0.05)
            found = self._statuses()
        name = lambda rank: self.group.names[rank] if hasattr(self, "group") else f"rank {rank}"    # noqa: E731
        killed = [rank for rank, status in found.items() if status < 0]
        still = [rank for rank in range(1, len(self._children) + 1) if rank not in found]
        if killed:
            return GroupError(f"{name(killed[0])} was killed by {signal.Signals(-found[killed[0]]).name}: {error}")
        if found and still:
            return GroupError(f"{', '.join(map(name, still))} did not answer: {error}")
        if not found:
            return error
        rank = min(found)
        lines = self.log(rank).strip().splitlines()
        return GroupError(f"{name(rank)} ended with status {found[rank]}: {error}"
                          + ("; it wrote: " + " / ".join(lines[-LINES:]) if lines else ""))

    def _statuses(self) -> dict[int, int]:
        """Exit statuses of the ranks that have ended, but not in good order."""
        return {rank: child.returncode for rank, child in enumerate(self._children, 1) if child.poll()}

    def end(self, kill: bool = False) -> None:
        """Ends all ranks: by a word, or by force where that is not enough."""
        if not kill and hasattr(self, "group"):
            with suppress(GroupError):
                torch_orders.end(self.group)
        until = time.monotonic() + (0.0 if kill else SOON)
        for child in self._children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, until - time.monotonic()))
        for child in self._children:
            if child.poll() is None:
                child.kill()
            child.wait()
        if hasattr(self, "group"):
            self.group.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:
        self.end(kill=kind is not None)

# SPDX-License-Identifier: Apache-2.0
"""The ranks of a static group as children of the process that is rank 0, all on this machine.

torchrun does the same over several machines; then rank 0 is one of what it starts.
"""
from __future__ import annotations

import signal
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType

from brain_runtime.hosts.backends import GroupError
from brain_collectives import torch_store
from brain_collectives import torch_process
from brain_collectives.hosts.torch_group import TIMEOUT, Group
from brain_runtime.run.processes import Processes, by_number
from brain_runtime.run.workload import NEVER, Workload
from brain_wire.logs import Logs
from brain_wire.observers import complain
from brain_wire.temporary_folder import TemporaryFolder

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
        self._temporary = TemporaryFolder("ranks") if folder is None else None
        self._logs = Logs(Path(self._temporary.name) if self._temporary is not None else folder or Path(), complain)
        self._store, size = torch_store.serve(timeout=timedelta(seconds=timeout)), count + 1
        argv = sys.executable, "-m", "brain_collectives.torch_process", "--timeout", str(timeout)
        self._children = Processes(
            [Workload(f"rank{rank}", argv, {"RANK": str(rank), "LOCAL_RANK": str(rank)}, restart=NEVER)
             for rank in range(1, size)], self._logs, log="ranks", environment={
                 "WORLD_SIZE": str(size), "MASTER_ADDR": torch_store.HERE, "MASTER_PORT": str(self._store.port),
                 "TORCHELASTIC_RESTART_COUNT": None, "TORCHELASTIC_USE_AGENT_STORE": None})
        try:
            self.group = Group(timeout=timeout, store=self._store, rank=0, size=size)
        except GroupError as error:
            why = self.why(error)
            self.end(kill=True)
            raise why from error
        except BaseException:
            self.end(kill=True)
            raise

    def processes(self) -> list[int]:
        """Process numbers, of ranks 1 and up."""
        return list(self._children.pids.values())

    def log(self, rank: int) -> str:
        """Reads the log of a rank."""
        return self._logs.path(f"rank{rank}").read_text(errors="replace")

    def why(self, error: GroupError) -> GroupError:
        """An error with what it came from: a rank that was killed, one that stands still, or the first that ended.

        The group is closed: the others see it and end, and who does not stands still.
        """
        if hasattr(self, "group"):
            self.group.close()
        every = len(self._children.pids)
        self._children.wait(WORDS, lambda found: len(found) == every or min(found.values(), default=0) < 0)
        found = {rank: status for rank, status in by_number(self._children.statuses()).items() if status}
        name = lambda rank: self.group.names[rank] if hasattr(self, "group") else f"rank {rank}"    # noqa: E731
        killed = [rank for rank, status in found.items() if status < 0]
        still = [rank for rank in range(1, every + 1) if rank not in found]
        if killed:
            return GroupError(f"{name(killed[0])} was killed by {signal.Signals(-found[killed[0]]).name}: {error}")
        if found and still:
            return GroupError(f"{', '.join(map(name, still))} did not answer: {error}")
        if not found:
            return error
        rank = min(found)
        lines = [line for line in self.log(rank).strip().splitlines() if not line.startswith("--- ")]
        return GroupError(f"{name(rank)} ended with status {found[rank]}: {error}"
                          + ("; it wrote: " + " / ".join(lines[-LINES:]) if lines else ""))

    def end(self, kill: bool = False) -> None:
        """Ends all ranks: by a word, or by force where that is not enough."""
        if not kill and hasattr(self, "group"):
            with suppress(GroupError):
                torch_process.end(self.group)
            self._children.wait(SOON)
        self._children.end(0.0)
        if hasattr(self, "group"):
            self.group.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:
        self.end(kill=kind is not None)

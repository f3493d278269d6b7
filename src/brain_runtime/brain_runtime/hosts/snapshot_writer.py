# SPDX-License-Identifier: Apache-2.0
"""SnapshotWriter: writes a region's snapshots in a thread of its own.

A snapshot is not safe before the disk says so (``fsync``), and a disk that is busy or worn says so after seconds. The
thread that has the heartbeat must not wait for that: others would take the region for dead.
"""
from __future__ import annotations

import threading
from pathlib import Path
from typing import Callable

from brain_runtime.contract import snapshot
from brain_wire.owner import owned_thread


class SnapshotWriter:
    """Writes the newest snapshot that was handed in; what was overtaken before its turn is left out.

    Args:
        path: of the snapshot.
        whose: name of the region, for messages.
        complain: takes the text of what went wrong, in the writer's thread.
    """

    def __init__(self, path: Path, whose: str, complain: Callable[[str], None]) -> None:
        self.path, self._whose, self._complain = path, whose, complain
        self._changed = threading.Condition()
        self._next: bytes | None = None     # handed in, and nobody has begun to write it
        self._writing = False
        self._thread: threading.Thread | None = None

    def hand_in(self, blob: bytes) -> None:
        """Has a snapshot written soon (see :func:`brain_runtime.contract.snapshot.pack`)."""
        with self._changed:
            self._next = blob
            if self._thread is None:
                # A daemon: where a disk never answers, the process must end none the less.
                self._thread = owned_thread(self._work, "snapshots")
                self._thread.start()
            self._changed.notify_all()

    def settle(self, timeout: float) -> bool:
        """Waits up to ``timeout`` s until nothing is left to write; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._next is None and not self._writing, timeout)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next is not None)
                blob, self._next, self._writing = self._next, None, True
            assert blob is not None
            try:
                snapshot.put(self.path, blob, self._whose)
            except snapshot.SnapshotError as error:
                self._complain(str(error))
            finally:
                with self._changed:
                    self._writing = False
                    self._changed.notify_all()

# SPDX-License-Identifier: Apache-2.0
"""Counts what the backend does in this process, so that a test can prove that nothing else did it."""
from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Counters:
    """Counted since the process began.

    Attributes:
        calls: calls by the name of the collective.
        messages_sent, bytes_sent: data messages handed to Zenoh (one to all counts once) and their payload.
        messages_received, bytes_received: data messages that arrived, and their payload.
        resent: messages that were sent again since a link was lost.
        malformed: messages from the wire that were not read.
    """

    calls: Counter[str] = field(default_factory=Counter)
    messages_sent: int = 0
    bytes_sent: int = 0
    messages_received: int = 0
    bytes_received: int = 0
    resent: int = 0
    malformed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def called(self, kind: str) -> None:
        """Counts a call."""
        with self.lock:
            self.calls[kind] += 1

    def sent(self, size: int) -> None:
        """Counts a data message of ``size`` B."""
        with self.lock:
            self.messages_sent += 1
            self.bytes_sent += size

    def received(self, size: int) -> None:
        """Counts a data message of ``size`` B that arrived; only Zenoh's thread does."""
        self.messages_received += 1
        self.bytes_received += size


COUNTERS = Counters()


def counters() -> Counters:
    """Returns the counts of what the backend has done in this process since it began."""
    return COUNTERS

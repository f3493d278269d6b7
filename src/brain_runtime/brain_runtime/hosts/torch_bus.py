# SPDX-License-Identifier: Apache-2.0
"""The topics of one rank of a static group."""
from __future__ import annotations

from typing import Any, Callable

from brain_runtime.hosts.bus import Bus


class TorchBus(Bus):
    """The topics of one rank. What its own region publishes is noted, to be told to the others."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self.noted: list[tuple[str, Any]] | None = None
        self.outside: dict[str, int] = {}   # how often the rank outside listens, by topic

    def publish(self, topic: str, message: Any, latch: bool) -> None:
        """See :class:`.bus.Bus`."""
        if self.noted is not None:
            self.noted.append((topic, message))
        super().publish(topic, message, latch)

    def hand_on(self, topic: str, message: Any, latch: bool) -> None:
        """A message of another rank, decoded; None: this rank does not hear it."""
        if message is not None:
            self.latest[topic] = message
            if latch:
                self.latched[topic] = message
            for callback in self._listeners.get(topic, ()):
                callback(message)
        self._deliver(self._readers.get(topic, ()), message)

    def heard(self, topic: str) -> bool:
        """See :class:`.bus.Bus`."""
        return bool(self._readers.get(topic)) or self.outside.get(topic, 0) > 0

    def ranks(self, topic: str) -> frozenset[int]:
        """Returns the ranks that hear a topic."""
        return frozenset(reader.order[0] for reader in self._readers.get(topic, ()))

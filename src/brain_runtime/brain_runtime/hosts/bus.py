# SPDX-License-Identifier: Apache-2.0
"""Bus: the topics of one process, on which messages are handed on at once, in the order in which readers joined.

What a reader gets is what any wire would have brought: each message is encoded and decoded once on its way, so that
numbers are rounded as their types say, and what cannot be sent fails here too.
"""
from __future__ import annotations

from typing import Any, Callable, NamedTuple, Protocol

from brain_runtime.hosts.edges import Edge
from brain_runtime.hosts.input import Incoming
from brain_runtime.contract.ports import In
from brain_wire import messages


class Hears(Protocol):
    """An input, as the bus sees it: :class:`.input.Input`, or one of a region that is elsewhere."""

    port: In
    triggers: bool


Deliver = Callable[[Any, Incoming], bool]
"""The host's verb, for its own kind of input."""


class _Reader(NamedTuple):
    order: tuple[int, int]
    inbound: Hears
    deliver: Deliver


class Bus:
    """Hands messages on.

    Args:
        now: the time (s, simulated).

    Attributes:
        latest: newest message, by topic.
        latched: what whoever comes late gets, by topic.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.latest: dict[str, Any] = {}
        self.latched: dict[str, Any] = {}
        self._types: dict[str, str] = {}
        self._readers: dict[str, tuple[_Reader, ...]] = {}
        self._listeners: dict[str, tuple[Callable[[Any], None], ...]] = {}

    def know(self, topic: str, type_name: str, who: str) -> None:
        """Notes the type of a topic.

        Raises:
            ValueError: ``who`` declares it with another than the others.
        """
        known = self._types.setdefault(topic, type_name)
        if known != type_name:
            raise ValueError(f"topic {topic} carries {known}, but {who} declares it as {type_name}")

    def publish(self, topic: str, message: Any, latch: bool) -> None:
        """Hands a message to all who hear its topic; ``latch``: to those who come later, too. Raises MessageError."""
        self._show(topic, message, latch)
        readers = self._readers.get(topic)
        if readers:
            self._deliver(readers, as_sent(message))

    def _show(self, topic: str, message: Any, latch: bool) -> None:
        """Keeps a message, and shows it to who listens from outside."""
        self.latest[topic] = message
        if latch:
            self.latched[topic] = message
        for callback in self._listeners.get(topic, ()):
            callback(message)

    def _deliver(self, readers: tuple[_Reader, ...], message: Any) -> None:
        arrival = Incoming(message, self._now())
        for reader in readers:
            reader.deliver(reader.inbound, arrival)

    def heard(self, topic: str) -> bool:
        """Tells whether a topic has any reader or listener."""
        return bool(self._readers.get(topic) or self._listeners.get(topic))

    def read(self, order: int, inbound: Hears, deliver: Deliver, topic: str = "") -> BusSubscription:
        """Delivers from now on what comes at a port, and first what is latched.

        Args:
            order: of the region among all; at one instant, readers get a message in this order.
            inbound: of the port.
            deliver: the host's verb.
            topic: by another name than the port's; empty: by that.
        """
        topic = topic or inbound.port.topic
        reader = _Reader((order, len(self._readers.get(topic, ()))), inbound, deliver)
        self._readers[topic] = tuple(sorted((*self._readers.get(topic, ()), reader), key=lambda r: r.order))
        if inbound.port.qos.latched and topic in self.latched:
            self._deliver((reader,), as_sent(self.latched[topic]))
        return BusSubscription(topic, lambda: self._end(topic, reader))

    def _end(self, topic: str, reader: _Reader) -> None:
        self._readers[topic] = tuple(r for r in self._readers[topic] if r is not reader)

    def listen(self, topic: str, callback: Callable[[Any], None]) -> Callable[[], None]:
        """Calls ``callback`` with each message of a topic, until what it returns is called."""
        self._listeners[topic] = (*self._listeners.get(topic, ()), callback)

        def end() -> None:
            left = list(self._listeners[topic])
            left.remove(callback)
            self._listeners[topic] = tuple(left)
        return end


def as_sent(message: Any) -> Any:
    """A message as its CDR bytes bring it. Raises MessageError."""
    return messages.decode(messages.encode(message), messages.type_name(message))


class BusSubscription:
    """A :class:`brain_runtime.hosts.host.Subscription`; nothing ever waits, since all is delivered at once."""

    def __init__(self, topic: str, end: Callable[[], None]) -> None:
        self.topic = topic
        self.close = end

    def take(self) -> list[Incoming]:
        """Nothing."""
        return []

    def sender(self, arrival: Incoming) -> str:
        """Not known."""
        return ""

    def edges(self, now: float) -> list[Edge]:
        """None: nothing is on its way in one process, and nothing is lost."""
        return []


class BusPublication:
    """A :class:`brain_runtime.hosts.host.Publication`."""

    def __init__(self, bus: Bus, topic: str, latch: bool) -> None:
        self._bus, self._latch = bus, latch
        self.topic = topic

    def send(self, message: Any) -> None:
        """See :class:`brain_runtime.hosts.host.Publication`."""
        self._bus.publish(self.topic, message, self._latch)

    def send_encoded(self, message: Any, data: bytes) -> None:
        """See :class:`brain_runtime.hosts.host.Publication`."""
        self._bus.publish(self.topic, message, self._latch)

    def heard(self) -> bool:
        """See :class:`brain_runtime.hosts.host.Publication`."""
        return self._bus.heard(self.topic)

    def others(self) -> list[str]:
        """Nobody is looked for in one process."""
        return []

    def close(self) -> None:
        """Nothing."""

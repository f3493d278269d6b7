# SPDX-License-Identifier: Apache-2.0
"""Topics on rclpy as raw bytes in our encoding, so that rclpy converts no array field by field."""
from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import Any, Callable, Sequence

from rclpy.duration import Duration
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from brain_runtime.hosts.edges import Edge, edge
from brain_runtime.hosts.input import Incoming, Input, Ring
from brain_runtime.hosts.ros_types import interface
from brain_wire import messages
from brain_wire.latency import SILENT, Hop, Hops
from brain_wire.qos import QoS

KEYED = 64              # messages that wait where the newest of each publisher counts
WAITED = 1_000_000      # ns that a message was with the middleware, beyond which others may have given way to it there


def profile(qos: QoS) -> QoSProfile:
    """The QoS as rclpy has it."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=qos.depth,
        reliability=ReliabilityPolicy.RELIABLE if qos.reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if qos.latched else DurabilityPolicy.VOLATILE)


class RosPublication:
    """A topic that is published. A :class:`brain_runtime.hosts.host.Publication`.

    Args:
        node: of rclpy.
        topic, type_name, qos: as for :meth:`brain_runtime.hosts.host.Host.publish`.
        own: full names of the nodes that publish it for this process, or did for the one before; each counts once.

    Raises:
        ModuleNotFoundError: the package of the type is not installed.
    """

    def __init__(self, node: Node, topic: str, type_name: str, qos: QoS, own: Sequence[str]) -> None:
        self._node, self._own = node, own
        self._publisher = node.create_publisher(interface(type_name), topic, profile(qos))
        self.topic = node.resolve_topic_name(topic)
        encode, publish = messages.encoder(type_name), self._publisher.publish
        self.send = lambda message: publish(encode(message))

    def send_encoded(self, message: Any, data: bytes) -> None:
        """See :class:`brain_runtime.hosts.host.Publication`."""
        self._publisher.publish(data)

    def heard(self) -> bool:
        """See :class:`brain_runtime.hosts.host.Publication`."""
        return self._publisher.get_subscription_count() > 0

    def others(self) -> list[str]:
        """See :class:`brain_runtime.hosts.host.Publication`."""
        found = [f"{info.node_namespace.rstrip('/')}/{info.node_name}"
                 for info in self._node.get_publishers_info_by_topic(self.topic)]
        for own in self._own:
            if own in found:
                found.remove(own)   # a second of that name would be another
        return found

    def acknowledged(self) -> bool:
        """Tells whether all known subscribers have received what was sent; True where the middleware does not tell."""
        try:
            return self._publisher.wait_for_all_acked(Duration())
        except RuntimeError:    # rclpy's, of a middleware without acknowledgements
            return True

    def close(self) -> None:
        """See :class:`brain_runtime.hosts.host.Publication`."""
        self._node.destroy_publisher(self._publisher)


class Nowhere:
    """Takes the messages of a topic that cannot be published. A :class:`brain_runtime.hosts.host.Publication`.

    Args:
        topic: full name.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def send(self, message: Any) -> None:
        """Nothing."""

    def send_encoded(self, message: Any, data: bytes) -> None:
        """Nothing."""

    def heard(self) -> bool:
        """Nobody can."""
        return False

    def others(self) -> list[str]:
        """Nobody is looked for."""
        return []

    def close(self) -> None:
        """Nothing."""


def subscribe(node: Node, inbound: Input, deliver: Callable[[Input], Any]) -> Ring:
    """Hears the topic of an input's port, and keeps what comes until it is taken.

    Args:
        node: of rclpy.
        inbound: of the port.
        deliver: told of each message that came, in the executor's thread.

    Raises:
        ModuleNotFoundError: the package of the type is not installed.
    """
    port = inbound.port
    subscriptions: list[Any] = []
    depth = KEYED * port.qos.depth if port.key else port.qos.depth

    def close() -> None:
        for subscription in subscriptions:
            node.destroy_subscription(subscription)

    notes = _Notes(node, node.resolve_topic_name(port.topic), port.qos)
    ring = Ring(notes.topic, depth, close, notes.edges)

    def arrived(data: bytes, info: Any) -> None:
        now = time.monotonic()
        ring.keep(Incoming(data, now, notes.note(info, now)))
        deliver(inbound)

    qos = port.qos.with_depth(depth) if port.key else port.qos
    # By DDS's rules a subscription that asks for what is latched hears nobody who does not latch: an emergency
    # button's ordinary publisher. A second one hears everybody, and what comes by both counts once.
    each = [replace(qos, latched=False), qos] if qos.latched else [qos]
    heard = _once(arrived) if qos.latched else arrived
    # so that rclpy's warning of who does not latch is out of place where both are there
    events = SubscriptionEventCallbacks(use_default_callbacks=not qos.latched)
    subscriptions += [node.create_subscription(interface(port.type), port.topic, heard, profile(asked), raw=True,
                                               event_callbacks=events) for asked in each]
    return ring


class _Notes:
    """Notes on messages from the middleware: their times and numbers, and their publishers where it tells them.

    Args:
        node: of rclpy.
        topic: full name.
        qos: of the subscription.
    """

    def __init__(self, node: Node, topic: str, qos: QoS) -> None:
        self._node, self.topic = node, topic
        self._hops = Hops(qos.depth if qos.latched else 0)

    def note(self, info: Any, now: float) -> Hop | None:
        """Notes a message, received at ``now`` (s, steady); None where nothing is known of its publisher."""
        stamp, came = info["source_timestamp"], info["received_timestamp"]
        if not stamp:
            return None     # this middleware does not tell
        # Without the publisher's id (rclpy before Kilted) the numbers of several publishers are not to be told apart.
        gid = bytes((info.get("publisher_gid") or {}).get("data") or b"")
        number = info.get("publication_sequence_number") if gid else None
        return self._hops.noted(gid, number, stamp, now, bool(came) and time.time_ns() - came > WAITED)

    def edges(self, now: float) -> list[Edge]:
        """See :class:`brain_runtime.hosts.host.Subscription`."""
        passages = self._hops.passages(now)
        publishers = self._node.get_publishers_info_by_topic(self.topic) if passages else []
        names = {bytes(p.endpoint_gid): f"{p.node_namespace.rstrip('/')}/{p.node_name}" for p in publishers}
        found = []
        for passage in passages:
            name = next((name for gid, name in names.items() if passage.gid and gid.startswith(passage.gid)), None)
            if not passage.gid and len(names) == 1:
                name = next(iter(names.values()))
            if name is not None or passage.silence < SILENT:
                found.append(edge(passage, self.topic, name))
        return found


def _once(arrived: Callable[[bytes, Any], None]) -> Callable[[bytes, Any], None]:
    """Hands each publication on once, that two subscriptions of a topic hear.

    Both tell the same time at which it was published (``source_timestamp``, ns); whoever publishes the same again does
    so at another.
    """
    known: deque[tuple[int, bytes]] = deque(maxlen=2 * KEYED)

    def hear(data: bytes, info: Any) -> None:
        publication = info["source_timestamp"], bytes(data)
        if publication not in known:
            known.append(publication)
            arrived(data, info)
    return hear

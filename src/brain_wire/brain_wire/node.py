# SPDX-License-Identifier: Apache-2.0
"""A node on the wire: what it publishes, hears, serves and asks, and the tokens that announce all of it."""
from __future__ import annotations

import contextlib
import re
import threading
from typing import Callable, Iterator

from brain_wire import messages, names
from brain_wire.qos import FEATURE, QoS
from brain_wire.service import QUALITY, Client, Service
from brain_wire.services import ServiceType, service_type
from brain_wire.safe_text import quoted
from brain_wire.session import QUERY_TIMEOUT, Session, open_session
from brain_wire.topics import MAX_SIZE, AtOnce, Publisher, Subscription
from brain_wire.wakeup import Signal


_TYPE = re.compile(r"[A-Za-z0-9_:]{1,300}", re.ASCII)     # as it stands in a key, or its hash


class Node:
    """A ROS 2 node as others see it.

    Args:
        session: open session; several nodes may share it.
        name: node name.
        namespace: absolute, or without the slash in front.
        domain: ROS domain; None: ``ROS_DOMAIN_ID``.

    Raises:
        NameProblem: a name that ROS 2 does not allow.
    """

    def __init__(self, session: Session, name: str, namespace: str = "/", domain: int | None = None) -> None:
        self.session = session
        self.domain = names.domain_id() if domain is None else domain
        self.namespace = names.absolute(namespace)
        self.name = names.check_name(name, "node name")
        number = session.next_number()
        self.endpoint = names.Endpoint(self.domain, session.zid, number, number, names.NODE, self.namespace, name)
        self._parts: list[Publisher | Subscription | Service | Client] = []
        session.check_right(self.endpoint)
        self._token = session.zenoh.liveliness().declare_token(self.endpoint.token())

    @property
    def fqn(self) -> str:
        """Fully qualified name."""
        return self.endpoint.name

    @property
    def endpoints(self) -> list[names.Endpoint]:
        """The node's publishers, subscriptions, services and clients."""
        return [part.endpoint for part in self._parts]

    def _endpoint(self, kind: str, topic: str, type_name: str, qos: QoS) -> names.Endpoint:
        endpoint = names.Endpoint(
            self.domain, self.session.zid, self.endpoint.nid, self.session.next_number(), kind, self.namespace,
            self.name, names.expand(topic, self.namespace, self.name), messages.dds_type(type_name),
            messages.type_hash(type_name), qos)
        self.session.check_right(endpoint)
        return endpoint

    def publisher(self, topic: str, type_name: str, qos: QoS = FEATURE) -> Publisher:
        """A publisher.

        Args:
            topic: relative (below the namespace), absolute, or private (``~/x``).
            type_name: ``package/msg/Type``.
            qos: how it is delivered.

        Raises:
            NameProblem: the topic is no ROS 2 name.
            MessageError: the type is not known.
        """
        endpoint = self._endpoint(names.PUBLISHER, topic, type_name, qos)
        part = Publisher(self.session, endpoint, names.data_key(self.domain, endpoint.topic, type_name), type_name)
        self._parts.append(part)
        return part

    def subscription(self, topic: str, type_name: str, qos: QoS = FEATURE, *, wake: Signal | None = None,
                     arrived: Callable[[], object] | None = None, at_once: AtOnce | None = None,
                     by_publisher: bool = False, max_size: int = MAX_SIZE, hops: bool = False,
                     in_place: bool = False) -> Subscription:
        """A subscription.

        Args:
            topic, type_name, qos: as for :meth:`publisher`.
            wake: set at each arrival; None: one of its own.
            arrived: called at each arrival, in the subscription's own thread and in place of setting ``wake``. What
                comes while it runs waits in the channel, and counts as received when it returns.
            at_once: given each message before that, in the same thread: its payload, for
                :func:`brain_wire.shared_memory.read`, and the steady time of its receipt (s). One for which it returns
                True is dealt with, and neither kept nor told of.
            by_publisher: keep the newest of each publisher, so that a busy one does not displace the others.
            max_size: bytes; larger messages are refused.
            hops: note of each publisher how long its messages take and how many do not come, see
                :mod:`brain_wire.latency`.
            in_place: large messages are not copied out of shared memory, see :func:`brain_wire.shared_memory.view`.

        Raises:
            NameProblem, MessageError: as for :meth:`publisher`.
        """
        endpoint = self._endpoint(names.SUBSCRIPTION, topic, type_name, qos)
        key = names.data_key(self.domain, endpoint.topic, type_name)
        part = Subscription(self.session, endpoint, key, type_name, wake=wake, arrived=arrived,
                            at_once=at_once, by_publisher=by_publisher, max_size=max_size, hops=hops,
                            in_place=in_place)
        self._parts.append(part)
        return part

    def raw_subscription(self, told: names.Endpoint, qos: QoS) -> Subscription:
        """A subscription to what an endpoint of others tells of; its type need not be known, and is not decoded.

        Raises:
            NameProblem: what it tells is no name of a type.
        """
        if not (_TYPE.fullmatch(told.dds_type) and _TYPE.fullmatch(told.type_hash)):
            raise names.NameProblem(f"{quoted(told.dds_type)} of {told.name} is no type of a topic")
        endpoint = names.Endpoint(self.domain, self.session.zid, self.endpoint.nid, self.session.next_number(),
                                  names.SUBSCRIPTION, self.namespace, self.name, told.topic, told.dds_type,
                                  told.type_hash, qos)
        self.session.check_right(endpoint)
        key = f"{self.domain}/{told.topic.strip('/')}/{told.dds_type}/{told.type_hash}"
        part = Subscription(self.session, endpoint, key, told.type, wake=None, arrived=None, at_once=None,
                            by_publisher=False, max_size=MAX_SIZE, hops=False)
        self._parts.append(part)
        return part

    def service(self, name: str, kind: str | ServiceType, arrived: Callable[[], None]) -> Service:
        """A service.

        Args:
            name: relative, absolute or private, as a topic's.
            kind: ``package/srv/Type``, or a part of an action.
            arrived: called when a request has come, in Zenoh's thread: it must only wake who will take it.

        Raises:
            NameProblem, MessageError: as for :meth:`publisher`.
        """
        kind = service_type(kind) if isinstance(kind, str) else kind
        endpoint = self._endpoint(names.SERVER, name, kind.name, QUALITY)
        part = Service(self.session, endpoint, names.data_key(self.domain, endpoint.topic, kind.name), kind, arrived)
        self._parts.append(part)
        return part

    def client(self, name: str, kind: str | ServiceType, timeout: float = QUERY_TIMEOUT / 1000) -> Client:
        """A client of a service.

        Args:
            name, kind: as for :meth:`service`.
            timeout: s after which Zenoh gives up waiting for an answer.

        Raises:
            NameProblem, MessageError: as for :meth:`publisher`.
        """
        kind = service_type(kind) if isinstance(kind, str) else kind
        endpoint = self._endpoint(names.CLIENT, name, kind.name, QUALITY)
        part = Client(self.session, endpoint, names.data_key(self.domain, endpoint.topic, kind.name), kind, timeout)
        self._parts.append(part)
        return part

    def let_go(self, part: Publisher | Subscription | Service | Client) -> None:
        """Closes one part of the node, which stays."""
        self._parts.remove(part)
        part.close()

    def close(self) -> None:
        """Takes all tokens back, so that nobody takes the end for a crash, and ends all traffic."""
        if self.session.zenoh.is_closed():
            return
        for part in self._parts:
            part.close()
        self._parts.clear()
        self._token.undeclare()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def open_node(name: str, namespace: str = "/", *, domain: int | None = None, router: str | None = None,
              patience: float = 2.0, stop: threading.Event | None = None) -> Iterator[Node]:
    """A node with a session of its own, both closed at the end; see :func:`open_session` for what it raises."""
    with open_session(router, patience=patience, stop=stop) as session, Node(session, name, namespace, domain) as node:
        yield node

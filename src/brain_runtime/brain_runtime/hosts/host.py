# SPDX-License-Identifier: Apache-2.0
"""Host: what a region's node asks of whatever carries its messages. Six verbs; a new host defines four or five of them.

=========  ============================================================  ===========================================
verb       who calls it                                                  in which thread
=========  ============================================================  ===========================================
publish    :class:`.connections.Connections`, for each output of the     the one that controls: makes transitions of
           region; :class:`.process.ProcessHost`, for the heartbeat      the life, answers services
subscribe  Connections, for each input, as long as it is to be heard     the one that controls
serve      Connections, for each action                                  the one that controls
ask        Connections, for each action of others                        the one that controls
clock      whoever stamps a message: a step, a heartbeat                 any
deliver    the host itself, with what came at an input                   the one that received it; on hosts with many,
                                                                         many at once
=========  ============================================================  ===========================================

What a host is given back (:class:`Publication`, :class:`Subscription`, :class:`Served`) it makes for its wire. What a
region lives through is not the host's: see :class:`.hosted_region.HostedRegion`, from which hosts are derived. When a
step starts is not either: see :mod:`brain_runtime.hosts.policy`.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Iterable, Protocol

from brain_runtime.hosts.edges import Edge
from brain_wire.goals import Act, Ask, News, Order
from brain_wire.latency import Hop
from brain_wire.qos import QoS

if TYPE_CHECKING:
    from brain_runtime.hosts.input import Input


class Arrived(Protocol):
    """A message that has arrived and is not decoded yet.

    Attributes:
        data: its CDR bytes, or what else the host's :meth:`Host.decoder` takes.
        received: time of receipt on the host's steady clock (:meth:`Host.now`, s).
        hop: what is noted of its publisher; None where nothing is.
    """

    @property
    def data(self) -> Any: ...

    @property
    def received(self) -> float: ...

    @property
    def hop(self) -> Hop | None: ...


class Publication(Protocol):
    """A topic that is published.

    Attributes:
        topic: its full name.
    """

    @property
    def topic(self) -> str: ...

    def send(self, message: Any) -> None:
        """Publishes a message, from the thread that steps. Raises MessageError."""

    def send_encoded(self, message: Any, data: bytes) -> None:
        """Publishes a message whose CDR bytes there are already, from the thread that steps or controls."""

    def heard(self) -> bool:
        """Tells whether there is any subscriber. Asked of topics that are not latched, in the thread that controls."""

    def others(self) -> Iterable[str]:
        """Full names of the other nodes that publish the topic now."""

    def close(self) -> None:
        """Publishes no more."""


class Subscription(Protocol):
    """A topic that is heard.

    Attributes:
        topic: its full name.
    """

    @property
    def topic(self) -> str: ...

    def take(self) -> list[Any]:
        """Takes all that has arrived and waits, oldest first (:class:`Arrived`); called in the thread that steps."""

    def sender(self, arrival: Any) -> str:
        """Names the publisher of a message, as far as that can be said, as `` of /name``; else empty."""

    def edges(self, now: float) -> list[Edge]:
        """Returns the edge from each publisher, as far as that is known; in the thread that controls.

        Args:
            now: on the host's steady clock (s).
        """

    def close(self) -> None:
        """Hears no more; what still waits is not taken in any more."""


class Served(Protocol):
    """An action that is served."""

    def tell(self, news: News) -> None:
        """Passes on what is new of a goal, from the thread that steps."""

    def close(self) -> None:
        """Serves no more."""


class Asking(Protocol):
    """An action of others that is used."""

    def order(self, order: Order) -> None:
        """Gives an order, from the thread that steps; it waits for nothing."""

    def close(self) -> None:
        """Asks and hears no more."""


class Host(ABC):
    """Host of one region's node: carries its messages and tells it the time.

    Class attributes:
        kind: of the host, as heartbeats name it: ``zenoh``, ``ros``, ``torch`` or ``local``.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def fqn(self) -> str:
        """Fully qualified name of the node."""

    @abstractmethod
    def publish(self, topic: str, type_name: str, qos: QoS) -> Publication:
        """Begins to publish a topic.

        Args:
            topic: as declared; the host resolves and remaps it.
            type_name: ``package/msg/Type``.
        """

    @abstractmethod
    def subscribe(self, inbound: Input) -> Subscription:
        """Begins to hear the topic of ``inbound.port``, and to :meth:`deliver` to that input what comes."""

    @abstractmethod
    def serve(self, name: str, act: Act) -> Served:
        """Begins to serve an action.

        Each goal is handed in with :meth:`.hosted_region.HostedRegion.hand_in`, and once more when it is to be given
        up, while the region is active.

        Args:
            name: of the action at its region.
        """

    @abstractmethod
    def ask(self, name: str, ask: Ask) -> Asking:
        """Begins to use an action of others; news is handed in as goals are.

        Args:
            name: of the action at its region.

        Raises:
            ParameterError: a region on this host cannot ask others.
        """

    @abstractmethod
    def clock(self) -> float:
        """Time for headers (s since the epoch, or simulated)."""

    @abstractmethod
    def deliver(self, inbound: Input, arrival: Arrived | None = None) -> bool:
        """Hands on what came at an input.

        Args:
            inbound: as :meth:`subscribe` got it.
            arrival: a message that nothing else waits before. It is taken in if the step that it triggers can be made
                at once. None: something may wait that :meth:`Subscription.take` gives.

        Returns:
            False where ``arrival`` was not taken in: it is to wait, and ``deliver`` to be called again without it.
        """

    @abstractmethod
    def now(self) -> float:
        """The steady clock (s), by which ages, rates and timeouts go."""

    @abstractmethod
    def decoder(self, type_name: str) -> Any:
        """Returns the function that decodes :attr:`Arrived.data` into a message of a type; that raises MessageError."""

# SPDX-License-Identifier: Apache-2.0
"""Connections: a region's ports and actions at its host, and what goes in and out there."""
from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Callable, Iterable

from brain_runtime.hosts.edges import Edge
from brain_runtime.contract.energy import Passed
from brain_runtime.hosts.host import Arrived, Asking, Publication, Served
from brain_runtime.hosts.input import Input
from brain_runtime.contract.ports import Out
from brain_wire.goals import Act, Ask

if TYPE_CHECKING:
    from brain_runtime.hosts.hosted_region import HostedRegion

HEED = 0.05             # s that a look at what is wanted waits for the step that is being made


class Connections:
    """Connections of a region. Its host's thread that controls calls all but what the attributes hold.

    Args:
        hosted: the region, in the hands of its host.

    Attributes:
        publications, inputs, served, asking: what is published, heard, served and asked for now, by name at the region.
        senders: by topic, what publishes a message or holds it for the energy budget, or tells news of a goal.
        broken: messages that could not be read so far, by topic.
    """

    def __init__(self, hosted: HostedRegion) -> None:
        self._hosted = hosted
        self.publications: dict[str, Publication] = {}
        self.inputs: dict[str, Input] = {}
        self.served: dict[str, Served] = {}
        self.asking: dict[str, Asking] = {}
        self.senders: dict[str, Callable[[Any], None]] = {}
        self.broken: Counter[str] = Counter()
        self._passed: dict[str, Callable[[Any, bytes], None]] = {}  # by topic, what sends what the gate lets pass

    def plug(self) -> None:
        """Connects all of the configured region but what is heard for outputs on demand only.

        In a host that only says the last word of another: what it says that on.
        """
        hosted, region = self._hosted, self._hosted.region
        for name, port in region.publishes().items():
            if hosted.silent and not port.alone:
                self.senders[port.topic] = _nothing
                continue
            publication = self.publications[name] = hosted.publish(port.topic, port.type, port.qos)
            self._passed[port.topic] = publication.send_encoded
            self.senders[port.topic] = self._gated(port, publication)
        if hosted.silent:
            return
        self.hear()
        for name, act in region.actions().items():
            served = self.served[name] = hosted.serve(name, act)
            self.senders[act.topic] = served.tell
        for name, ask in region.asks().items():
            asking = self.asking[name] = hosted.ask(name, ask)
            self.senders[ask.topic] = asking.order

    def unplug(self) -> None:
        """Takes back what :meth:`plug` did, as far as it came."""
        for name in tuple(self.inputs):
            self._unhear(name)
        for served in self.served.values():
            served.close()
        for asking in self.asking.values():
            asking.close()
        for publication in self.publications.values():
            publication.close()
        self.publications, self.served, self.asking, self.senders, self._passed = {}, {}, {}, {}, {}

    # -- inputs ----------------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """Hears all but what is heard for outputs on demand only."""
        for name, heard in self._hosted.region.hears().items():
            if not heard.feeds:
                self._hear(name)

    def _hear(self, name: str) -> None:
        if name in self.inputs:
            return
        hosted = self._hosted
        port = hosted.region.hears()[name]
        decode = hosted.decoder(port.type)
        if port.codec:
            decode = _both(decode, hosted.running.opened(name))
        inbound = self.inputs[name] = Input(name, port, hosted.running.slots[name], decode, self._unreadable)
        inbound.subscription = hosted.subscribe(inbound)
        hosted.deliver(inbound)   # what came before that line, as what is latched may, was noted and could not be taken

    def _unhear(self, name: str) -> None:
        inbound = self.inputs.pop(name, None)
        if inbound is None:
            return
        subscription, inbound.subscription = inbound.subscription, None
        if subscription is not None:
            subscription.close()

    def _unreadable(self, inbound: Input, arrival: Arrived, what: str) -> None:
        subscription = inbound.subscription
        self.complain(inbound, what, "" if subscription is None else subscription.sender(arrival))

    def complain(self, inbound: Input, what: str, sender: str = "") -> None:
        """Counts and tells a message that was dropped.

        Args:
            inbound: where it came.
            what: is wrong with it.
            sender: ``" of /name"``, or empty.
        """
        topic = inbound.port.topic if inbound.subscription is None else inbound.subscription.topic
        self.broken[topic] += 1
        self._hosted.warn(topic, f"{topic}: dropped a message{sender}: {what} ({self.broken[topic]} so far). Its "
                                 f"publisher must send {inbound.port.type}"
                                 + (f", codec {inbound.port.codec}." if inbound.port.codec else "."))

    def edges(self) -> list[Edge]:
        """Returns the edges on which messages come to the region, as far as they are known."""
        now = self._hosted.now()
        heard = [inbound.subscription for inbound in tuple(self.inputs.values())]   # another thread may end hearing one
        return [edge for subscription in heard if subscription is not None for edge in subscription.edges(now)]

    # -- outputs ---------------------------------------------------------------------------------------------------

    def heed(self, active: bool) -> bool:
        """Sees which outputs on demand somebody listens to, and hears what those are made of, and no more.

        Args:
            active: whether the region makes any.

        Returns:
            Whether these are others than before.
        """
        hosted, region = self._hosted, self._hosted.region
        wanted = frozenset(name for name, port in region.publishes().items()
                           if active and port.on_demand and self.publications[name].heard())
        if wanted == region.wanted:
            return False
        for name, port in region.hears().items():
            if port.feeds:
                (self._hear if port.needed(wanted) else self._unhear)(name)
        if hosted.turn.acquire(timeout=HEED):   # else at the next look: a step that is stuck must not stop the heart
            try:
                hosted.running.heed(wanted)
            finally:
                hosted.turn.release()
        return True

    def alone(self) -> dict[str, str]:
        """Full topics of the outputs that nobody else ought to publish, by name."""
        return {name: self.publications[name].topic for name, port in self._hosted.region.publishes().items()
                if port.alone and name in self.publications}

    def heard(self) -> bool:
        """Checks that somebody hears each of the outputs that nobody else ought to publish."""
        return all(self.publications[name].heard() for name in self.alone())

    def replaced(self) -> bool:
        """Checks whether another node publishes one of those outputs, too."""
        return any(self.others(name) for name in self.alone())

    def others(self, name: str) -> Iterable[str]:
        """Full names of the other nodes that publish the topic of an output now."""
        publication = self.publications.get(name)
        return () if publication is None else publication.others()

    # -- sending, within the energy budget: see brain_runtime.contract.energy ------------------------------------------

    def _gated(self, port: Out, publication: Publication) -> Callable[[Any], None]:
        """Makes the sender of a port's messages: of all of them without a budget, else of what the gate lets pass."""
        hosted, gate, send, send_encoded = self._hosted, self._hosted.gate, publication.send, publication.send_encoded

        def send_or_hold(message: Any) -> None:
            if not gate.limited:
                send(message)
                return
            passed = gate.offer(port, message, hosted.now())
            if passed is not None:
                send_encoded(passed.message, passed.data)
        return send_or_hold

    def send(self, published: Iterable[tuple[Out | Act | Ask, Any]]) -> None:
        """Sends what a stepper gave back, in its order. Raises MessageError."""
        senders = self.senders
        for port, message in published:
            senders[port.topic](message)

    def let_go(self, passed: Iterable[Passed]) -> None:
        """Sends what the energy budget held. With the region's turn."""
        for port, message, data in passed:
            self._passed[port.topic](message, data)


def _nothing(message: Any) -> None:
    """Does nothing with a message that is not to be said."""


def _both(decode: Callable[[Any], Any], open_up: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """First the one, then the other."""
    return lambda data: open_up(decode(data))

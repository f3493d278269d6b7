# SPDX-License-Identifier: Apache-2.0
"""Gateway: rank 0 of a static group that drives a robot. On Zenoh it stands for the regions that the other ranks run.

Each region is a ROS 2 node to everybody outside, as on other hosts, but all of these nodes are in this one process.
What comes from outside goes into the group, what regions publish goes out, and the clock of the group is the steady
clock: while a rank is late all wait, and what was due meanwhile is done once. With a synchronous tick all regions go on
together, at a rate, and who is late is named.
"""
from __future__ import annotations

import functools
import logging
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from brain_runtime.contract import heartbeat, snapshot
from brain_runtime.hosts import diagnostics
from brain_runtime.hosts.hosted_region import EVENT_QUALITY, TRANSITION_EVENT
from brain_collectives.hosts.remote_region import port_of
from brain_collectives.hosts.torch import TorchHost
from brain_collectives.hosts.torch_snapshot import pack
from brain_runtime.contract.ports import In, Out
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_runtime.contract.snapshot import SnapshotError
from brain_wire import Arrival, Node, Publisher, Server, Session, Subscription, messages, parameter_services
from brain_wire.attachment import AttachmentProblem
from brain_wire.goals import Act, Goal
from brain_wire.qos import QoS
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.wakeup import Signal

LOOK = 0.1          # s between two looks at which outputs on demand somebody hears
SNAPSHOT_PERIOD = 2.0   # s
SHARE = 0.005       # s that answering services of one node takes at most, before the group goes on

limited_log = RateLimitedLog(logging.getLogger(__name__))


class Gateway:
    """Drives a brain whose regions are the other ranks, in real time. Make it, then call :meth:`run`.

    Args:
        host: the group, as rank 0 sees it.
        resolved: what runs in the group.
        session: open session; stays open.
        domain: ROS domain; None: ``ROS_DOMAIN_ID``.
        kept: file of the snapshots of the whole brain; None: none are made.
        tick: rate at which all ranks go on together (Hz); None: they go on whenever there is something to do.

    Attributes:
        nodes: by region.
        broken: messages from outside so far that could not be read.

    Raises:
        NameProblem: a name that ROS 2 does not allow.
        GroupError, RegionError: see :class:`.hosts.torch.TorchHost`.
    """

    def __init__(self, host: TorchHost, resolved: Resolved, session: Session, domain: int | None = None,
                 kept: Path | None = None, tick: float | None = None) -> None:
        self._host, self._brain, self._kept = host, resolved.name, kept
        self._signal = Signal()
        self._over = False
        self.broken = 0
        self._begin = self._next_look = time.monotonic()
        self._next_save = self._begin + SNAPSHOT_PERIOD
        self._ticks = None if tick is None else Ticks(host, tick)
        self.nodes = {spec.name: Node(session, spec.name, spec.namespace, domain) for spec in resolved.regions}
        self._out: dict[str, _Out] = {}         # by topic
        self._in: dict[str, tuple[In, Subscription]] = {}
        self._diagnostics: dict[str, tuple[Publisher, float]] = {}      # by region; when they are due
        self._servers: list[Server] = []
        for spec in resolved.regions:
            card = host.cards[spec.name]
            self._publish(spec, card)
            self._hear(spec, card["hears"])
            self._serve(spec, card["services"])
        self._own = {publisher.gid for out in self._out.values() for publisher in out.publishers.values()}
        for topic, out in self._out.items():
            if not out.on_demand:
                out.open(host, topic)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _publish(self, spec: ResolvedRegion, card: Mapping[str, Any]) -> None:
        for content in card["publishes"].values():
            port = port_of(Out, content)
            self._add(spec, port.topic, port.type, port.qos, on_demand=port.on_demand)
        named: Callable[[str], str] = lambda topic: spec.remap.get(topic, topic)  # noqa: E731
        self._add(spec, named(heartbeat.PORT.topic), heartbeat.TYPE, heartbeat.PORT.qos).more = self._diagnose
        self._diagnostics[spec.name] = self.nodes[spec.name].publisher(
            diagnostics.TOPIC, diagnostics.TYPE, diagnostics.QUALITY), 0.0
        self._add(spec, f"{spec.name}/transition_event", TRANSITION_EVENT, EVENT_QUALITY,
                  outside="~/transition_event")
        self._add(spec, named(parameter_services.EVENTS), parameter_services.EVENT_TYPE,
                  parameter_services.EVENT_QUALITY)

    def _add(self, spec: ResolvedRegion, topic: str, type_name: str, qos: QoS, *, on_demand: bool = False,
             outside: str = "") -> _Out:
        out = self._out.setdefault(topic, _Out(on_demand))
        out.publishers[spec.name] = self.nodes[spec.name].publisher(outside or topic, type_name, qos)
        return out

    def _diagnose(self, region: str, beat: Any) -> None:
        """Tells the heartbeat of a region as diagnostics, now and then."""
        (publisher, due), now = self._diagnostics[region], time.monotonic()
        if now >= due:
            self._diagnostics[region] = publisher, now + diagnostics.PERIOD
            publisher.publish(diagnostics.diagnostics(beat))

    def _hear(self, spec: ResolvedRegion, hears: Mapping[str, Any]) -> None:
        """One subscription for each topic, in the name of the region that is the first to hear it."""
        for port in (port_of(In, content) for content in hears.values()):
            if port.topic not in self._in:
                self._in[port.topic] = port, self.nodes[spec.name].subscription(
                    port.topic, port.type, port.qos, wake=self._signal, by_publisher=bool(port.key))

    def _serve(self, spec: ResolvedRegion, services: Mapping[str, str]) -> None:
        server = Server(self.nodes[spec.name], self._signal, SHARE)
        server.services({name: (kind, functools.partial(self._host.call, f"{spec.name}/{name}"))
                         for name, kind in services.items()})
        for name, act in spec.load().actions().items():
            self._act(server, spec, name, act)
        self._servers.append(server)

    def _act(self, server: Server, spec: ResolvedRegion, name: str, act: Act) -> None:
        def give(goal: Goal) -> None:
            self._host.hand_in(spec.name, name, goal, acting.tell)
        acting = server.action(act, give, name=spec.remap.get(act.topic, act.topic))

    # -- running -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Asks for the end, from any thread or a signal handler."""
        self._over = True
        self._signal.set()

    def run(self) -> None:
        """Drives the brain until :meth:`stop`, in the calling thread; then its regions end in good order.

        Raises:
            GroupError: a rank is lost, and with it the brain. RegionError: a region failed, and with it the brain.
        """
        while not self._over:
            now = time.monotonic()
            if self._ticks is None:
                self._signal.wait(max(0.0, min(self._begin + self._host.schedule.next_due, self._next_look) - now))
            else:
                self._ticks.meet()
            self.round()
        self._save()
        self._host.leave()

    def round(self) -> None:
        """Goes on to now: with what has come, what is due and what is asked. Raises GroupError, RegionError."""
        said = [(topic, message, port.qos.latched) for topic, (port, subscription) in self._in.items()
                for message in self._taken(port, subscription)]
        now = time.monotonic()
        self._host.meet(now - self._begin, time.time() - (now - self._begin), said)
        for server in self._servers:
            server.serve(0.0)
        if now >= self._next_look:
            self._next_look = now + LOOK
            self._heed()
        if now >= self._next_save:
            self._next_save = now + SNAPSHOT_PERIOD
            self._save()

    def _save(self) -> None:
        """Writes down the states of all regions at this instant."""
        if self._kept is None:
            return
        states = self._host.snapshot()
        try:
            snapshot.put(self._kept, pack(states, self._brain, self._host.now), f"brain {self._brain}")
        except SnapshotError as error:
            limited_log("snapshot", str(error))

    def _taken(self, port: In, subscription: Subscription) -> Iterator[Any]:
        """Takes the messages of a topic that came from others, and yields those that can go into the group."""
        for _ in range(len(subscription.refused)):
            self._complain(port, subscription, subscription.refused.popleft())
        for arrival in subscription.take():
            if self._is_own(arrival):
                continue
            try:
                message = messages.decode(arrival.data, port.type)
                messages.encode(message)    # all ranks are told of it before it is sent: then it must not fail
            except messages.MessageError as error:
                self._complain(port, subscription, str(error))
                continue
            yield message

    def _is_own(self, arrival: Arrival) -> bool:
        try:
            return arrival.attachment.gid in self._own
        except AttachmentProblem:
            return False

    def _complain(self, port: In, subscription: Subscription, what: str) -> None:
        self.broken += 1
        topic = subscription.endpoint.topic
        limited_log(topic, f"{topic}: dropped a message: {what} ({self.broken} so far on all topics). Its publisher "
                           f"must send {port.type}.")

    def _heed(self) -> None:
        for topic, out in self._out.items():
            if out.on_demand:
                wanted = any(publisher.heard for publisher in out.publishers.values())
                if wanted != out.opened:
                    out.open(self._host, topic) if wanted else out.close()

    def close(self) -> None:
        """Takes the nodes from the wire."""
        for node in self.nodes.values():
            node.close()


class _Out:
    """A topic that goes outside: a publisher for each region that has it."""

    def __init__(self, on_demand: bool) -> None:
        self.on_demand = on_demand
        self.publishers: dict[str, Publisher] = {}
        self.more: Callable[[str, Any], None] | None = None     # is told of each message too, and of whose it is
        self._end: Callable[[], None] | None = None

    @property
    def opened(self) -> bool:
        """True while what is published goes out."""
        return self._end is not None

    def open(self, host: TorchHost, topic: str) -> None:
        """Lets out what regions publish from now on, and what is latched."""
        def send(message: Any) -> None:
            publisher = self.publishers.get(host.speaker)
            if publisher is not None:   # else it came from outside
                publisher.publish(message)
                if self.more is not None:
                    self.more(host.speaker, message)
        self._end = host.listen(topic, send)

    def close(self) -> None:
        """Lets nothing out any more."""
        if self._end is not None:
            self._end()
            self._end = None


class Ticks:
    """Waits for the next tick, and for all ranks to have done what the last one asked of them (a barrier).

    Args:
        host: the group, as rank 0 sees it.
        rate: of ticks (Hz).

    Attributes:
        number: of the tick that is on.
        late: by region, in how many ticks it was what took longest when a tick took longer than it should.
    """

    def __init__(self, host: TorchHost, rate: float) -> None:
        self._host, self._period = host, 1.0 / rate
        self.number = 0
        self._begun = self._next = time.monotonic()
        self.late: dict[str, int] = {}

    def meet(self) -> None:
        """Returns when the next tick is to begin everywhere. Ticks that were missed are not made up for.

        Raises:
            GroupError: names the ranks that have not come to it.
        """
        busy = self._host.tick(self.number, max(0.0, self._next - time.monotonic()))
        now = time.monotonic()
        took = now - self._begun
        if now - self._next > self._period and busy:
            slowest = max(busy, key=lambda name: busy[name])
            self.late[slowest] = self.late.get(slowest, 0) + 1
            limited_log(slowest, f"tick {self.number} took {took:.3f} s, not {self._period:.3f}: {slowest} computed "
                                 f"for {busy[slowest]:.3f} s, longer than all others; it was late "
                                 f"{self.late[slowest]} times so far")
        missed = max(0, int((now - self._next) / self._period))
        self._next += (missed + 1) * self._period
        self._begun, self.number = now, self.number + 1

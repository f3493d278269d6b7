# SPDX-License-Identifier: Apache-2.0
"""ZenohHost: one region as a process, which is a ROS 2 node to every rmw_zenoh node on the same router.

None of its threads is Zenoh's: there is one that receives for each topic.
"""
from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any, Callable, Mapping

from brain_runtime.contract import heartbeat as beat
from brain_runtime.hosts.edges import Edge, edge
from brain_runtime.hosts.connections import Connections
from brain_runtime.hosts.input import Input
from brain_runtime.hosts.node_parameters import NodeParameters, fitting, sim_time, split
from brain_runtime.hosts.process import ProcessHost
from brain_runtime.hosts.predecessors import Predecessors
from brain_runtime.contract.region import Region
from brain_wire import lifecycle, parameter_services, type_descriptions
from brain_wire.goals import Act, Ask
from brain_wire.latency import SILENT
from brain_wire.qos import QoS
from brain_wire import Arrival, Node, Publisher, Server, Session, Subscription, Watch
from brain_wire.action import ActionServer
from brain_wire.asking import Orders
from brain_wire.attachment import AttachmentProblem
from brain_wire.clock import SimulatedTime
from brain_wire.names import PUBLISHER
from brain_wire.shared_memory import view

SHARE = 0.02            # s that answering goes on after a heartbeat is due, however many ask: the heart beats


class ZenohHost(ProcessHost):
    """Runs one region on a Zenoh session. Make it, then call :meth:`run`.

    Args:
        region: not configured yet.
        session: open session; stays open.
        name, namespace: of the node.
        domain: ROS domain; None: ``ROS_DOMAIN_ID``.
        parameters: of the region, and ``use_sim_time``: stamps come from ``/clock``; timeouts stay on the steady clock;
            and ``energy_budget``: see :mod:`brain_runtime.contract.energy`.
        topic: from a port's topic to the name that is used, for remapping; None: as declared.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
        critical: the robot must not move without this region.
        restarts: times it was started again by its supervisor.
        autostart, before: see :class:`brain_runtime.hosts.process.ProcessHost`.

    Raises:
        ParameterError: there is no such parameter; one whose value does not fit leaves the region unconfigured.
        NameProblem: a name that ROS 2 does not allow.
    """

    kind = "zenoh"

    def __init__(self, region: Region, session: Session, *, name: str | None = None, namespace: str = "/",
                 domain: int | None = None, parameters: Mapping[str, Any] | None = None,
                 topic: Callable[[str], str] | None = None, seed: int = 0, state_dir: Path | None = None,
                 critical: bool = False, restarts: int = 0, autostart: bool = True,
                 before: Predecessors | None = None) -> None:
        fits, unfit = fitting(name or region.name, region.Parameters, parameters or {})
        values, budget, simulated = split(name or region.name, region.Parameters, fits)
        self.node = Node(session, name or region.name, namespace, domain)
        self._name = topic or (lambda declared: declared)
        self._watch = Watch(session, self.node.domain, own=lambda: self.node.endpoints)
        self._sim_time: SimulatedTime | None = None
        self._time: Callable[[], float] = time.time
        super().__init__(region, name=name, namespace=self.node.namespace, seed=seed, state_dir=state_dir,
                         critical=critical, restarts=restarts, autostart=autostart, before=before)
        self._set_sim_time(simulated)
        self.unfit, self.gate.budget = unfit, budget
        own = sim_time(region.name, "stamps come from /clock; timeouts stay on the steady clock",
                       lambda: self._sim_time is not None, self._set_sim_time)
        self._values = NodeParameters(self, values, own)
        self.life = self.lifecycle()
        self._server = Server(self.node, self._attention, SHARE)
        self._server.services({
            **parameter_services.handlers(self._values.access()), **lifecycle.handlers(self.life, self._ordered),
            **type_descriptions.handlers(self._types)})

    # -- verbs -----------------------------------------------------------------------------------------------------

    @property
    def fqn(self) -> str:
        return self.node.fqn

    def publish(self, topic: str, type_name: str, qos: QoS) -> _Publication:
        return _Publication(self.node, self._watch, self.node.publisher(self._name(topic), type_name, qos))

    def subscribe(self, inbound: Input) -> _Subscription:
        port = inbound.port
        # What does not trigger waits for the next step, and what is kept apart by publisher is sorted first.
        deliver = functools.partial(self.deliver, inbound)
        subscription = self.node.subscription(
            self._name(port.topic), port.type, port.qos, by_publisher=bool(port.key), arrived=deliver,
            at_once=self.policy.at_once(inbound, view) if inbound.alone else None, hops=True,
            in_place=True)
        return _Subscription(self.node, self._watch, subscription, self.connections, inbound)

    def serve(self, name: str, act: Act) -> ActionServer:
        return self._server.action(act, functools.partial(self.hand_in, name), name=self._name(act.topic),
                                   ready=lambda: self.state == beat.ACTIVE)

    def ask(self, name: str, ask: Ask) -> Orders:
        return Orders(self.node, ask, self._name(ask.topic), functools.partial(self.hand_in, name))

    def clock(self) -> float:
        return self._time()

    # -- parameters ------------------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        return self._values.region()

    def _types(self) -> set[str]:
        """Names of the types that the node has on its topics and in its services."""
        return {endpoint.type for endpoint in self.node.endpoints}

    def _set_sim_time(self, wanted: bool) -> None:
        simulated = self._sim_time
        if wanted and simulated is None:
            self._sim_time = self._time = SimulatedTime(self.node, self._name(SimulatedTime.TOPIC))
        elif not wanted and simulated is not None:
            simulated.close()
            self._sim_time, self._time = None, time.time

    # -- control ---------------------------------------------------------------------------------------------------

    def change(self, transition: str) -> bool:
        return self.life.change(transition)

    def _ordered(self, transition: int | str) -> bool:
        return self.begins_anew(transition) or self.life.change(transition)

    def stop(self) -> None:
        super().stop()
        self._server.stop()

    def _pause(self, seconds: float) -> None:
        self._server.serve(seconds, self.hand_in_goals)

    def _look_about(self) -> None:
        self._watch.poll()

    def _close(self) -> None:
        self._watch.close()
        self.node.close()


class _Publication:
    """See :class:`brain_runtime.hosts.host.Publication`."""

    def __init__(self, node: Node, watch: Watch, publisher: Publisher) -> None:
        self._node, self._watch, self._publisher = node, watch, publisher
        self.topic = publisher.endpoint.topic
        self.send = publisher.publish

    def send_encoded(self, message: Any, data: bytes) -> None:
        self._publisher.publish_bytes(data)

    def heard(self) -> bool:
        return self._publisher.heard

    def others(self) -> list[str]:
        own = self._publisher.endpoint
        return [e.name for e in self._watch.endpoints(self.topic, PUBLISHER) if e != own]

    def close(self) -> None:
        self._node.let_go(self._publisher)


class _Subscription:
    """See :class:`brain_runtime.hosts.host.Subscription`."""

    def __init__(self, node: Node, watch: Watch, subscription: Subscription, connections: Connections, inbound: Input
                 ) -> None:
        self._node, self._watch, self._subscription = node, watch, subscription
        self._complain = functools.partial(connections.complain, inbound)
        self.topic = subscription.endpoint.topic

    def take(self) -> list[Arrival]:
        refused = self._subscription.refused
        for _ in range(len(refused)):
            self._complain(refused.popleft())
        return self._subscription.take()

    def sender(self, arrival: Arrival) -> str:
        try:
            gid = arrival.attachment.gid
        except AttachmentProblem:
            return " of a publisher without a ROS 2 attachment"
        publisher = self._watch.publisher(gid)
        return f" of {publisher.name}" if publisher is not None else f" of publisher {gid.hex()}"

    def edges(self, now: float) -> list[Edge]:
        hops, found = self._subscription.hops, []
        for passage in () if hops is None else hops.passages(now):
            publisher = self._watch.publisher(passage.gid)
            if publisher is not None or passage.silence < SILENT:
                found.append(edge(passage, self.topic, None if publisher is None else publisher.name))
        return found

    def close(self) -> None:
        self._node.let_go(self._subscription)

# SPDX-License-Identifier: Apache-2.0
"""ZenohHost: one region as a process, which is a ROS 2 node to every rmw_zenoh node on the same router.

None of its threads is Zenoh's: there is one that receives for each topic. Where steps are quick and nobody is at one,
the thread that received makes the step at once, since to wake the worker would take longer than the step.
"""
from __future__ import annotations

import functools
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Callable, Mapping

from brain_runtime import diagnostics, energy
from brain_runtime import heartbeat as beat
from brain_runtime.process_host import QUICK, ProcessHost
from brain_runtime.region import Region
from brain_wire import lifecycle, messages, parameter_services, type_descriptions
from brain_wire import Arrival, Node, Publisher, Service, Session, Subscription, Watch
from brain_wire.action import ActionServer
from brain_wire.attachment import AttachmentProblem
from brain_wire.clock import SimulatedTime
from brain_wire.names import PUBLISHER, expand
from brain_wire.parameters import Description, ParameterError, check_parameters, describe
from brain_wire.qos import QoS

SIM_TIME = "use_sim_time"
RCLPYS = "start_type_description_service"   # a parameter of rclpy's nodes, which `ros2 param dump` writes down too
OVERRIDES = "qos_overrides."
EVENT_QUALITY = QoS(reliable=True, latched=False, depth=10)
SHARE = 0.02            # s between two heartbeats in which requests are answered at least


class ZenohHost(ProcessHost):
    """Runs one region on a Zenoh session. Make it, then call :meth:`run`.

    Args:
        region: not configured yet.
        session: open session; stays open.
        name, namespace: of the node.
        domain: ROS domain; None: ``ROS_DOMAIN_ID``.
        parameters: of the region, and ``use_sim_time``: stamps come from ``/clock``; timeouts stay on the steady clock;
            and ``energy_budget``: see :mod:`brain_runtime.energy`.
        topic: from a port's topic to the name that is used, for remapping; None: as declared.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
        critical: the robot must not move without this region.
        restarts: times it was started again by its supervisor.
        autostart: configures and activates itself; else it waits for ``ros2 lifecycle``.

    Raises:
        ParameterError: the parameters do not fit.
        NameProblem: a name that ROS 2 does not allow.
    """

    kind = "zenoh"

    def __init__(self, region: Region, session: Session, *, name: str | None = None, namespace: str = "/",
                 domain: int | None = None, parameters: Mapping[str, Any] | None = None,
                 topic: Callable[[str], str] | None = None, seed: int = 0, state_dir: Path | None = None,
                 critical: bool = False, restarts: int = 0, autostart: bool = True) -> None:
        given = {key: value for key, value in (parameters or {}).items()
                 if key != RCLPYS and not key.startswith(OVERRIDES)}
        sim_time = given.pop(SIM_TIME, False)
        budget = energy.budget_of(name or region.name, given)
        given.pop(energy.PARAMETER, None)
        self._wanted = check_parameters(name or region.name, region.Parameters, given)
        self.node = Node(session, name or region.name, namespace, domain)
        super().__init__(region, name=name, namespace=self.node.namespace, seed=seed, state_dir=state_dir,
                         critical=critical, restarts=restarts, autostart=autostart)
        self._name = topic or (lambda declared: declared)
        self._sim_time: SimulatedTime | None = None
        self._set_sim_time(sim_time)
        self._gate.budget = budget
        self._heartbeat = self.node.publisher(self._name(beat.PORT.topic), beat.TYPE, beat.PORT.qos)
        self._diagnostics = self.node.publisher(self._name(diagnostics.TOPIC), diagnostics.TYPE, diagnostics.QUALITY)
        self._changes = self.node.publisher(parameter_services.EVENTS, parameter_services.EVENT_TYPE,
                                            parameter_services.EVENT_QUALITY)
        events = self.node.publisher("~/transition_event", "lifecycle_msgs/msg/TransitionEvent", EVENT_QUALITY)
        self.life = lifecycle.Lifecycle(
            {"configure": lambda: self.attempt("configure", self.connect),
             "activate": lambda: self.attempt("activate", self.activate),
             "deactivate": lambda: self.attempt("deactivate", self.deactivate),
             "cleanup": lambda: self.attempt("cleanup", self.disconnect),
             "shutdown": lambda: self.attempt("shutdown", self.shut_down)}, self.recover, events.publish)
        access = parameter_services.Access(self._descriptions, self._values, self._change_parameters)
        self._services: list[tuple[Service, Callable[[Any], Any]]] = [
            (self.node.service(f"~/{service}", kind, self._stop.set), handler)
            for service, (kind, handler) in {**parameter_services.handlers(access),
                                             **lifecycle.handlers(self.life),
                                             **type_descriptions.handlers(self._types)}.items()]
        self._servers: list[ActionServer] = []
        self._publishers: dict[str, Publisher] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._watch = Watch(session, self.node.domain, own=lambda: self.node.endpoints)

    # -- ports -----------------------------------------------------------------------------------------------------

    def _plug(self) -> None:
        for name, port in self.region.publishes().items():
            publisher = self._publishers[name] = self.node.publisher(self._name(port.topic), port.type, port.qos)
            self._senders[port.topic] = self._gated(port, publisher.publish, publisher.publish_bytes)
        for port_name, port in self.region.hears().items():
            if not port.feeds:
                self._hear(port_name)
        for name, act in self.region.actions().items():
            server = ActionServer(self.node, act, self._name(act.topic), ready=lambda: self._state == beat.ACTIVE,
                                  give=functools.partial(self.hand_in, name), arrived=self._stop.set)
            self._servers.append(server)
            self._senders[act.topic] = server.tell

    def _unplug(self) -> None:
        for server in self._servers:
            server.close()
        for part in [*self._subscriptions.values(), *self._publishers.values()]:
            self.node.let_go(part)
        self._subscriptions, self._publishers, self._servers, self._senders, self._takers = {}, {}, [], {}, {}

    # -- parameters ------------------------------------------------------------------------------------------------

    def _parameters(self) -> dict[str, Any]:
        return {field.name: getattr(self._wanted, field.name) for field in fields(self._wanted)}

    def _descriptions(self) -> dict[str, Description]:
        return {SIM_TIME: Description(bool, "stamps come from /clock; timeouts stay on the steady clock"),
                **{field.name: describe(field)
                   for field in (*fields(energy.HostParameters), *fields(self._wanted))}}

    def _values(self) -> dict[str, Any]:
        return {SIM_TIME: self._sim_time is not None, energy.PARAMETER: self._gate.budget, **self._parameters()}

    def _change_parameters(self, values: Mapping[str, Any]) -> None:
        """Changes parameters, all or none. Raises ParameterError."""
        own = {name: value for name, value in values.items() if name not in (SIM_TIME, energy.PARAMETER)}
        sim_time = values.get(SIM_TIME, self._sim_time is not None)
        if type(sim_time) is not bool:
            raise ParameterError(f"parameter {SIM_TIME} must be true or false, but is {sim_time!r}")
        budget = energy.budget_of(self.region.name, {energy.PARAMETER: self._gate.budget, **values})
        if own:
            fitted = check_parameters(self.region.name, self.region.Parameters, own)
            self.apply(own)
            self._wanted = replace(self._wanted, **{name: getattr(fitted, name) for name in own})
        self._set_sim_time(sim_time)
        self._set_budget(budget)
        told = {name: value for name, value in self._values().items() if name in values}
        self._changes.publish(parameter_services.changed(self.fqn, messages.time_message(self._clock()), told))

    def _types(self) -> set[str]:
        """Names of the types that the node has on its topics and in its services."""
        return {endpoint.type for endpoint in self.node.endpoints}

    def _set_sim_time(self, wanted: Any) -> None:
        if type(wanted) is not bool:
            raise ParameterError(f"parameter {SIM_TIME} must be true or false, but is {wanted!r}")
        if wanted == (self._sim_time is not None):
            return
        if wanted:
            self._sim_time = self._clock = SimulatedTime(self.node, self._name(SimulatedTime.TOPIC))
        else:
            self._sim_time.close()
            self._sim_time, self._clock = None, time.time

    # -- arrivals --------------------------------------------------------------------------------------------------

    def _at_once(self, port_name: str, decode: Callable[[bytes], Any], arrival: Arrival) -> bool:
        """Makes the step that an arrival triggers in the thread that received it.

        Only where steps are quick, nobody is at one, and nothing else waits to be taken in. Returns False where it is
        not so.
        """
        if self._usual_step > QUICK or not self._turn.acquire(False):
            return False
        try:
            if self._ready or self._idle:
                return False
            try:
                message = decode(arrival.payload.to_bytes())
            except messages.MessageError as error:
                self._complain(port_name, self._sender(arrival), str(error))
                return True
            self.stepper.slots[port_name].offer(message, arrival.received)
            self._step(time.monotonic())
        except BaseException as error:
            self._give_up(error)
        finally:
            self._turn.release()
        return True

    def _arrived(self, take: Callable[[], None]) -> None:
        """Notes an arrival that triggers, in the thread that received it, which steps itself where that is quick."""
        self._note(take)
        self._step_or_wake()

    def _hear(self, port_name: str) -> None:
        if port_name in self._subscriptions:
            return
        port = self.region.hears()[port_name]
        take = self._taker(port_name, functools.partial(self._arrivals, port_name))
        # What does not trigger waits for the next step, and what is kept apart by publisher is sorted first.
        self._subscriptions[port_name] = self.node.subscription(
            self._name(port.topic), port.type, port.qos, wake=self._wake, by_publisher=bool(port.key),
            arrived=functools.partial(self._arrived if port.trigger else self._note, take),
            at_once=functools.partial(self._at_once, port_name, messages.decoder(port.type))
            if port.trigger and not port.key else None)

    def _unhear(self, port_name: str) -> None:
        subscription = self._subscriptions.pop(port_name, None)
        if subscription is not None:
            del self._takers[port_name]
            self.node.let_go(subscription)

    def _is_wanted(self, port_name: str) -> bool:
        return self._publishers[port_name].heard

    def _arrivals(self, port_name: str) -> list[Arrival]:
        subscription = self._subscriptions.get(port_name)
        if subscription is None:    # it arrived just before the subscription was ended
            return []
        for _ in range(len(subscription.refused)):
            self._complain(port_name, "", subscription.refused.popleft())
        return subscription.take()

    def _sender(self, arrival: Arrival) -> str:
        try:
            gid = arrival.attachment.gid
        except AttachmentProblem:
            return " of a publisher without a ROS 2 attachment"
        publisher = self._watch.publisher(gid)
        return f" of {publisher.name}" if publisher is not None else f" of publisher {gid.hex()}"

    # -- hooks -----------------------------------------------------------------------------------------------------

    @property
    def fqn(self) -> str:
        return self.node.fqn

    def _topic(self, port_name: str) -> str:
        port = {**self.region.hears(), **self.region.publishes()}[port_name]
        return expand(self._name(port.topic), self.node.namespace, self.node.name)

    def _others(self, port_name: str) -> list[str]:
        publisher = self._publishers.get(port_name)
        return [] if publisher is None else [
            e.name for e in self._watch.endpoints(publisher.endpoint.topic, PUBLISHER) if e != publisher.endpoint]

    def _tell(self, heartbeat: Any) -> None:
        self._heartbeat.publish(heartbeat)

    def _diagnose(self, status: Any) -> None:
        self._diagnostics.publish(status)

    def _change(self, transition: str) -> bool:
        return self.life.change(transition)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._ending:
            enough = max(until, time.monotonic() + SHARE)   # however many ask, the heart beats
            for service, handler in self._services:
                service.answer(handler, enough)
            for server in self._servers:
                server.serve()
            self._hand_in()
            left = until - time.monotonic()
            if left <= 0:
                return
            self._stop.wait(left)

    def _look_about(self) -> None:
        self._watch.poll()

    def _close(self) -> None:
        self._watch.close()
        self.node.close()

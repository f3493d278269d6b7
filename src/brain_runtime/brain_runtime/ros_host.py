# SPDX-License-Identifier: Apache-2.0
"""RosHost: one region as a lifecycle node on rclpy, over whatever middleware ROS 2 was told to use.

It publishes and receives raw bytes in our encoding, so that rclpy converts no array field by field. A thread spins an
executor of one thread, which receives and answers services. Steps are never made in a callback: where they are quick
and nobody is at one, the spinning thread makes them after the callback, since to wake the worker would take longer than
the step; else the worker does. The calling thread sends heartbeats and sees to it that a stuck step ends the process.
"""
from __future__ import annotations

import functools
import itertools
import logging
import os
import threading
import time
from collections import deque
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

from rcl_interfaces.msg import (FloatingPointRange, IntegerRange, ParameterDescriptor, ParameterType,
                                SetParametersResult)
from rclpy._rclpy_pybind11 import RCLError  # nowhere else named
from rclpy.clock import Clock, ClockType
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from brain_runtime import diagnostics, energy
from brain_runtime import heartbeat as beat
from brain_runtime.health import Limits
from brain_runtime.ports import In
from brain_runtime.process_host import ProcessHost
from brain_runtime.region import Region
from brain_runtime.ros_action import RosAction
from brain_runtime.ros_types import interface
from brain_wire import messages
from brain_wire.lifecycle import Outcome
from brain_wire.parameters import ParameterError, check_parameters, describe
from brain_wire.qos import QoS

log = logging.getLogger(__name__)

SPIN_END = 1.0          # s that the spinning thread gets to end
STUCK = 70              # exit status of a process whose step does not end
KEYED = 64              # messages that wait where the newest of each publisher counts
TO_LOOK_AT = ("rosgraph_msgs", "tf2_msgs", "visualization_msgs")   # packages that are needed by those who look on only
OF_EVERY_NODE = ("use_sim_time", "start_type_description_service", energy.PARAMETER)

_ELEMENTS = {bool: ParameterType.PARAMETER_BOOL_ARRAY, int: ParameterType.PARAMETER_INTEGER_ARRAY,
             float: ParameterType.PARAMETER_DOUBLE_ARRAY, str: ParameterType.PARAMETER_STRING_ARRAY}


_RETURNS = {Outcome.SUCCESS: TransitionCallbackReturn.SUCCESS, Outcome.FAILURE: TransitionCallbackReturn.FAILURE,
            Outcome.ERROR: TransitionCallbackReturn.ERROR}


class Received(NamedTuple):
    """A message as it came: CDR bytes, and the time of receipt on the steady clock (s)."""

    data: bytes
    received: float


def profile(qos: QoS) -> QoSProfile:
    """The QoS as rclpy has it."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=qos.depth,
        reliability=ReliabilityPolicy.RELIABLE if qos.reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if qos.latched else DurabilityPolicy.VOLATILE)


def descriptor(field: Any) -> ParameterDescriptor:
    """How ROS 2 describes a parameter; see :func:`brain_wire.parameters.describe`."""
    about = describe(field)
    found = ParameterDescriptor(description=about.text, additional_constraints=about.constraints,
                                dynamic_typing=about.dynamic)
    if about.range is not None and about.kind is float:
        found.floating_point_range = [FloatingPointRange(from_value=about.range[0], to_value=about.range[1])]
    elif about.range is not None:
        found.integer_range = [IntegerRange(from_value=about.range[0], to_value=about.range[1], step=1)]
    if about.kind is tuple and not about.dynamic:
        found.type = _ELEMENTS[type(field.default[0])]
    return found


class _Node(LifecycleNode):
    """The node: hands everything on to its host."""

    def __init__(self, name: str, host: RosHost, **settings: Any) -> None:
        self._host = host
        super().__init__(name, **settings)
        # Where a transition is asked for that is not possible, Jazzy's rclpy raises, which would end the executor, and
        # gives no answer; Kilted's answers that it failed.
        self._change_state = self._service_change_state.callback
        self._service_change_state.callback = self._answer

    def _answer(self, request: Any, response: Any) -> Any:
        try:
            return self._change_state(request, response)
        except RCLError as error:
            log.error("%s: %s", self.get_fully_qualified_name(), error)
            response.success = False
            return response

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.attempt("configure", self._host.connect)]

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.attempt("activate", self._host.activate)]

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.attempt("deactivate", self._host.deactivate)]

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.attempt("cleanup", self._host.disconnect)]

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.attempt("shutdown", self._host.shut_down)]

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.recover()]


class RosHost(ProcessHost):
    """Runs one region as a ROS 2 node. Make it after ``rclpy.init``, then call :meth:`run`.

    Args:
        region: not configured yet.
        name, namespace: of the node, before remapping.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
        critical: the robot must not move without this region.
        restarts: times it was started again.
        autostart: configures and activates itself; else it waits for ``ros2 lifecycle``.
        context: rclpy's; None: the global one.
        cli_args: ``--ros-args`` of this node alone.

    Raises:
        ParameterError: a parameter that is given does not exist, or its value does not fit.
        ModuleNotFoundError: the package of a message type is not installed.
    """

    kind = "ros"

    def __init__(self, region: Region, *, name: str | None = None, namespace: str | None = None, seed: int = 0,
                 state_dir: Path | None = None, critical: bool = False, restarts: int = 0, autostart: bool = True,
                 context: Any = None, cli_args: Sequence[str] | None = None) -> None:
        self.node = _Node(name or region.name, self, namespace=namespace, context=context, cli_args=cli_args,
                          use_global_arguments=cli_args is None)
        super().__init__(region, name=self.node.get_name(), namespace=self.node.get_namespace(), seed=seed,
                         state_dir=state_dir, critical=critical, restarts=restarts, autostart=autostart)
        clock = self.node.get_clock()
        self._clock = lambda: clock.now().nanoseconds * 1e-9
        self._limits = Limits()
        self._rings: dict[str, deque[Received]] = {}
        self._subscriptions: dict[str, list[Any]] = {}
        self._published: list[Any] = []
        self._audience: dict[str, Callable[[], int]] = {}   # by output: how many subscriptions it has
        self._servers: list[RosAction] = []
        self._declare()
        self.node.add_on_set_parameters_callback(self._set)
        self._tell = self._publisher(beat.PORT.topic, beat.TYPE, beat.PORT.qos)
        self._diagnose = self._publisher(diagnostics.TOPIC, diagnostics.TYPE, diagnostics.QUALITY)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)
        self._triggered = self._heeding = False
        # What waits for a step to end is looked after again soon; what is new of actions, and the end, at once. The
        # executor's own wake() would not end a spin_once(), and a timeout would have it build a timer at each.
        self.node.create_timer(beat.PERIOD, _nothing, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._nudge = self.node.create_guard_condition(_nothing)
        self._spinning = threading.Thread(target=self._spin, name="spin", daemon=True)

    # -- parameters ------------------------------------------------------------------------------------------------

    def _declare(self) -> None:
        known = {field.name for field in fields(self.region.Parameters)}
        given = {name for name in self.node._parameter_overrides
                 if name not in OF_EVERY_NODE and not name.startswith("qos_overrides.")}
        if given - known:   # says which, and what was meant
            check_parameters(self.region.name, self.region.Parameters, dict.fromkeys(sorted(given - known)))
        for field in (*fields(energy.HostParameters), *fields(self.region.Parameters)):
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            self.node.declare_parameter(field.name, default, descriptor(field))
        check_parameters(self.region.name, self.region.Parameters, self._parameters())
        budget = {energy.PARAMETER: self.node.get_parameter(energy.PARAMETER).value}
        self._gate.budget = energy.budget_of(self.region.name, budget)

    def _parameters(self) -> dict[str, Any]:
        return {field.name: self.node.get_parameter(field.name).value for field in fields(self.region.Parameters)}

    def _set(self, changes: list[Parameter]) -> SetParametersResult:
        """Takes over changed parameters between two steps: all of them, or none and the reason."""
        known = {field.name for field in fields(self.region.Parameters)}
        values = {change.name: change.value for change in changes}
        try:
            budget = energy.budget_of(self.region.name, {energy.PARAMETER: self._gate.budget, **values})
            self.apply({name: value for name, value in values.items() if name in known})
            self._set_budget(budget)
        except ParameterError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    # -- ports -----------------------------------------------------------------------------------------------------

    def _plug(self) -> None:
        for name, port in self.region.publishes().items():
            try:
                send = self._publisher(port.topic, port.type, port.qos)
                self._senders[port.topic] = self._gated(port, send, self._published[-1].publish)
                self._audience[name] = self._published[-1].get_subscription_count
            except ModuleNotFoundError as missing:
                package = port.type.partition("/")[0]
                if package not in TO_LOOK_AT:
                    raise
                log.warning("%s is not published: there is no ROS package %s (%s); install it, or source what has it",
                            port.topic, package, missing)
                self._senders[port.topic], self._audience[name] = _nowhere, _nobody
        for port_name, port in self.region.hears().items():
            if not port.feeds:
                self._hear(port_name)
        for name, act in self.region.actions().items():
            server = RosAction(self.node, act, ready=lambda: self._state == beat.ACTIVE,
                               give=functools.partial(self.hand_in, name), wake=self._nudge.trigger)
            self._servers.append(server)
            self._senders[act.topic] = server.tell

    def _publisher(self, topic: str, type_name: str, qos: QoS) -> Callable[[Any], None]:
        publisher = self.node.create_publisher(interface(type_name), topic, profile(qos))
        self._published.append(publisher)
        encode, publish = messages.encoder(type_name), publisher.publish
        return lambda message: publish(encode(message))

    def _is_wanted(self, port_name: str) -> bool:
        return self._audience[port_name]() > 0

    def _hear(self, port_name: str) -> None:
        if port_name not in self._subscriptions:
            self._subscribe(port_name, self.region.hears()[port_name])

    def _unhear(self, port_name: str) -> None:
        if port_name in self._subscriptions:
            for subscription in self._subscriptions.pop(port_name):
                self.node.destroy_subscription(subscription)
            del self._takers[port_name]
            self._rings.pop(port_name).clear()  # what still waits there is not taken in by the next step

    def _subscribe(self, port_name: str, port: In) -> None:
        ring: deque[Received] = deque(maxlen=KEYED * port.qos.depth if port.key else port.qos.depth)
        take = self._taker(port_name, functools.partial(_all_of, ring))

        def arrived(data: bytes) -> None:
            ring.append(Received(data, time.monotonic()))
            self._note(take)
            if port.trigger:
                self._triggered = True

        self._rings[port_name] = ring
        qos = port.qos.with_depth(ring.maxlen) if port.key else port.qos
        # By DDS's rules a subscription that asks for what is latched hears nobody who does not latch: an emergency
        # button's ordinary publisher. A second one hears everybody, and what comes by both counts once.
        each = [replace(qos, latched=False), qos] if qos.latched else [qos]
        heard = _once(arrived) if qos.latched else arrived
        # so that rclpy's warning of who does not latch is out of place where both are there
        events = SubscriptionEventCallbacks(use_default_callbacks=not qos.latched)
        self._subscriptions[port_name] = [
            self.node.create_subscription(interface(port.type), port.topic, heard, profile(asked), raw=True,
                                          event_callbacks=events) for asked in each]

    def _unplug(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        for subscription in itertools.chain.from_iterable(self._subscriptions.values()):
            self.node.destroy_subscription(subscription)
        kept = self._published[:2]  # heartbeat and diagnostics live as long as the node
        for publisher in self._published[2:]:
            self.node.destroy_publisher(publisher)
        self._published, self._senders, self._audience = kept, {}, {}
        self._subscriptions, self._rings, self._takers = {}, {}, {}

    # -- hooks -----------------------------------------------------------------------------------------------------

    @property
    def fqn(self) -> str:
        return self.node.get_fully_qualified_name()

    def _topic(self, port_name: str) -> str:
        port = {**self.region.hears(), **self.region.publishes()}[port_name]
        return self.node.resolve_topic_name(port.topic)

    def _others(self, port_name: str) -> list[str]:
        found = [f"{info.node_namespace.rstrip('/')}/{info.node_name}"
                 for info in self.node.get_publishers_info_by_topic(self._topic(port_name))]
        if self.fqn in found:
            found.remove(self.fqn)  # one of that name is this one; a second would be another
        return found

    def _begin(self) -> None:
        super()._begin()
        self._spinning.start()

    def _spin(self) -> None:
        try:
            while not self._over:
                for server in self._servers:
                    server.pass_on()
                self._hand_in()
                if self._heeding:
                    self._heeding = False
                    super()._heed()
                self._executor.spin_once()
                if self._triggered:
                    self._triggered = False
                    self._step_or_wake()
        except BaseException as error:  # a thread that ended silently would leave a node that looks alive
            if not self._over:
                self._give_up(error)

    def _heed(self) -> None:
        """Leaves it to the spinning thread, which makes the transitions and thus has the subscriptions."""
        self._heeding = True

    def _end(self, worker: threading.Thread) -> int:
        self._nudge.trigger()
        if self._spinning.is_alive():   # so that the transitions at the end are this thread's alone
            self._spinning.join(SPIN_END)
        return super()._end(worker)

    def _look_about(self) -> None:
        stepper = self.stepper  # a transition may take it away
        since = None if stepper is None else stepper.stepping_since
        if since is None:
            return
        limit = self._limits.step if stepper.steps else self._limits.first_step
        if time.perf_counter() - since > limit:
            log.critical("a step of %s takes longer than %g s; the process ends, so that it can be started again",
                         self.region.name, limit)
            self._rest()
            logging.shutdown()
            os._exit(STUCK)     # the thread that is stuck cannot be ended otherwise

    def _change(self, transition: str) -> bool:
        return getattr(self.node, f"trigger_{transition}")() == TransitionCallbackReturn.SUCCESS

    def _close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()


def _once(arrived: Callable[[bytes], None]) -> Callable[[bytes, Any], None]:
    """Hands each publication on once, that two subscriptions of a topic hear.

    Both tell the same time at which it was published (``source_timestamp``, ns); whoever publishes the same again does
    so at another.
    """
    known: deque[tuple[int, bytes]] = deque(maxlen=2 * KEYED)

    def hear(data: bytes, info: Any) -> None:
        publication = info["source_timestamp"], bytes(data)
        if publication not in known:
            known.append(publication)
            arrived(data)
    return hear


def _nothing() -> None:
    """Only wakes the executor."""


def _nowhere(message: Any) -> None:
    """Takes the messages of a topic that cannot be published."""


def _nobody() -> int:
    """How many listen to it."""
    return 0


def _all_of(ring: deque[Received]) -> list[Received]:
    taken = []
    while ring:
        taken.append(ring.popleft())
    return taken

# SPDX-License-Identifier: Apache-2.0
"""RosHost: one region as a lifecycle node on rclpy, over whatever middleware ROS 2 was told to use.

It publishes and receives raw bytes in our encoding, so that rclpy converts no array field by field. A thread spins an
executor of one thread, which receives and answers services. Steps are never made in a callback: where they are quick and
nobody is at one, the spinning thread makes them after the callback, since to wake the worker would take longer than the
step; else the worker does. The calling thread sends heartbeats and sees to it that a stuck step ends the process.
"""
from __future__ import annotations

import functools
import importlib
import logging
import math
import os
import threading
import time
from collections import deque
from dataclasses import fields
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

from rcl_interfaces.msg import (FloatingPointRange, IntegerRange, ParameterDescriptor, ParameterType,
                                SetParametersResult)
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from brain_runtime import diagnostics, messages
from brain_runtime import heartbeat as beat
from brain_runtime.health import Limits
from brain_runtime.parameters import ParameterError, check_parameters
from brain_runtime.ports import In
from brain_runtime.process_host import ProcessHost
from brain_runtime.qos import QoS
from brain_runtime.region import Region
from brain_runtime.stepper import RegionError

log = logging.getLogger(__name__)

QUICK = 0.002           # s; steps that usually take no longer are made by the thread that received
SPIN_END = 1.0          # s that the spinning thread gets to end
STUCK = 70              # exit status of a process whose step does not end
TURN = 1.0              # s that a change of a parameter waits for the step that is being made
KEYED = 64              # messages that wait where the newest of each publisher counts
OF_EVERY_NODE = ("use_sim_time", "start_type_description_service")

_ELEMENTS = {bool: ParameterType.PARAMETER_BOOL_ARRAY, int: ParameterType.PARAMETER_INTEGER_ARRAY,
             float: ParameterType.PARAMETER_DOUBLE_ARRAY, str: ParameterType.PARAMETER_STRING_ARRAY}


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


def interface(name: str) -> type:
    """rosidl's class of a type such as ``std_msgs/msg/String``.

    Raises:
        ModuleNotFoundError: its package is not installed, or the workspace not sourced.
    """
    package, kind, leaf = name.split("/")
    return getattr(importlib.import_module(f"{package}.{kind}"), leaf)


def descriptor(field: Any) -> ParameterDescriptor:
    """How ROS 2 describes a parameter: its unit, range and choices, and whether it can be changed while running."""
    meta = field.metadata
    unit = f" ({meta['unit']})" if meta["unit"] else ""
    constraints = [f"one of {', '.join(meta['choices'])}"] if meta["choices"] else []
    if not meta["live"]:
        constraints.append("cannot be changed while the node is active")
    found = ParameterDescriptor(description=meta["description"] + unit, additional_constraints="; ".join(constraints))
    low, high = meta["low"], meta["high"]
    if (low is not None or high is not None) and type(field.default) in (int, float):
        if type(field.default) is float:
            found.floating_point_range = [FloatingPointRange(
                from_value=-math.inf if low is None else float(low), to_value=math.inf if high is None else float(high))]
        else:
            found.integer_range = [IntegerRange(from_value=-2**63 if low is None else int(low),
                                                to_value=2**63 - 1 if high is None else int(high), step=1)]
    if field.default == ():     # what its elements are is not known before there are any
        found.dynamic_typing = True
    elif type(field.default) is tuple:
        found.type = _ELEMENTS[type(field.default[0])]
    return found


class _Node(LifecycleNode):
    """The node: hands everything on to its host."""

    def __init__(self, name: str, host: RosHost, **settings: Any) -> None:
        self._host = host
        super().__init__(name, **settings)

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._host.attempt("configure", self._host.connect)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._host.attempt("activate", self._host.activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._host.attempt("deactivate", self._host.deactivate)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._host.attempt("cleanup", self._host.disconnect)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._host.attempt("shutdown", self._host.shut_down)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._host.recover()


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
                         state_dir=state_dir, critical=critical, restarts=restarts)
        self._autostart = autostart
        clock = self.node.get_clock()
        self._clock = lambda: clock.now().nanoseconds * 1e-9
        self._limits = Limits()
        self._next_diagnostics = 0.0
        self._rings: dict[str, deque[Received]] = {}
        self._subscriptions: dict[str, Any] = {}
        self._published: list[Any] = []
        self._declare()
        self.node.add_on_set_parameters_callback(self._change)
        self._heartbeat = self._publisher(beat.PORT.topic, beat.TYPE, beat.PORT.qos)
        self._diagnostics = self._publisher(diagnostics.TOPIC, diagnostics.TYPE, diagnostics.QUALITY)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)
        self._triggered = False
        self._nudge = self.node.create_guard_condition(lambda: None)    # Executor.wake() would not end a spin_once()
        self._spinning = threading.Thread(target=self._spin, name="spin", daemon=True)

    # -- parameters ------------------------------------------------------------------------------------------------

    def _declare(self) -> None:
        known = {field.name for field in fields(self.region.Parameters)}
        given = {name for name in self.node._parameter_overrides
                 if name not in OF_EVERY_NODE and not name.startswith("qos_overrides.")}
        if given - known:   # says which, and what was meant
            check_parameters(self.region.name, self.region.Parameters, dict.fromkeys(sorted(given - known)))
        for field in fields(self.region.Parameters):
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            self.node.declare_parameter(field.name, default, descriptor(field))
        check_parameters(self.region.name, self.region.Parameters, self._parameters())

    def _parameters(self) -> dict[str, Any]:
        return {field.name: self.node.get_parameter(field.name).value for field in fields(self.region.Parameters)}

    def _change(self, changes: list[Parameter]) -> SetParametersResult:
        """Takes over changed parameters between two steps: all of them, or none and the reason."""
        known = {field.name for field in fields(self.region.Parameters)}
        values = {change.name: change.value for change in changes if change.name in known}
        current = self.region.parameters if self.stepper is not None else None
        if not self._turn.acquire(timeout=TURN):
            return SetParametersResult(successful=False, reason=f"{self.region.name} is at a step that does not end")
        try:
            check_parameters(self.region.name, self.region.Parameters, values,
                             current=current if self._state == beat.ACTIVE else None)
            if current is not None:
                for name, value in values.items():
                    self.region.on_parameter(name, value)
        except ParameterError as error:
            return SetParametersResult(successful=False, reason=str(error))
        finally:
            self._turn.release()
        return SetParametersResult(successful=True)

    # -- lifecycle -------------------------------------------------------------------------------------------------

    def attempt(self, what: str, transition: Callable[[], None]) -> TransitionCallbackReturn:
        """Makes a transition; what it raises becomes the reason of the error state."""
        if self._failure is not None and what == "deactivate":
            return TransitionCallbackReturn.ERROR   # the way from a failed step into error processing
        try:
            transition()
        except Exception as error:  # whatever the region raises must not take the node's services with it
            self._reason = f"{self.region.name} failed to {what}: {type(error).__name__}: {error}"
            log.error("%s", self._reason, exc_info=not isinstance(error, ParameterError))
            return TransitionCallbackReturn.ERROR
        self._reason = ""
        return TransitionCallbackReturn.SUCCESS

    def recover(self) -> TransitionCallbackReturn:
        """Error processing: back to unconfigured, where it may be tried again; to the end after a failed step."""
        if self._failure is not None:
            self._reason = str(self._failure)
        log.error("error processing: %s", self._reason)
        self._state = beat.ERROR
        self._beat()
        if self._failure is not None:
            return TransitionCallbackReturn.FAILURE
        self._unsubscribe()
        self.stepper, self._state = None, beat.UNCONFIGURED
        return TransitionCallbackReturn.SUCCESS

    def connect(self) -> None:
        """Configures the region and connects its ports. Raises what the region raises."""
        self.configure(self._parameters())
        self._senders = {port.topic: self._publisher(port.topic, port.type, port.qos)
                         for port in self.region.outputs().values()}
        for port_name, port in self.region.inputs().items():
            self._subscribe(port_name, port)

    def disconnect(self) -> None:
        """Takes back what :meth:`connect` did. Raises what the region raises."""
        self._unsubscribe()
        self.cleanup()

    def shut_down(self) -> None:
        """Ends from whatever state it is in. Raises what the region raises."""
        super()._finish()
        self.stop()

    def _publisher(self, topic: str, type_name: str, qos: QoS) -> Callable[[Any], None]:
        publisher = self.node.create_publisher(interface(type_name), topic, profile(qos))
        self._published.append(publisher)
        encode, publish = messages.encoder(type_name), publisher.publish
        return lambda message: publish(encode(message))

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
        self._subscriptions[port_name] = self.node.create_subscription(
            interface(port.type), port.topic, arrived, profile(qos), raw=True)

    def _unsubscribe(self) -> None:
        for subscription in self._subscriptions.values():
            self.node.destroy_subscription(subscription)
        kept = self._published[:2]  # heartbeat and diagnostics live as long as the node
        for publisher in self._published[2:]:
            self.node.destroy_publisher(publisher)
        self._published, self._senders = kept, {}
        self._subscriptions, self._rings, self._takers = {}, {}, {}

    # -- hooks -----------------------------------------------------------------------------------------------------

    @property
    def fqn(self) -> str:
        return self.node.get_fully_qualified_name()

    def _topic(self, port_name: str) -> str:
        return self._subscriptions[port_name].topic_name

    def _tell(self, heartbeat: Any) -> None:
        self._heartbeat(heartbeat)
        now = time.monotonic()
        if now >= self._next_diagnostics:
            self._next_diagnostics = now + diagnostics.PERIOD
            self._diagnostics(diagnostics.diagnostics(heartbeat, broken=sum(self._broken.values())))

    def _begin(self) -> None:
        if self._autostart and not (
                self.node.trigger_configure() == TransitionCallbackReturn.SUCCESS
                and self.node.trigger_activate() == TransitionCallbackReturn.SUCCESS):
            self._failure = RegionError(self._reason)
            self.stop()

        self._spinning.start()

    def _spin(self) -> None:
        try:
            while not self._ending:
                self._executor.spin_once()
                if self._triggered:
                    self._triggered = False
                    self._step_or_wake()
        except BaseException as error:  # a thread that ended silently would leave a node that looks alive
            if not self._ending:
                self._give_up(error)

    def _step_or_wake(self) -> None:
        if self._usual_step > QUICK or not self._turn.acquire(False):
            self._wake.set()
            return
        try:
            self._round()
        finally:
            self._turn.release()

    def _still(self) -> None:
        """Ends the spinning, so that the transitions at the end are this thread's alone."""
        self._nudge.trigger()
        if self._spinning.is_alive():
            self._spinning.join(SPIN_END)

    def _look_about(self) -> None:
        stepper = self.stepper  # a transition may take it away
        since = None if stepper is None else stepper.stepping_since
        if since is None:
            return
        limit = self._limits.step if stepper.steps else self._limits.first_step
        if time.perf_counter() - since > limit:
            log.critical("a step of %s takes longer than %g s; the process ends, so that it can be started again",
                         self.region.name, limit)
            logging.shutdown()
            os._exit(STUCK)     # the thread that is stuck cannot be ended otherwise

    def _fail(self, failure: RegionError) -> int:
        self._still()
        if self.node._state_machine.current_state[1] == "active":
            self.node.trigger_deactivate()
        return super()._fail(failure)

    def _finish(self) -> None:
        self._still()
        if self.node._state_machine.current_state[1] in ("unconfigured", "inactive", "active"):
            self.node.trigger_shutdown()

    def _close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()


def _all_of(ring: deque[Received]) -> list[Received]:
    taken = []
    while ring:
        taken.append(ring.popleft())
    return taken

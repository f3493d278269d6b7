# SPDX-License-Identifier: Apache-2.0
"""RosHost: one region as a lifecycle node on rclpy, over whatever middleware ROS 2 was told to use.

A thread spins an executor of one thread, which receives and answers services; steps are never made in a callback, but
after it. The calling thread sends heartbeats and sees to it that a stuck step ends the process.
"""
from __future__ import annotations

import functools
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any, Sequence

from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter

from brain_runtime.contract import energy
from brain_runtime.hosts import ros_args
from brain_runtime.contract import heartbeat as beat
from brain_runtime.run.health import Limits
from brain_runtime.hosts import ros_parameters
from brain_runtime.hosts.input import Input, Ring
from brain_runtime.hosts.node_parameters import known
from brain_runtime.hosts.policy import Afterwards
from brain_runtime.hosts.process import LAST_WORDS, ProcessHost
from brain_runtime.hosts.resting import FOUND, PERIOD
from brain_runtime.hosts.ros_action import RosAction
from brain_runtime.hosts.ros_topics import Nowhere, RosPublication, subscribe
from brain_runtime.hosts.predecessors import Predecessors
from brain_runtime.contract.region import Region
from brain_runtime.run.cpu_wait import CpuWait
from brain_runtime.rclpy_private import RCLError
from brain_wire.goals import Act
from brain_wire.lifecycle import Outcome
from brain_wire.names import expand
from brain_wire.parameters import ParameterError
from brain_wire.qos import QoS

log = logging.getLogger(__name__)

SPIN_END = 1.0          # s that the spinning thread gets to end
ACKNOWLEDGED = 0.5      # s that an end in good order waits until its last word is acknowledged
STUCK = 70              # exit status of a process whose step does not end
# packages that are needed by those who look on only
TO_LOOK_AT = ("rosgraph_msgs", "tf2_msgs", "vision_msgs", "visualization_msgs")

_RETURNS = {Outcome.SUCCESS: TransitionCallbackReturn.SUCCESS, Outcome.FAILURE: TransitionCallbackReturn.FAILURE,
            Outcome.ERROR: TransitionCallbackReturn.ERROR}


class HostNode(LifecycleNode):
    """The node of a host: hands everything on to it.

    Args:
        name: before remapping.
        host: of the node.
        asked: it has services.
    """

    def __init__(self, name: str, host: RosHost, asked: bool = True, **settings: Any) -> None:
        self._host = host
        super().__init__(name, enable_communication_interface=asked, start_parameter_services=asked,
                         enable_rosout=asked, **settings)
        if not asked:
            return
        # Where a transition is asked for that is not possible, Jazzy's rclpy raises, which would end the executor, and
        # gives no answer; Kilted's answers that it failed.
        self._change_state = self._service_change_state.callback
        self._service_change_state.callback = self._answer

    def _answer(self, request: Any, response: Any) -> Any:
        if self._host.begins_anew(request.transition.label or request.transition.id):
            response.success = True
            return response
        try:
            return self._change_state(request, response)
        except RCLError as error:
            log.error("%s: %s", self.get_fully_qualified_name(), error)
            response.success = False
            return response

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.transitions()["configure"]()]

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.transitions()["activate"]()]

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.transitions()["deactivate"]()]

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.transitions()["cleanup"]()]

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.transitions()["shutdown"]()]

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        return _RETURNS[self._host.recover()]

    def destroy_node(self) -> None:
        super().destroy_node()
        self._state_machine.destroy_when_not_in_use()   # rclpy leaves it, and so the middleware would keep the node


class RosHost(ProcessHost):
    """Runs one region as a ROS 2 node. Make it after ``rclpy.init``, then call :meth:`run`.

    Args:
        region: not configured yet.
        name, namespace: of the node, before remapping.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
        critical: the robot must not move without this region.
        restarts: times it was started again.
        autostart, before: see :class:`brain_runtime.hosts.process.ProcessHost`.
        context: rclpy's; None: the global one.
        cli_args: ``--ros-args`` of this node alone.
        argv: the process's command line, as ``rclpy.init`` got it.

    Attributes:
        own: full names of the nodes that may publish what this region does: its own, and that of the process behind.

    Raises:
        ParameterError: a parameter that is given does not exist; one whose value does not fit leaves the region
            unconfigured.
        ModuleNotFoundError: the package of a message type is not installed.
    """

    kind = "ros"
    policy: Afterwards
    others_found = FOUND
    own: list[str]

    def __init__(self, region: Region, *, name: str | None = None, namespace: str | None = None, seed: int = 0,
                 state_dir: Path | None = None, critical: bool = False, restarts: int = 0, autostart: bool = True,
                 before: Predecessors | None = None,
                 context: Any = None, cli_args: Sequence[str] | None = None, argv: Sequence[str] = ()) -> None:
        self._context, self._cli_args, self._argv = context, cli_args, argv
        self.node, name, given = self._join(region, name or region.name, namespace)
        self._ros_clock = self.node.get_clock()
        super().__init__(region, name=name, namespace=self.node.get_namespace(), seed=seed,
                         state_dir=state_dir, critical=critical, restarts=restarts, autostart=autostart,
                         before=before, policy=Afterwards)
        self._limits = Limits()
        self._cpu_wait = CpuWait(os.getpid())
        self._in_step, self._looked = 0.0, time.perf_counter()
        self._seen: float | None = None
        self.unfit = ros_parameters.declare(self.node, region.name, region.Parameters, given)
        budget = {energy.PARAMETER: self.node.get_parameter(energy.PARAMETER).value}
        self.gate.budget = energy.budget_of(region.name, budget)
        self.node.add_pre_set_parameters_callback(self._coerced)
        self.node.add_on_set_parameters_callback(self._set)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)
        self._heeding = False
        self._actions: list[RosAction] = []
        # What waits for a step to end is looked after again soon; what is new of actions, and the end, at once. The
        # executor's own wake() would not end a spin_once(), and a timeout would have it build a timer at each.
        self.node.create_timer(beat.PERIOD, _nothing, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._nudge = self.node.create_guard_condition(_nothing)
        self._spinning = threading.Thread(target=self._spin, name="spin", daemon=True)

    def _join(self, region: Region, name: str, namespace: str | None) -> tuple[HostNode, str, dict[str, Any]]:
        """Joins the middleware: gives the node, the region's name, and the parameters that it is given."""
        context, cli_args = self._context, self._cli_args
        node = HostNode(name, self, namespace=namespace, context=context, cli_args=cli_args,
                        use_global_arguments=cli_args is None)
        given = {name: given.value for name, given in node._parameter_overrides.items()}
        if cli_args or self._argv:
            # What rclpy makes of it lacks the region's plain name where it is in a namespace, and has no empty list;
            # it is read as launch's check and all hosts read it.
            said, _ = ros_args.parse(cli_args or self._argv)
            given = said.parameters(node.get_name(), node.get_namespace(), known(region.Parameters))
        self.own = [node.get_fully_qualified_name(), expand(hidden(os.getpid()), node.get_namespace(), "")]
        return node, node.get_name(), given

    # -- verbs -----------------------------------------------------------------------------------------------------

    @property
    def fqn(self) -> str:
        return self.node.get_fully_qualified_name()

    def publish(self, topic: str, type_name: str, qos: QoS) -> RosPublication | Nowhere:
        try:
            return RosPublication(self.node, topic, type_name, qos, self.own)
        except ModuleNotFoundError as missing:
            package = type_name.partition("/")[0]
            if package not in TO_LOOK_AT:
                raise
            log.warning("%s is not published: there is no ROS package %s (%s); install it, or source what has it",
                        topic, package, missing)
            return Nowhere(self.node.resolve_topic_name(topic))

    def subscribe(self, inbound: Input) -> Ring:
        return subscribe(self.node, inbound, self.deliver)

    def serve(self, name: str, act: Act) -> RosAction:
        action = RosAction(self.node, act, ready=lambda: self.state == beat.ACTIVE,
                           give=functools.partial(self.hand_in, name), wake=self._nudge.trigger,
                           closed=self._actions.remove)
        self._actions.append(action)
        return action

    def clock(self) -> float:
        return self._ros_clock.now().nanoseconds * 1e-9

    # -- parameters ------------------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        return ros_parameters.values(self.node, self.region.Parameters)

    def _coerced(self, changes: list[Parameter]) -> list[Parameter]:
        """Changes as rclpy takes them: to it, 1 is no float."""
        fitted = {change.name: ros_parameters.coerced(self.region.name, self.region.Parameters, change.name,
                                                      change.value) for change in changes}
        return [change if fitted[change.name] == [] else Parameter(change.name, value=fitted[change.name])
                for change in changes]      # of an empty list its value does not tell the type

    def _set(self, changes: list[Parameter]) -> SetParametersResult:
        """Takes over changed parameters between two steps: all of them, or none and the reason."""
        known = self.parameters()
        values = {change.name: change.value for change in changes}
        try:
            budget = energy.budget_of(self.region.name, {energy.PARAMETER: self.gate.budget, **values})
            self.apply({name: value for name, value in values.items() if name in known})
            self.set_budget(budget)
        except ParameterError as error:
            return SetParametersResult(successful=False, reason=str(error))
        self.corrected(values)
        return SetParametersResult(successful=True)

    # -- the spinning thread -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        self._spinning.start()

    def _spin(self) -> None:
        try:
            while not self._over:
                for action in tuple(self._actions):
                    action.pass_on()
                self.hand_in_goals()
                if self._heeding:
                    self._heeding = False
                    self.heed()
                self._executor.spin_once()
                self.policy.after()
        except BaseException as error:  # a thread that ended silently would leave a node that looks alive
            if not self._over:
                self.fail(error)

    def _heed(self) -> None:
        """Leaves it to the spinning thread, which makes the transitions and thus has the subscriptions."""
        self._heeding = True

    # -- control ---------------------------------------------------------------------------------------------------

    def change(self, transition: str) -> bool:
        return getattr(self.node, f"trigger_{transition}")() == TransitionCallbackReturn.SUCCESS

    def _look_about(self) -> None:
        stepper = self.stepper  # a transition may take it away
        since = None if stepper is None else stepper.stepping_since
        now = time.perf_counter()
        passed, self._looked = now - self._looked, now
        if stepper is None or since is None or since != self._seen:
            self._in_step, self._seen = 0.0, since
            return
        self._in_step += self._cpu_wait.counts(passed)
        limit = self._limits.step if stepper.steps else self._limits.first_step
        if self._in_step > limit:
            log.critical("a step of %s takes longer than %g s; the process ends, so that it can be started again",
                         self.region.name, limit)
            self.rest()
            logging.shutdown()
            os._exit(STUCK)     # the thread that is stuck cannot be ended otherwise

    def _end(self, worker: threading.Thread) -> int:
        self._nudge.trigger()
        if self._spinning.is_alive():   # so that the transitions at the end are this thread's alone
            self._spinning.join(SPIN_END)
        if self.state == beat.FINALIZED:    # by order: until who gave it has the answer, which goes with the node
            time.sleep(LAST_WORDS)
        self._until_acknowledged(ACKNOWLEDGED)      # the transitions at the end take the publishers away
        return super()._end(worker)

    def _close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()

    def _until_acknowledged(self, patience: float) -> None:
        """Waits until what this node said last of what it moves has come to those who hear it, or another says it.

        By DDS a writer knows a reader before that one knows the writer, and what it wrote goes with it.
        """
        until = time.monotonic() + patience
        publications = [self.connections.publications[name] for name in self.connections.alone()]
        while not all(one.acknowledged() for one in publications if isinstance(one, RosPublication)):
            if time.monotonic() > until or self._left_to_another():
                return
            time.sleep(PERIOD)

    def _left_to_another(self) -> bool:
        """Tells whether another process says the last word."""
        return False


def hidden(pid: int) -> str:
    """Name of the node of the second process behind a process; ROS 2 does not list what begins so."""
    return f"_second_{pid}"


def _nothing() -> None:
    """Only wakes the executor."""

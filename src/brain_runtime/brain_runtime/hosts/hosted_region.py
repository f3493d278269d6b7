# SPDX-License-Identifier: Apache-2.0
"""HostedRegion: a region in the hands of a host, through its life: configured, activated, changed, saved, cleaned up.

What is done to a region is done between two of its steps; :attr:`HostedRegion.turn` is the lock that says so.
"""
from __future__ import annotations

import functools
import logging
import math
import threading
import time
from abc import abstractmethod
from collections import deque
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from brain_runtime.contract import heartbeat as beat
from brain_runtime.contract import snapshot
from brain_runtime.contract.copies import Mean
from brain_runtime.contract.energy import Gate
from brain_runtime.hosts.connections import Connections
from brain_runtime.hosts.host import Arrived, Asking, Host
from brain_runtime.hosts.input import Input
from brain_runtime.hosts.policy import Policy
from brain_runtime.hosts.snapshot_writer import SnapshotWriter
from brain_runtime.contract.region import Region, State
from brain_runtime.contract.stepper import RegionError, Stepper
from brain_wire import messages, safe_text
from brain_wire.goals import Ask, Goal, News
from brain_wire.lifecycle import Lifecycle, Outcome
from brain_wire.parameters import ParameterError, check_parameters
from brain_wire.qos import QoS

log = logging.getLogger(__name__)

WARN_EVERY = 5.0        # s between warnings about one topic
TURN = 1.0              # s that a change of a parameter waits for the step that is being made
GOAL_TURN = 0.02        # s that a goal does; it is tried again soon
SETTLE = 2.0            # s that a snapshot gets to be on the disk where the state is needed from there soon
TRANSITION_EVENT = "lifecycle_msgs/msg/TransitionEvent"
EVENT_QUALITY = QoS(reliable=True, latched=False, depth=10)     # of what transitions are told with


class HostedRegion(Host):
    """A region, its state and its life. A host adds the verbs of :class:`.host.Host` and who controls it.

    Args:
        region: not configured yet.
        name: of the node; None: the region's own.
        namespace: of the node.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
        critical: the robot must not move without this region.
        restarts: times it was started again.
        epoch: of the process; see :func:`brain_runtime.contract.heartbeat.new_epoch`.
        policy: makes what starts the steps.

    Attributes:
        state: as heartbeats tell it.
        idle: no steps are made: it is not active, or ending.
        turn: who has it makes steps, or looks at the region between two of them.
        gate: the energy budget of what is published.
        failure: that a step ended with; it is the region's end.
        cause: what the last transition failed with.
        unfit: what is wrong with values that it was given, by parameter: it cannot be configured until others are set.
        stays: a ``shutdown`` that was ordered leaves a node in the state ``finalized``, and does not end the process.
    """

    stays = False
    silent = False      # it only says the last word for a process that is gone

    def __init__(self, region: Region, *, name: str | None, namespace: str, seed: int, state_dir: Path | None,
                 critical: bool, restarts: int, epoch: int, policy: Callable[[HostedRegion], Policy]) -> None:
        self.region = region
        region.name = name or region.name
        self._seed, self._critical, self._restarts, self._epoch = seed, critical, restarts, epoch
        folder = None if state_dir is None else Path(state_dir) / namespace.strip("/").replace("/", "%")
        if folder is not None:
            region.storage = folder
        self._snapshot = None if folder is None else folder / f"{region.name}.safetensors"
        self._writer = None if self._snapshot is None else SnapshotWriter(
            self._snapshot, region.name, functools.partial(self.warn, "snapshot"))
        self._restored = False
        self.state, self._reason = beat.UNCONFIGURED, ""
        self.stepper: Stepper | None = None
        self.idle = True
        self._ending = False                # the end was asked for
        self.moving: Callable[[bool], None] = _nobody   # told whether this process may move something from now on
        self._may_move = False              # steps were made since what it moves was at rest
        self.turn = threading.Lock()
        self.gate = Gate()
        self.connections = Connections(self)
        self.policy = policy(self)
        self._goals: deque[tuple[str, Goal | News]] = deque()      # that the next step is to see
        self.mean: Mean | None = None
        self._idle = "" if region.rate is not None else region.idle()
        self.cause: Exception | None = None
        self.unfit: dict[str, str] = {}
        self.failure: RegionError | None = None
        self._warned: dict[str, float] = {}
        self._heartbeat = self.publish(beat.PORT.topic, beat.TYPE, beat.PORT.qos)

    @property
    def running(self) -> Stepper:
        """The stepper of a region that is configured; another has none."""
        assert self.stepper is not None, f"{self.region.name} is not configured"
        return self.stepper

    # -- verbs that all hosts have in common -------------------------------------------------------------------------

    def deliver(self, inbound: Input, arrival: Arrived | None = None) -> bool:
        return self.policy.deliver(inbound, arrival)

    def ask(self, name: str, ask: Ask) -> Asking:
        raise ParameterError(f"{self.region.name} asks others for {ask.topic}, which a region on this host "
                             f"({self.kind}) cannot; run it by `brain up`")

    def now(self) -> float:
        return time.monotonic()

    def decoder(self, type_name: str) -> Callable[[bytes], Any]:
        return messages.decoder(type_name)

    # -- life ------------------------------------------------------------------------------------------------------

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Configures the region and takes its state from where it was kept.

        Raises:
            ParameterError: the parameters do not fit. Whatever else the region raises.
        """
        if self.region.shards is not None:
            self.region.shards.launch()     # they load torch while the region does
        self.region.configure(parameters)
        state = self._remembered()
        self._restored = state is not None
        self.region.wanted = frozenset()
        self.mean = Mean(self.region) if self.region.copies and self.region.adaptive else None
        self.stepper = Stepper(self.region, seed=self._seed, state=state)
        self.state = beat.INACTIVE

    def _remembered(self) -> State | None:
        """The state that a snapshot holds, where there is one that fits."""
        if self._snapshot is None:
            return None
        self.settle(SETTLE)     # what was saved when it was cleaned up
        state, warnings = snapshot.restore(self._snapshot, self.region)
        for warning in warnings:
            log.warning(warning)
        if state is not None:
            log.info("restored the state of %s", self._snapshot)
        return state

    def activate(self) -> None:
        """Begins to make steps. Raises what the region raises."""
        self.region.activate()
        self._may_move = True
        self.moving(True)
        self.state = beat.ACTIVE
        self.idle = self._ending
        self.policy.begin()

    def deactivate(self) -> None:
        """Makes no more steps, once what the region moves is at rest; what arrives from now on waits.

        What waits for the energy budget is not sent any more. Raises what the region raises.
        """
        self.rest()
        with self.turn:
            self.state, self.idle = beat.INACTIVE, True
            self.policy.forget()
        try:
            self.region.deactivate()
        finally:
            with self.turn:
                self.gate.forget()

    def cleanup(self) -> None:
        """Saves the state and lets go of what was configured. Raises what the region raises."""
        self.save(wait=1.0)
        self.settle(SETTLE)
        self.region.cleanup()
        self.end_shards()
        self.stepper = None
        self.state = beat.UNCONFIGURED

    def end_shards(self) -> None:
        """Ends the other processes of the region, if it has some; configured anew, it has new ones."""
        if self.region.shards is not None:
            self.region.shards.close()

    def rest(self) -> None:
        """Brings to rest what the region moves, once after the steps that may have moved it."""
        if self.stepper is not None and self._may_move:
            self._may_move, self.idle = False, True
            self._bring_to_rest(self.stepper)
            self.moving(False)

    # -- transitions, as the lifecycle of ROS 2 asks for them --------------------------------------------------------

    def transitions(self) -> dict[str, Callable[[], Outcome]]:
        """Returns the functions that make the lifecycle transitions, by their labels."""
        steps = {"configure": self.connect, "activate": self.activate, "deactivate": self.deactivate,
                 "cleanup": self.disconnect, "shutdown": self.shut_down}
        return {label: functools.partial(self._attempt, label, step) for label, step in steps.items()}

    def lifecycle(self) -> Lifecycle:
        """Makes the lifecycle that makes transitions on request and tells of them; for hosts without rclpy's."""
        events = self.publish("~/transition_event", TRANSITION_EVENT, EVENT_QUALITY)
        return Lifecycle(self.transitions(), self.recover, events.send)

    def _attempt(self, what: str, transition: Callable[[], None]) -> Outcome:
        """Makes a transition; what it raises becomes the reason of the error state."""
        if self.failure is not None and what == "deactivate":
            return Outcome.ERROR    # the way from a failed step into error processing
        try:
            transition()
        except Exception as error:  # whatever the region raises must not take the node's services with it
            told = isinstance(error, (ParameterError, OSError))     # they say it all; others take where they come from
            self._reason = safe_text.line(f"{self.region.name} failed to {what}: {type(error).__name__}: {error}")
            self.cause = error
            log.error("%s", self._reason, exc_info=not told)
            return Outcome.ERROR
        self._reason = ""
        return Outcome.SUCCESS

    def recover(self) -> Outcome:
        """Error processing: back to unconfigured, where it may be tried again; to the end after a failed step."""
        if self.failure is not None:
            self._reason = str(self.failure)
        log.error("error processing: %s", self._reason)
        self.end_shards()
        self.state, self.idle = beat.ERROR, True
        self.beat()
        if self.failure is not None:
            return Outcome.FAILURE
        self.connections.unplug()
        self.stepper, self.state = None, beat.UNCONFIGURED
        return Outcome.SUCCESS

    def connect(self) -> None:
        """Configures the region and connects its ports.

        Raises:
            ParameterError: it was given what does not fit, and nothing else since. Whatever else the region raises.
        """
        if self.unfit:
            raise ParameterError("; ".join(self.unfit.values()))
        self.configure(self.parameters())
        self.connections.plug()

    def disconnect(self) -> None:
        """Takes back what :meth:`connect` did. Raises what the region raises."""
        self.connections.unplug()
        self.cleanup()

    def shut_down(self) -> None:
        """Ends from whatever state it is in. Raises what the region raises."""
        if self.state == beat.ACTIVE:
            self.deactivate()
        if self.state == beat.INACTIVE:
            self.disconnect()
        self.state = beat.FINALIZED
        if not self.stays:
            self.stop()

    # -- between two steps -------------------------------------------------------------------------------------------

    def apply(self, values: Mapping[str, Any]) -> None:
        """Changes parameters of the region between two steps: all of them, or none.

        Raises:
            ParameterError: one does not exist, cannot be changed now, or its value does not fit; says which.
        """
        region = self.region
        self._take_turn()
        try:
            check_parameters(region.name, region.Parameters, values,
                             current=region.parameters if self.state == beat.ACTIVE else None)
            if self.stepper is None:
                return
            before, changed = region.parameters, []
            try:
                for name, value in values.items():
                    changed.append(name)
                    region.on_parameter(name, value)
            except Exception as error:
                for name in changed[:-1]:
                    region.on_parameter(name, getattr(before, name))
                if isinstance(error, ParameterError):
                    raise
                log.exception("%s failed to take %s", region.name, changed[-1])
                raise ParameterError(f"{region.name} failed to take {changed[-1]}: {type(error).__name__}: {error}"
                                     ) from error
        finally:
            self.turn.release()

    def corrected(self, names: Iterable[str]) -> None:
        """Parameters have been set: what was wrong with them no longer keeps the region from being configured."""
        for name in self.unfit.keys() & set(names):
            del self.unfit[name]
            self._reason = "; ".join(self.unfit.values()) or f"{self.region.name} can be configured now: " \
                f"`brain start {self.region.name}`"

    def set_budget(self, budget: float) -> None:
        """Takes over another energy budget (B/s) between two steps. Raises ParameterError."""
        if budget == self.gate.budget:
            return
        self._take_turn()
        try:
            self.gate.budget = budget
            if not budget:
                self.connections.let_go(self.gate.release(self.now(), everything=True))
        finally:
            self.turn.release()

    def _take_turn(self) -> None:
        if not self.turn.acquire(timeout=TURN):
            raise ParameterError(f"{self.region.name} is at a step that does not end; try again")

    def hand_in(self, action: str, goal: Goal | News) -> None:
        """Hands in, before the next step, a goal of an action, one anew that has changed, or news of one asked for."""
        self._goals.append((action, goal))
        self.hand_in_goals()

    def hand_in_goals(self) -> None:
        """Hands in what waits, unless there is a step; then it is to be called again soon."""
        if not self._goals or not self.turn.acquire(timeout=GOAL_TURN):
            return
        try:
            while self._goals and self.stepper is not None:
                action, goal = self._goals.popleft()
                self.stepper.hand_in(action, goal, self.now())
        finally:
            self.turn.release()
        self.policy.wake()

    def heed(self) -> bool:
        """Sees which outputs on demand are wanted; whether these are others than before."""
        return self.stepper is not None and self.connections.heed(self.state == beat.ACTIVE)

    def save(self, wait: float) -> None:
        """Has a snapshot of the state between two steps written; skipped when a step takes longer than ``wait`` s.

        It is on the disk soon after; :meth:`settle` waits for that.
        """
        stepper = self.stepper  # a transition in another thread may take it away
        if self._writer is None or stepper is None or not self.turn.acquire(timeout=wait or 0.02):
            return
        try:
            state = {name: np.array(value, dtype=np.float32) for name, value in stepper.state.items()}
        except Exception as error:      # a state that is elsewhere, as in the region's other processes, can be lost
            self.fail(RegionError(f"{self.region.name} has lost its state: {type(error).__name__}: {error}"))
            return
        finally:
            self.turn.release()
        self._writer.hand_in(snapshot.pack(self.region, state))

    def settle(self, timeout: float) -> None:
        """Waits up to ``timeout`` s until what was saved is on the disk, and warns where it is not."""
        if self._writer is not None and not self._writer.settle(timeout):
            self.warn("slow disk", f"the disk has not taken the snapshot {self._snapshot} within {timeout:g} s; until "
                                   f"it has, the one before holds. Look at that disk, or choose another folder with "
                                   f"--state-dir.")

    # -- what others are told ----------------------------------------------------------------------------------------

    def beat(self) -> Any:
        """Publishes the heartbeat, and returns it."""
        stepper = self.stepper  # a transition in another thread may take it away
        heartbeat = beat.heartbeat(
            self.fqn, self.kind, self.state, stamp=self.clock(), now=self.now(), stepper=stepper,
            stepping=stepper is not None and stepper.stepping_since is not None, critical=self._critical,
            restarts=self._restarts, epoch=self._epoch, weights=self.region.weights_hash, reason=self.reason(),
            careful=self.region.careful and self.state == beat.ACTIVE)
        self._heartbeat.send(heartbeat)
        return heartbeat

    def reason(self) -> str:
        """Returns the trouble of the region, for the heartbeat; empty where there is none."""
        return self._reason or (self.region.trouble or self._idle if self.state == beat.ACTIVE else "")

    def warn(self, about: str, text: str) -> None:
        """Logs a warning, at most one about the same thing in :data:`WARN_EVERY`."""
        now = time.monotonic()
        if now - self._warned.get(about, -math.inf) >= WARN_EVERY:
            self._warned[about] = now
            log.warning(text)

    # -- what a host adds, beside the verbs --------------------------------------------------------------------------

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Returns the parameters that the region is to be configured with."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """A step raised, or what goes with it. Called where the step was made, with the region's turn."""

    @abstractmethod
    def _bring_to_rest(self, stepper: Stepper) -> None:
        """Publishes what brings to rest what the region moves, until it is."""

    @abstractmethod
    def stop(self) -> None:
        """Asks for the end, from any thread or a signal handler."""


def _nobody(moves: bool) -> None:
    """Stands where nobody is to be told."""

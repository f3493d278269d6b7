# SPDX-License-Identifier: Apache-2.0
"""ProcessHost: what hosts have in common that run one region as a process, whatever carries the messages.

Three kinds of threads. Those that receive put what arrives into ring buffers; one worker steps; the calling thread
controls: heartbeat, snapshots, lifecycle. There is never more than one step at a time.
"""
from __future__ import annotations

import functools
import logging
import math
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any, Callable, Iterable, Protocol

from brain_runtime import diagnostics, resting, snapshot
from brain_runtime import heartbeat as beat
from brain_runtime.energy import Gate, Passed
from brain_runtime.hosted_region import TURN, HostedRegion
from brain_runtime.ports import Out
from brain_runtime.region import Region
from brain_runtime.rivals import Rivals
from brain_runtime.stepper import RegionError
from brain_wire import messages
from brain_wire.goals import Goal
from brain_wire.parameters import ParameterError
from brain_wire.waking import Signal

log = logging.getLogger(__name__)

SNAPSHOT_PERIOD = 2.0   # s
IDLE_WAIT = 0.5         # s that the worker sleeps at most, so that it sees the end
BEAT_SLACK = 0.02       # s that a heartbeat may come early, so that a timer that is a little early is not passed by
LAST_WORDS = 0.3        # s that a failed region goes on telling why
STOP_PATIENCE = 3.0     # s that the last step gets at the end
REST_TURN = 0.25        # s that bringing to rest waits for the step that is being made
HEED = 0.05             # s that a look at what is wanted waits for the step that is being made
QUICK = 0.002           # s; steps that usually take no longer are made by the thread that received
USUAL = 0.05            # weight of the newest step in what is usual
YOUNG = 5               # steps; a region that fails so soon after it was restored may fail because of what was restored


class Arrived(Protocol):
    """A message that has arrived and is not decoded yet.

    Attributes:
        data: its CDR bytes.
        received: time of receipt on the steady clock (``time.monotonic``, s).
    """

    data: bytes
    received: float


class ProcessHost(HostedRegion):
    """Runs one region. A subclass connects its ports; see the hooks at the end.

    Args:
        region: not configured yet.
        name: of the node; None: the region's own.
        namespace: of the node.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
        critical: the robot must not move without this region.
        restarts: times it was started again.
        autostart: configures and activates itself; else it waits for ``ros2 lifecycle``.
    """

    kind = ""       # as heartbeats name it

    def __init__(self, region: Region, *, name: str | None, namespace: str, seed: int, state_dir: Path | None,
                 critical: bool, restarts: int, autostart: bool) -> None:
        super().__init__(region, name=name, namespace=namespace, seed=seed, state_dir=state_dir)
        self._critical, self._restarts, self._autostart = critical, restarts, autostart
        self._stop = Signal()               # unlike an Event, it may be set in a signal handler at any moment
        self._goals: deque[tuple[str, Goal]] = deque()      # of actions, not handed in yet
        self._senders: dict[str, Callable[[Any], None]] = {}
        self._clock: Callable[[], float] = time.time    # for headers (s since the epoch, or simulated)
        self._next_diagnostics = -math.inf
        self._broken: Counter[str] = Counter()
        self._gate = Gate()
        self._rivals = Rivals(self._alone, self._others)
        self._bytes_senders: dict[str, Callable[[bytes], None]] = {}    # by topic, of what the gate lets pass

    # -- running ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Asks for the end, from any thread or a signal handler."""
        self._ending = self._idle = True
        self._stop.set()
        self._wake.set()

    def run(self) -> int:
        """Runs the region until :meth:`stop`, in the calling thread.

        Returns:
            0 after an end in good order, 1 after the region failed or did not end its last step.
        """
        worker = threading.Thread(target=self._work, name="step", daemon=True)
        worker.start()
        next_beat = next_save = time.monotonic()
        try:
            self._begin()
            while not self._ending:
                now = time.monotonic()
                if now >= next_beat - BEAT_SLACK:
                    self._beat()
                    self._look_about()
                    self._rivals.look(now)
                    self._heed()
                    next_beat = max(next_beat + beat.PERIOD, now)
                if now >= next_save:
                    self.save(wait=0.0)
                    next_save = now + SNAPSHOT_PERIOD
                self._pause(max(0.0, next_beat - time.monotonic()))
            self._rest()
            if self._failure is None:
                self.save(wait=STOP_PATIENCE)   # first of all, since whoever ends us may lose patience
            self._over = True
            return self._end(worker)
        finally:
            self._rest()    # nothing, unless something of the host itself failed
            self._over = True
            self._close()

    def _rest(self) -> None:
        stepper = self.stepper
        if stepper is None or not self._may_move:
            return
        self._may_move, self._idle = False, True
        turn = self._turn.acquire(timeout=REST_TURN)    # a step that hangs must not keep the robot moving
        try:
            resting.bring_to_rest(stepper, self._senders, self._takers if turn else {}, self._clock, self._beat)
        except Exception:   # whatever it is, the rest of the end must follow
            log.exception("%s could not bring to rest what it moves", self.region.name)
        finally:
            if turn:
                self._turn.release()

    def _alone(self) -> dict[str, str]:
        """Full topics of the outputs that nobody else ought to publish, by port."""
        active = self._state == beat.ACTIVE
        return {name: self._topic(name) for name, port in self.region.publishes().items() if active and port.alone}

    def _end(self, worker: threading.Thread) -> int:
        self._wake.set()
        until = time.monotonic() + STOP_PATIENCE
        worker.join(STOP_PATIENCE)
        ended = not worker.is_alive() and self._turn.acquire(timeout=max(0.0, until - time.monotonic()))
        if ended:
            self._turn.release()    # nobody begins another step
        if self._failure is not None:
            return self._fail(self._failure)
        if not ended:
            log.error("the last step does not end; %s ends without saving it", self.region.name)
            return 1
        if self._state != beat.FINALIZED:
            self._change("shutdown")
        self._beat()
        return 0

    def _begin(self) -> None:
        if self._autostart and not (self._change("configure") and self._change("activate")):
            if isinstance(self._cause, ParameterError):
                raise self._cause   # to start it again in the same way will not help
            self._give_up(RegionError(self._reason))

    def _fail(self, failure: RegionError) -> int:
        if self._state == beat.ACTIVE:
            self._change("deactivate")      # which leads into error processing
        self._state, self._reason = beat.ERROR, str(failure)
        young = self.stepper is None or self.stepper.steps < YOUNG
        if self._restored and young and self._snapshot is not None and self._snapshot.exists():
            aside = snapshot.set_aside(self._snapshot)
            log.error("it failed right after its state was restored; the snapshot is set aside as %s", aside)
        log.error("%s", failure, exc_info=failure)      # last, as what it ended for
        until = time.monotonic() + LAST_WORDS
        while time.monotonic() < until:
            self._beat()
            time.sleep(beat.PERIOD)
        return 1

    def _beat(self) -> None:
        stepper = self.stepper  # a transition in another thread may take it away
        heartbeat = beat.heartbeat(
            self.fqn, self.kind, self._state, stamp=self._clock(), now=time.monotonic(), stepper=stepper,
            stepping=stepper is not None and stepper.stepping_since is not None, critical=self._critical,
            restarts=self._restarts, reason=self._reason or self._rivals.text)
        self._tell(heartbeat)
        now = time.monotonic()
        if now >= self._next_diagnostics:
            self._next_diagnostics = now + diagnostics.PERIOD
            self._diagnose(diagnostics.diagnostics(heartbeat, sum(self._broken.values()), self._gate))

    # -- steps -----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._over:
            stepper = self.stepper
            ticking = stepper is not None and self._state == beat.ACTIVE
            next_due = min(stepper.next_tick, self._gate.due) if ticking else math.inf
            self._wake.wait(min(next_due - time.monotonic(), IDLE_WAIT))
            with self._turn:
                self._round()

    def _note(self, take: Callable[[], None]) -> None:
        """Notes an arrival that waits for the next step."""
        if not self._idle:
            self._ready.append(take)

    def _round(self) -> None:
        """Takes in what has arrived, and makes a step if one is due."""
        if self._idle:
            return
        try:
            takers: dict[Callable[[], None], None] = {}     # each once: what comes meanwhile is noted again
            while self._ready:
                takers[self._ready.popleft()] = None
            for take in takers:
                take()
            now = time.monotonic()
            if self.stepper.due(now):
                self._step(now)
            if self._gate.budget and self._gate.due <= now:
                self._let_go(self._gate.release(now))
        except BaseException as error:  # SystemExit too: a thread that ends silently leaves a process that looks alive
            self._give_up(error)

    def _step_or_wake(self) -> None:
        """Makes the step that is due, where steps are quick and nobody is at one; else wakes the worker."""
        if self._usual_step > QUICK or not self._turn.acquire(False):
            self._wake.set()
            return
        try:
            self._round()
        finally:
            self._turn.release()

    def _step(self, now: float) -> None:
        stepper, usual = self.stepper, self._usual_step
        due = self._gate.due if self._gate.budget else -math.inf
        stepper.step(now, self._clock(), self._senders)
        if self._gate.due < due:
            self._wake.set()    # the worker has to send what is held, whoever made this step
        self._usual_step = stepper.took if usual == math.inf else (1 - USUAL) * usual + USUAL * stepper.took

    def _give_up(self, error: BaseException) -> None:
        """Ends with an error: the region's, or a bug of the host, which must not leave a process that looks alive."""
        if not isinstance(error, RegionError):
            failure = RegionError(f"{self.region.name}: the host failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            error = failure
        self._failure = error
        self.stop()

    # -- energy budget: see brain_runtime.energy -------------------------------------------------------------------

    def _gated(self, port: Out, send: Callable[[Any], None], send_bytes: Callable[[bytes], None]
               ) -> Callable[[Any], None]:
        """What sends a port's messages: all of them without a budget, else what the gate lets pass."""
        gate = self._gate
        self._bytes_senders[port.topic] = send_bytes

        def send_or_hold(message: Any) -> None:
            if not gate.budget:
                send(message)
                return
            passed = gate.offer(port, message, time.monotonic())
            if passed is not None:
                send_bytes(passed.data)
        return send_or_hold

    def _let_go(self, passed: list[Passed]) -> None:
        for port, _, data in passed:
            self._bytes_senders[port.topic](data)

    def deactivate(self) -> None:
        """See :meth:`HostedRegion.deactivate`; what waits for the energy budget is not sent any more."""
        try:
            super().deactivate()
        finally:
            with self._turn:
                self._gate.forget()

    def _set_budget(self, budget: float) -> None:
        """Takes over another energy budget (B/s) between two steps. Raises ParameterError."""
        if budget == self._gate.budget:
            return
        if not self._turn.acquire(timeout=TURN):
            raise ParameterError(f"{self.region.name} is at a step that does not end; try again")
        try:
            self._gate.budget = budget
            if not budget:
                self._let_go(self._gate.release(time.monotonic(), everything=True))
        finally:
            self._turn.release()

    # -- actions: the control thread hands goals in, and passes news on ----------------------------------------------

    def hand_in(self, action: str, goal: Goal) -> None:
        """Hands a goal of an action in, or one anew that has changed, before the next step."""
        self._goals.append((action, goal))
        self._hand_in()

    def _hand_in(self) -> None:
        if not self._goals or not self._turn.acquire(timeout=0.02):
            return      # there is a step; it is tried again soon
        try:
            while self._goals and self.stepper is not None:
                action, goal = self._goals.popleft()
                self.stepper.goals[action].offer(goal, time.monotonic())
        finally:
            self._turn.release()
        self._wake.set()

    def _taker(self, port_name: str, arrivals: Callable[[], list[Arrived]]) -> Callable[[], None]:
        """What puts into the inbox what ``arrivals`` gives, oldest first.

        That is all of it where the port asks for that, else the newest message that is not broken.
        """
        port = self.region.hears()[port_name]
        take = functools.partial(self._take, port_name, messages.decoder(port.type), arrivals,
                                 bool(port.key or port.every))
        self._takers[port_name] = take
        return take

    def _take(self, port_name: str, decode: Callable[[bytes], Any], arrivals: Callable[[], list[Arrived]],
              all_of_them: bool) -> None:
        waiting = arrivals()
        for arrival in waiting if all_of_them else reversed(waiting):
            try:
                message = decode(arrival.data)
            except messages.MessageError as error:
                self._complain(port_name, self._sender(arrival), str(error))
                continue
            self.stepper.slots[port_name].offer(message, arrival.received)
            if not all_of_them:
                break

    def _complain(self, port_name: str, sender: str, what: str) -> None:
        topic = self._topic(port_name)
        self._broken[topic] += 1
        self._warn(topic, f"{topic}: dropped a message{sender}: {what} ({self._broken[topic]} so far). Its publisher "
                          f"must send {self.region.hears()[port_name].type}.")

    # -- outputs on demand -----------------------------------------------------------------------------------------

    def _heed(self) -> None:
        """Sees which outputs on demand somebody listens to, and hears what those are made of, and no more."""
        if self.stepper is None:
            return
        active = self._state == beat.ACTIVE
        wanted = frozenset(name for name, port in self.region.publishes().items()
                           if active and port.on_demand and self._is_wanted(name))
        if wanted == self.region.wanted:
            return
        for name, port in self.region.hears().items():
            if port.feeds:
                (self._hear if port.needed(wanted) else self._unhear)(name)
        if self._turn.acquire(timeout=HEED):    # else at the next look: a step that is stuck must not stop the heart
            try:
                self.stepper.heed(wanted)
            finally:
                self._turn.release()

    # -- hooks -----------------------------------------------------------------------------------------------------

    def _is_wanted(self, port_name: str) -> bool:
        """Whether anybody listens to an output."""
        raise NotImplementedError

    def _hear(self, port_name: str) -> None:
        """Subscribes a port, unless it is subscribed."""
        raise NotImplementedError

    def _unhear(self, port_name: str) -> None:
        """Ends the subscription of a port, if there is one."""
        raise NotImplementedError

    @property
    def fqn(self) -> str:
        """Fully qualified name of the node."""
        raise NotImplementedError

    def _topic(self, port_name: str) -> str:
        """Full name of a port's topic."""
        raise NotImplementedError

    def _others(self, port_name: str) -> Iterable[str]:
        """Full names of the other nodes that publish the topic of an output now."""
        raise NotImplementedError

    def _sender(self, arrival: Any) -> str:
        """Who published a message, as far as that can be said: `` of /name``."""
        return ""

    def _tell(self, heartbeat: Any) -> None:
        """Publishes a heartbeat."""
        raise NotImplementedError

    def _diagnose(self, status: Any) -> None:
        """Publishes diagnostics."""
        raise NotImplementedError

    def _change(self, transition: str) -> bool:
        """Makes a transition of the lifecycle, by its label; whether it succeeded."""
        raise NotImplementedError

    def _look_about(self) -> None:
        """After each heartbeat."""

    def _pause(self, seconds: float) -> None:
        """Waits, or does what the control thread has to do meanwhile."""
        self._stop.wait(seconds)

    def _close(self) -> None:
        """Ends all traffic."""

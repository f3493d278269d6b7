# SPDX-License-Identifier: Apache-2.0
"""ProcessHost: what hosts have in common that run one region as a process, whatever carries the messages.

Three kinds of threads. Those that receive deliver what arrives; one worker steps, unless a thread that received does
(see :class:`brain_runtime.hosts.policy.Threaded`); the calling thread controls: heartbeat, snapshots, lifecycle.
"""
from __future__ import annotations

import logging
import math
import threading
import time
from abc import abstractmethod
from pathlib import Path
from typing import Any, Callable

import numpy as np

from brain_runtime.contract import snapshot
from brain_runtime.hosts import diagnostics
from brain_runtime.contract import heartbeat as beat
from brain_runtime.run.ending import End
from brain_runtime.hosts import resting
from brain_runtime.hosts.hosted_region import TRANSITION_EVENT, HostedRegion
from brain_runtime.hosts.policy import Threaded
from brain_runtime.hosts.duplicate_publishers import DuplicatePublishers
from brain_runtime.hosts.predecessors import ACTIVE, FINALIZED, INACTIVE, ORDERED, UNCONFIGURED, Predecessors
from brain_runtime.contract.region import Region
from brain_runtime.contract.stepper import RegionError, Stepper
from brain_wire import messages
from brain_wire.lifecycle import Outcome
from brain_wire.owner import owned_thread
from brain_wire.wakeup import Signal

log = logging.getLogger(__name__)

SNAPSHOT_PERIOD = 2.0   # s
BEAT_SLACK = 0.02       # s that a heartbeat may come early, so that a timer that is a little early is not passed by
LAST_WORDS = 0.3        # s that a failed region goes on telling why
STOP_PATIENCE = 3.0     # s that the last step gets at the end
REST_TURN = 0.25        # s that bringing to rest waits for the step that is being made
LEADS = {ACTIVE: ("configure", "activate"), INACTIVE: ("configure",), UNCONFIGURED: (), FINALIZED: ("shutdown",)}
"""Transitions by which a region that begins comes to where it is to be."""
ANEW = ("configure", 1)     # transition that a region ended by order begins again with
YOUNG = 5               # steps; a region that fails so soon after it was restored may fail because of what was restored


class ProcessHost(HostedRegion):
    """Runs one region. A subclass adds the verbs of :class:`brain_runtime.hosts.host.Host`.

    Args:
        region: not configured yet.
        name: of the node; None: the region's own.
        namespace: of the node.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
        critical: the robot must not move without this region.
        restarts: times it was started again.
        autostart: configures and activates itself, unless it was ordered otherwise; else it waits for
            ``ros2 lifecycle``.
        before: what was ordered of the region before this process; None: nobody starts it again, so that a
            ``shutdown`` that is ordered ends the process.
        policy: makes what starts the steps.

    Attributes:
        anew: it was ended by order, and is to begin again as another host in this process.
        begun: it has come to where it is to be at first, or cannot.
    """

    policy: Threaded
    others_found = 0.0      # s after the first who hears the last word in which others may be found; a router knows all

    def __init__(self, region: Region, *, name: str | None, namespace: str, seed: int, state_dir: Path | None,
                 critical: bool, restarts: int, autostart: bool, before: Predecessors | None = None,
                 policy: Callable[[HostedRegion], Threaded] = Threaded) -> None:
        super().__init__(region, name=name, namespace=namespace, seed=seed, state_dir=state_dir, critical=critical,
                         restarts=restarts, epoch=beat.new_epoch(), policy=policy)
        self._autostart, self._before = autostart, before
        self.stays, self.anew, self.begun = before is not None, False, False
        if before is not None and region.storage is None:
            region.storage = before.storage
        self._orders = False                # a transition is somebody's order, and none of this host's own
        # Of the thread that controls; unlike an Event, it may be set in a signal handler at any moment.
        self._attention = Signal()
        self._over = False                  # nothing moves any more: the threads end
        self._next_diagnostics = -math.inf
        self._duplicates = DuplicatePublishers(self._alone, self.connections.others)
        self._diagnostics = self.publish(diagnostics.TOPIC, diagnostics.TYPE, diagnostics.QUALITY)

    # -- running ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Asks for the end, from any thread or a signal handler."""
        self._ending = self.idle = True
        self._attention.set()
        self.policy.wake()

    def run(self) -> int:
        """Runs the region until :meth:`stop`, in the calling thread.

        Returns:
            0 after an end in good order, 1 after the region failed or did not end its last step.
        """
        worker = owned_thread(self.policy.work, "step")
        worker.start()
        next_beat = next_save = time.monotonic()
        try:
            self._begin()
            self.begun = True
            while not self._ending:
                now = time.monotonic()
                if now >= next_beat - BEAT_SLACK:
                    self.beat()
                    self._look_about()
                    self._duplicates.look(now)
                    self._heed()
                    next_beat = max(next_beat + beat.PERIOD, now)
                if now >= next_save:
                    self.save(wait=0.0)
                    if self._before is not None:
                        self._before.renew()
                    next_save = now + SNAPSHOT_PERIOD
                self._pause(max(0.0, next_beat - time.monotonic()))
            self._orders = False
            self.rest()
            if self.failure is None:
                self.save(wait=STOP_PATIENCE)   # first of all, since whoever ends us may lose patience
                self.settle(STOP_PATIENCE)
            self._over = True
            return self._end(worker)
        finally:
            self.rest()     # nothing, unless something of the host itself failed
            self._over = True
            self.policy.end()
            self._close()

    def last_word(self) -> int:
        """Brings to rest what the region moves, and says nothing else: for a process that is gone and has not done it.

        Returns:
            The exit status.
        """
        try:
            self.stand_by()
            # First of all, and whether or not it is heard yet: what is heard only tells when it may end.
            self.connections.send(self.running.come_to_rest(time.monotonic(), self.clock(), 0.0)[0])
            self.connections.hear()
            self._may_move = True
            self.rest()
            return 0
        finally:
            self._over = True
            self.policy.end()
            self._close()

    def stand_by(self) -> None:
        """Gets ready to say the :meth:`last_word`. Raises what the region raises."""
        if not self.silent or self.stepper is None:
            self.silent = True
            self.connect()

    def _bring_to_rest(self, stepper: Stepper) -> None:
        turn = self.turn.acquire(timeout=REST_TURN)     # a step that hangs must not keep the robot moving
        try:
            inputs = self.connections.inputs.values()
            takers = [self._receive, *(inbound.take for inbound in inputs)] if turn else ()
            told = ((_nothing, self.connections.heard, self._replaced, resting.UNHEARD, self.others_found)
                    if self.silent else (self.beat,))
            resting.bring_to_rest(stepper, self.connections.send, takers, self.clock, *told)
        except Exception:   # whatever it is, the rest of the end must follow
            log.exception("%s could not bring to rest what it moves", self.region.name)
        finally:
            if turn:
                self.turn.release()

    def _receive(self) -> None:
        """Receives what has come, where no thread does."""

    def _replaced(self) -> bool:
        self._look_about()
        return self.connections.replaced()

    def _begin(self) -> None:
        goal = ACTIVE if self._before is None else self._before.ordered
        if not self._autostart and goal != FINALIZED:
            goal = UNCONFIGURED
        if goal != ACTIVE and self._autostart:
            log.warning("%s was ordered to be %s and stays so; `brain start %s` begins it", self.region.name, goal,
                        self.region.name)
        if not all(map(self.change, LEADS[goal])):  # to start it again in the same way will not help
            log.error("%s stays %s; once that is corrected, `brain start %s` or `ros2 lifecycle set` begins it",
                      self.region.name, UNCONFIGURED, self.region.name)
        self._orders = True

    def _attempt(self, what: str, transition: Callable[[], None]) -> Outcome:
        if self._orders and self._before is not None:
            self._before.order(ORDERED[what])   # first of all: it must hold if the process dies on the way
        return super()._attempt(what, transition)

    def begins_anew(self, transition: int | str) -> bool:
        """Begins a region again that was ended by order, if a transition asks for that; tells whether it does."""
        if self._before is None or self.state != beat.FINALIZED or transition not in ANEW or self._ending:
            return False
        self._before.order(ACTIVE)
        self.anew = True
        self.stop()
        return True

    def _end(self, worker: threading.Thread) -> int:
        self.policy.end()
        until = time.monotonic() + STOP_PATIENCE
        worker.join(STOP_PATIENCE)
        ended = not worker.is_alive() and self.turn.acquire(timeout=max(0.0, until - time.monotonic()))
        if ended:
            self.turn.release()     # nobody begins another step
        if self.failure is not None:
            return self._last_words(self.failure)
        if not ended:
            log.error("the last step does not end; %s ends without saving it", self.region.name)
            return 1
        if self.state != beat.FINALIZED:
            self.change("shutdown")
        self.beat()
        return 0

    def fail(self, error: BaseException) -> None:
        """Ends with an error: the region's, or a bug of the host, which must not leave a process that looks alive."""
        if not isinstance(error, RegionError):
            failure = RegionError(f"{self.region.name}: the host failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            error = failure
        self.failure = error
        self.stop()

    def _last_words(self, failure: RegionError) -> int:
        if self.state == beat.ACTIVE:
            self.change("deactivate")       # which leads into error processing
        self.state, self._reason = beat.ERROR, str(failure)
        young = self.stepper is None or self.stepper.steps < YOUNG
        self.settle(LAST_WORDS)     # or what is still being written would come after what is set aside
        if self._restored and young and self._snapshot is not None and self._snapshot.exists():
            aside = snapshot.set_aside(self._snapshot)
            log.error("it failed right after its state was restored; the snapshot is set aside as %s", aside)
        log.error("%s", failure, exc_info=failure)      # last, as what it ended for
        until = time.monotonic() + LAST_WORDS
        while time.monotonic() < until:
            self.beat()
            time.sleep(beat.PERIOD)
        return 1

    # -- what others are told, and who else is there -----------------------------------------------------------------

    def beat(self) -> Any:
        """See :meth:`.hosted_region.HostedRegion.beat`; now and then diagnostics too."""
        heartbeat = super().beat()
        now = time.monotonic()
        if now >= self._next_diagnostics:
            self._next_diagnostics = now + diagnostics.PERIOD
            broken = sum(self.connections.broken.values())
            edges = self.connections.edges()
            self._diagnostics.send(diagnostics.diagnostics(heartbeat, broken, self.gate, edges))
        return heartbeat

    def reason(self) -> str:
        """See :meth:`.hosted_region.HostedRegion.reason`."""
        ordered = ""
        if self._before is not None and self._before.ordered != ACTIVE and not self._ending:
            done = "ended" if self._before.ordered == FINALIZED else f"made {self._before.ordered}"
            ordered = f"{done} by order; `brain start {self.region.name}` begins it"
        return self._reason or self._duplicates.text or ordered or super().reason()

    def _alone(self) -> dict[str, str]:
        return self.connections.alone() if self.state == beat.ACTIVE else {}

    def _heed(self) -> None:
        """Sees which outputs on demand are wanted, in the thread that has the subscriptions."""
        self.heed()

    # -- what a host may add -----------------------------------------------------------------------------------------

    @abstractmethod
    def change(self, transition: str) -> bool:
        """Makes a transition of the lifecycle, by its label; whether it succeeded. In the thread that controls."""

    def _look_about(self) -> None:
        """After each heartbeat."""

    def _pause(self, seconds: float) -> None:
        """Waits, or does what the control thread has to do meanwhile."""
        self._attention.wait(seconds)

    @abstractmethod
    def _close(self) -> None:
        """Ends all traffic."""


def _nothing() -> None:
    """Tells nobody."""


def warm_up(cls: type[Region]) -> set[str]:
    """Makes what is made when a message of a type first comes, and takes longer than all else in a start.

    Returns:
        Names of the types: of the class's ports, and of what every host publishes.
    """
    types = {beat.TYPE, diagnostics.TYPE, TRANSITION_EVENT, *(port.type for port in cls.ports().values())}
    for name in types:
        messages.type_hash(name)
        messages.decoder(name)(messages.encode(messages.make(name)))
    np.random.default_rng()     # numpy loads what makes random numbers only now
    return types


def run_region(make: Callable[[], ProcessHost], ending: End) -> int:
    """Runs a region until its end, and anew in the same process where that is ordered.

    Args:
        make: makes its host, each time with a new region.
        ending: ends it.

    Returns:
        The exit status.
    """
    while True:
        host = make()
        host.moving = ending.first.moving
        ending.ends(host)
        status = host.run()
        if not host.anew or status or ending.asked.is_set():
            return status

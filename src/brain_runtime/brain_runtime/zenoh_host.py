# SPDX-License-Identifier: Apache-2.0
"""ZenohHost: one region as a process, which is a ROS 2 node to every rmw_zenoh node on the same router.

Three kinds of threads, none of which is Zenoh's. Those that receive, one for each topic, put what arrives into ring
buffers; one worker steps; the calling thread controls: heartbeat, snapshots, lifecycle.

Where steps are quick and nobody is at one, the thread that received makes the step at once, since to wake the worker
would take longer than the step. There is never more than one step at a time, and whoever makes it, it is the same.
"""
from __future__ import annotations

import functools
import logging
import math
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any, Callable, Mapping

import numpy as np

from brain_runtime import heartbeat as beat
from brain_runtime import messages, snapshot
from brain_runtime.region import Region
from brain_runtime.stepper import RegionError, Stepper
from brain_runtime.wire import Arrival, Node, Session, Signal, Subscription, Watch
from brain_runtime.wire.attachment import AttachmentProblem

log = logging.getLogger(__name__)

SNAPSHOT_PERIOD = 2.0   # s
IDLE_WAIT = 0.5         # s that the worker sleeps at most, so that it sees the end
WARN_EVERY = 5.0        # s between warnings about one topic
LAST_WORDS = 0.3        # s that a failed region goes on telling why
STOP_PATIENCE = 3.0     # s that the last step gets at the end
QUICK = 0.002           # s; steps that usually take no longer are made by the thread that received
USUAL = 0.05            # weight of the newest step in what is usual
YOUNG = 5               # steps; a region that fails so soon after it was restored may fail because of what was restored


class ZenohHost:
    """Runs one region on a Zenoh session. Make it, then call :meth:`run`.

    Args:
        region: not configured yet.
        session: open session; stays open.
        name, namespace: of the node.
        domain: ROS domain; None: ``ROS_DOMAIN_ID``.
        parameters: of the region.
        topic: from a port's topic to the name that is used, for remapping; None: as declared.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
        critical: the robot must not move without this region.
        restarts: times it was started again by its supervisor.

    Raises:
        ParameterError: the parameters do not fit.
        NameProblem: a name that ROS 2 does not allow.
    """

    def __init__(self, region: Region, session: Session, *, name: str | None = None, namespace: str = "/",
                 domain: int | None = None, parameters: Mapping[str, Any] | None = None,
                 topic: Callable[[str], str] | None = None, seed: int = 0, state_dir: Path | None = None,
                 critical: bool = False, restarts: int = 0) -> None:
        self.region = region
        region.name = name or region.name
        self._critical, self._restarts = critical, restarts
        self._state, self._reason = beat.UNCONFIGURED, ""
        self._stop = threading.Event()
        self._ending = False                # as _stop, which takes longer to ask
        self._wake = Signal()
        self._turn = threading.Lock()       # who has it makes steps, or looks at the state between two of them
        self._usual_step = math.inf           # s
        self._ready: deque[Callable[[], None]] = deque()    # takers of ports at which something has arrived
        self._failure: RegionError | None = None
        self._broken: Counter[str] = Counter()
        self._warned: dict[str, float] = {}
        topic = topic or (lambda declared: declared)
        self.node = Node(session, region.name, namespace, domain)
        folder = None if state_dir is None else Path(state_dir) / self.node.namespace.strip("/").replace("/", "%")
        region.storage = folder
        self._snapshot = None if folder is None else folder / f"{region.name}.safetensors"
        region.configure(parameters or {})
        state, self._restored = None, False
        if self._snapshot is not None:
            state, warnings = snapshot.restore(self._snapshot, region)
            self._restored = state is not None
            for warning in warnings:
                log.warning(warning)
            if self._restored:
                log.info("restored the state of %s", self._snapshot)
        self.stepper = Stepper(region, seed=seed, state=state)
        self._state = beat.INACTIVE
        self._heartbeat = self.node.publisher(topic(beat.PORT.topic), beat.TYPE, beat.PORT.qos)
        self._senders = {port.topic: self.node.publisher(topic(port.topic), port.type, port.qos).publish
                         for port in region.outputs().values()}
        self._subscriptions: dict[str, Subscription] = {}
        for port_name, port in region.inputs().items():
            decode, offer = messages.decoder(port.type), self.stepper.slots[port_name].offer
            take = functools.partial(self._take, port_name, decode, offer, port.key or port.every)
            # What does not trigger waits for the next step, and what is kept apart by publisher is sorted first.
            self._subscriptions[port_name] = self.node.subscription(
                topic(port.topic), port.type, port.qos, wake=self._wake, by_publisher=bool(port.key),
                arrived=functools.partial(self._arrived if port.trigger else self._ready.append, take),
                at_once=functools.partial(self._at_once, port_name, decode, offer)
                if port.trigger and not port.key else None)
        self._watch = Watch(session, self.node.domain, own=lambda: self.node.endpoints)

    # -- control ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Asks for the end, from any thread or a signal handler."""
        self._ending = True
        self._stop.set()
        self._wake.set()

    def run(self) -> int:
        """Activates the region and runs it until :meth:`stop`, in the calling thread.

        Returns:
            0 after an end in good order, 1 after the region failed or did not end its last step.
        """
        self.region.activate()
        self._state = beat.ACTIVE
        worker = threading.Thread(target=self._work, name="step", daemon=True)
        worker.start()
        next_beat = next_save = time.monotonic()
        try:
            while not self._stop.is_set():
                now = time.monotonic()
                if now >= next_beat:
                    self._beat()
                    self._watch.poll()
                    next_beat = max(next_beat + beat.PERIOD, now)
                if now >= next_save and self._snapshot is not None:
                    self._save(wait=0.0)
                    next_save = now + SNAPSHOT_PERIOD
                self._stop.wait(max(0.0, next_beat - time.monotonic()))
            return self._end(worker)
        finally:
            self._watch.close()
            self.node.close()

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
        self.region.deactivate()
        self._state = beat.INACTIVE
        if self._snapshot is not None:
            self._save(wait=1.0)
        self.region.cleanup()
        self._state = beat.FINALIZED
        self._beat()
        return 0

    def _fail(self, failure: RegionError) -> int:
        self._state, self._reason = beat.ERROR, str(failure)
        log.error("%s", failure, exc_info=failure)
        if self._restored and self.stepper.steps < YOUNG and self._snapshot is not None and self._snapshot.exists():
            aside = snapshot.set_aside(self._snapshot)
            log.error("it failed right after its state was restored; the snapshot is set aside as %s", aside)
        until = time.monotonic() + LAST_WORDS
        while time.monotonic() < until:
            self._beat()
            time.sleep(beat.PERIOD)
        return 1

    def _beat(self) -> None:
        self._heartbeat.publish(beat.heartbeat(
            self.node.fqn, "zenoh", self._state, stamp=time.time(), now=time.monotonic(), stepper=self.stepper,
            stepping=self.stepper.stepping_since is not None, critical=self._critical, restarts=self._restarts,
            reason=self._reason))

    def _save(self, wait: float) -> None:
        """Writes a snapshot of the state between two steps; skipped when a step takes longer than ``wait`` s."""
        if not self._turn.acquire(timeout=wait or 0.02):
            return
        try:
            state = {name: np.array(value, dtype=np.float32) for name, value in self.stepper.state.items()}
        finally:
            self._turn.release()
        try:
            snapshot.write(self._snapshot, self.region, state)
        except snapshot.SnapshotError as error:
            self._warn("snapshot", str(error))

    def _warn(self, about: str, text: str) -> None:
        now = time.monotonic()
        if now - self._warned.get(about, -math.inf) >= WARN_EVERY:
            self._warned[about] = now
            log.warning(text)

    # -- steps -----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._ending:
            self._wake.wait(min(self.stepper.next_tick - time.monotonic(), IDLE_WAIT))
            with self._turn:
                self._round()

    def _at_once(self, port_name: str, decode: Callable[[bytes], Any], offer: Callable[[Any, float], None],
                 arrival: Arrival) -> bool:
        """Makes the step that an arrival triggers in the thread that received it, where steps are quick, nobody is at
        one, and nothing else waits to be taken in. Returns False where it is not so."""
        if self._usual_step > QUICK or not self._turn.acquire(False):
            return False
        try:
            if self._ready or self._ending:
                return False
            try:
                message = decode(arrival.payload.to_bytes())
            except messages.MessageError as error:
                self._complain(port_name, arrival, str(error))
                return True
            offer(message, arrival.received)
            self._step(time.monotonic())
        except Exception as error:
            self._give_up(error)
        finally:
            self._turn.release()
        return True

    def _arrived(self, take: Callable[[], None]) -> None:
        """Notes an arrival that triggers, in the thread that received it, which makes the step where steps are quick."""
        self._ready.append(take)
        if self._usual_step > QUICK or not self._turn.acquire(False):
            self._wake.set()
            return
        try:
            self._round()
        finally:
            self._turn.release()

    def _round(self) -> None:
        """Takes in what has arrived, and makes a step if one is due."""
        if self._ending:
            return
        try:
            while self._ready:
                self._ready.popleft()()
            now = time.monotonic()
            if self.stepper.due(now):
                self._step(now)
        except Exception as error:
            self._give_up(error)

    def _step(self, now: float) -> None:
        stepper, usual = self.stepper, self._usual_step
        stepper.step(now, time.time(), self._senders)
        self._usual_step = stepper.took if usual == math.inf else (1 - USUAL) * usual + USUAL * stepper.took

    def _give_up(self, error: Exception) -> None:
        """Ends with an error: the region's, or a bug of the host itself, which must not leave a process that only looks
        alive."""
        if not isinstance(error, RegionError):
            failure = RegionError(f"{self.region.name}: the host failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            error = failure
        self._failure = error
        self.stop()

    def _take(self, port_name: str, decode: Callable[[bytes], Any], offer: Callable[[Any, float], None], all_of_them: bool
              ) -> None:
        """Puts what has arrived at a port into the inbox: all of it, or the newest message that is not broken."""
        subscription = self._subscriptions[port_name]
        while subscription.refused:
            self._complain(port_name, None, subscription.refused.popleft())
        arrivals = subscription.take()
        if not all_of_them:
            arrivals.reverse()
        for arrival in arrivals:
            try:
                message = decode(arrival.payload.to_bytes())
            except messages.MessageError as error:
                self._complain(port_name, arrival, str(error))
                continue
            offer(message, arrival.received)
            if not all_of_them:
                break

    def _complain(self, port_name: str, arrival: Arrival | None, what: str) -> None:
        topic = self._subscriptions[port_name].endpoint.topic
        self._broken[topic] += 1
        self._warn(topic, f"{topic}: dropped a message{self._sender(arrival)}: {what} ({self._broken[topic]} so far). Its "
                          f"publisher must send {self.stepper.inputs[port_name].type}.")

    def _sender(self, arrival: Arrival | None) -> str:
        if arrival is None:
            return ""
        try:
            gid = arrival.attachment.gid
        except AttachmentProblem:
            return " of a publisher without a ROS 2 attachment"
        publisher = self._watch.publisher(gid)
        return f" of {publisher.name}" if publisher is not None else f" of publisher {gid.hex()}"

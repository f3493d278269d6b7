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
from typing import Any, Callable, Mapping, Protocol

import numpy as np

from brain_runtime import heartbeat as beat
from brain_runtime import messages, snapshot
from brain_runtime.region import Region
from brain_runtime.stepper import RegionError, Stepper
from brain_runtime.waking import Signal

log = logging.getLogger(__name__)

SNAPSHOT_PERIOD = 2.0   # s
IDLE_WAIT = 0.5         # s that the worker sleeps at most, so that it sees the end
WARN_EVERY = 5.0        # s between warnings about one topic
LAST_WORDS = 0.3        # s that a failed region goes on telling why
STOP_PATIENCE = 3.0     # s that the last step gets at the end
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


class ProcessHost:
    """Runs one region. A subclass connects its ports; see the hooks at the end.

    Args:
        region: not configured yet.
        name: of the node; None: the region's own.
        namespace: of the node.
        seed: of the region's random stream.
        state_dir: folder of the snapshots; None: no snapshots.
        critical: the robot must not move without this region.
        restarts: times it was started again.
    """

    kind = ""       # as heartbeats name it

    def __init__(self, region: Region, *, name: str | None, namespace: str, seed: int, state_dir: Path | None,
                 critical: bool, restarts: int) -> None:
        self.region = region
        region.name = name or region.name
        self._seed, self._critical, self._restarts = seed, critical, restarts
        folder = None if state_dir is None else Path(state_dir) / namespace.strip("/").replace("/", "%")
        region.storage = folder
        self._snapshot = None if folder is None else folder / f"{region.name}.safetensors"
        self._state, self._reason = beat.UNCONFIGURED, ""
        self._restored = False
        self.stepper: Stepper | None = None
        self._ending = False
        self._idle = True                   # no steps are made: it is not active, or ending
        self._stop = Signal()               # unlike an Event, it may be set in a signal handler at any moment
        self._wake = Signal()
        self._turn = threading.Lock()       # who has it makes steps, or looks at the state between two of them
        self._usual_step = math.inf         # s
        self._takers: dict[str, Callable[[], None]] = {}    # by port: takes in what has arrived there
        self._ready: deque[Callable[[], None]] = deque()    # those of ports at which something has arrived
        self._senders: dict[str, Callable[[Any], None]] = {}
        self._clock: Callable[[], float] = time.time    # for headers (s since the epoch, or simulated)
        self._failure: RegionError | None = None
        self._broken: Counter[str] = Counter()
        self._warned: dict[str, float] = {}

    # -- life ------------------------------------------------------------------------------------------------------

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Configures the region and restores its snapshot.

        Raises:
            ParameterError: the parameters do not fit. Whatever else the region raises.
        """
        self.region.configure(parameters)
        state, self._restored = None, False
        if self._snapshot is not None:
            state, warnings = snapshot.restore(self._snapshot, self.region)
            self._restored = state is not None
            for warning in warnings:
                log.warning(warning)
            if self._restored:
                log.info("restored the state of %s", self._snapshot)
        self.stepper = Stepper(self.region, seed=self._seed, state=state)
        self._usual_step = math.inf
        self._state = beat.INACTIVE

    def activate(self) -> None:
        """Begins to make steps. Raises what the region raises."""
        self.region.activate()
        self._state = beat.ACTIVE
        self._idle = self._ending
        self._ready.extend(self._takers.values())   # what has come before
        self._wake.set()

    def deactivate(self) -> None:
        """Makes no more steps; what arrives from now on waits. Raises what the region raises."""
        with self._turn:
            self._state, self._idle = beat.INACTIVE, True
            self._ready.clear()
        self.region.deactivate()

    def cleanup(self) -> None:
        """Saves the state and lets go of what was configured. Raises what the region raises."""
        self.save(wait=1.0)
        self.region.cleanup()
        self.stepper = None
        self._state = beat.UNCONFIGURED

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
                if now >= next_beat:
                    self._beat()
                    self._look_about()
                    next_beat = max(next_beat + beat.PERIOD, now)
                if now >= next_save:
                    self.save(wait=0.0)
                    next_save = now + SNAPSHOT_PERIOD
                self._pause(max(0.0, next_beat - time.monotonic()))
            return self._end(worker)
        finally:
            self._close()

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
        self._finish()
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
        stepper = self.stepper  # a transition in another thread may take it away
        self._tell(beat.heartbeat(
            self.fqn, self.kind, self._state, stamp=self._clock(), now=time.monotonic(), stepper=stepper,
            stepping=stepper is not None and stepper.stepping_since is not None, critical=self._critical,
            restarts=self._restarts, reason=self._reason))

    def save(self, wait: float) -> None:
        """Writes a snapshot of the state between two steps; skipped when a step takes longer than ``wait`` s."""
        stepper = self.stepper
        if self._snapshot is None or stepper is None or not self._turn.acquire(timeout=wait or 0.02):
            return
        try:
            state = {name: np.array(value, dtype=np.float32) for name, value in stepper.state.items()}
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
            stepper = self.stepper
            ticking = stepper is not None and self._state == beat.ACTIVE
            self._wake.wait(min(stepper.next_tick - time.monotonic(), IDLE_WAIT) if ticking else IDLE_WAIT)
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
        except BaseException as error:  # SystemExit too: a thread that ended silently would leave a process that looks alive
            self._give_up(error)

    def _step(self, now: float) -> None:
        stepper, usual = self.stepper, self._usual_step
        stepper.step(now, self._clock(), self._senders)
        self._usual_step = stepper.took if usual == math.inf else (1 - USUAL) * usual + USUAL * stepper.took

    def _give_up(self, error: BaseException) -> None:
        """Ends with an error: the region's, or a bug of the host itself, which must not leave a process that only looks
        alive."""
        if not isinstance(error, RegionError):
            failure = RegionError(f"{self.region.name}: the host failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            error = failure
        self._failure = error
        self.stop()

    def _taker(self, port_name: str, arrivals: Callable[[], list[Arrived]]) -> Callable[[], None]:
        """What puts into the inbox what ``arrivals`` gives, oldest first: all of it where the port asks for that, else
        the newest message that is not broken."""
        port = self.region.inputs()[port_name]
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
                          f"must send {self.region.inputs()[port_name].type}.")

    # -- hooks -----------------------------------------------------------------------------------------------------

    @property
    def fqn(self) -> str:
        """Fully qualified name of the node."""
        raise NotImplementedError

    def _topic(self, port_name: str) -> str:
        """Full name of a port's topic."""
        raise NotImplementedError

    def _sender(self, arrival: Any) -> str:
        """Who published a message, as far as that can be said: `` of /name``."""
        return ""

    def _tell(self, heartbeat: Any) -> None:
        """Publishes a heartbeat."""
        raise NotImplementedError

    def _begin(self) -> None:
        """After the start: brings the region to where it makes steps."""
        self.activate()

    def _finish(self) -> None:
        """Before the end in good order: takes the region back to where it was before it was configured."""
        if self._state == beat.ACTIVE:
            self.deactivate()
        if self._state == beat.INACTIVE:
            self.cleanup()

    def _look_about(self) -> None:
        """After each heartbeat."""

    def _pause(self, seconds: float) -> None:
        """Waits, or does what the control thread has to do meanwhile."""
        self._stop.wait(seconds)

    def _close(self) -> None:
        """Ends all traffic."""

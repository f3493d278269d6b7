# SPDX-License-Identifier: Apache-2.0
"""Supervisor: starts the processes of a brain, and starts again what ended, hangs or is stuck.

It knows processes and heartbeats and nothing else: no wire, no torch. Whoever owns a wire hands in what was heard
(:meth:`Supervisor.beat`, :meth:`Supervisor.token`, :meth:`Supervisor.link`) from any thread.
"""
from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Callable, Iterable, Mapping

from brain_runtime import tether
from brain_runtime.health import Health, Limits

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
ROUND = 0.1         # s between two looks at everything
LONGEST_ROUND = 0.3  # s that one round may count for, however late the supervisor itself is
QUIET = 0.5         # s without a heartbeat from anybody, after which the wire is suspected first
ALL_QUIET = 4.0     # s of that with a link, after which the processes are suspected after all
LINK_LOST = 1.0     # s without a link to a router that runs, after which the router is suspected
STRANGERS = 100     # that are told of
ROUTER_START = 5.0  # s that a router gets before that


@dataclass(frozen=True)
class Backoff:
    """Waiting before a restart: ``first`` s, doubling up to ``most`` s; forgotten after ``healthy`` s without fault."""

    first: float = 0.2
    most: float = 10.0
    healthy: float = 10.0

    def delay(self, failures: int) -> float:
        """Wait (s) after so many failures in a row (at least 1)."""
        return min(self.most, self.first * 2.0 ** min(failures - 1, 30))


@dataclass(frozen=True)
class Child:
    """A process to be kept running.

    Attributes:
        name: for people and for the log file's name.
        argv: command line.
        node: name in its heartbeats, as ``/robot1/vision``; empty if it sends none.
        restart: start it again when it ends by itself.
        counts_restarts: it takes ``--restarts N``.
        rate: steps a second that it makes by itself (Hz), or None.
        triggers: topics that make it step.
        stop_after: children with a lower number are ended first.
    """

    name: str
    argv: tuple[str, ...]
    node: str = ""
    restart: bool = True
    counts_restarts: bool = False
    rate: float | None = None
    triggers: tuple[str, ...] = ()
    stop_after: int = 0


@dataclass(frozen=True)
class Event:
    """Something that happened: ``kind`` is started, ended, unhealthy, given up, stopping or stopped."""

    time: float
    child: str
    kind: str
    text: str


@dataclass
class _Running:
    child: Child
    health: Health
    process: subprocess.Popen | None = None
    pidfd: int = -1
    log: IO[bytes] | None = None
    starts: int = 0
    failures: int = 0
    well: float = 0.0           # s since the start or the last fault
    wait: float | None = None   # s until the next start; None: none is due
    why: str = ""               # what the supervisor ended it for
    fault: str = ""             # why it ended last


class Supervisor:
    """Keeps children running.

    All methods but ``beat``, ``token``, ``link`` and ``kill`` belong to one thread, which must live as long as the
    children (the kernel ends them when it ends).

    Args:
        children: in the order of starting.
        log_dir: gets one ``<name>.log`` for each child, and ``supervisor.log``.
        on_event: called with each :class:`Event`, in the supervisor's thread.
        limits: when a child counts as unhealthy.
        backoff: how long to wait before restarts.
        environment: added to that of the children.
        router: name of the child that is the router, if it is one of them.
    """

    def __init__(self, children: Iterable[Child], log_dir: Path, *, on_event: Callable[[Event], None] | None = None,
                 limits: Limits = Limits(), backoff: Backoff = Backoff(),
                 environment: Mapping[str, str] | None = None, router: str | None = None) -> None:
        self.log_dir = Path(log_dir)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self._on_event = on_event
        self._limits, self._backoff = limits, backoff
        self._environment = {**THREADS, "PYTHONUNBUFFERED": "1", **os.environ, **(environment or {})}
        self._router = router
        self._all: dict[str, _Running] = {}
        for child in children:
            if child.name in self._all:
                raise ValueError(f"two children are called {child.name}; give one another name")
            self._all[child.name] = _Running(child, self._health(child))
        self._nodes = {r.child.node: r for r in self._all.values() if r.child.node}
        self._heard: deque[Callable[[], None]] = deque()
        self._linked, self._unlinked = True, 0.0
        self._quiet = 0.0
        self._strangers: set[tuple[str, int]] = set()
        self._last_round: float | None = None

    def _health(self, child: Child) -> Health:
        return Health(self._limits, child.rate, child.triggers)

    # -- what others hear ------------------------------------------------------------------------------------------

    def beat(self, message: Any) -> None:
        """A ``brain_interfaces/msg/Heartbeat`` was heard."""
        self._heard.append(lambda: self._take_beat(message))

    def token(self, node: str, alive: bool) -> None:
        """The liveliness token of a node, as ``/robot1/vision``, came or went."""
        self._heard.append(lambda: self._take_token(node, alive))

    def link(self, up: bool) -> None:
        """Whether the listener's own session is linked to a router."""
        self._heard.append(lambda: setattr(self, "_linked", up))

    def _take_beat(self, message: Any) -> None:
        running = self._nodes.get(message.name)
        if running is None:
            return
        if running.process is not None and running.process.pid == message.pid:
            running.health.beat(message)
            self._quiet = 0.0
        elif running.process is not None and (message.name, message.pid) not in self._strangers:
            # the last words of the process before this one come late; only a later one is a stranger
            if running.health.last is not None and len(self._strangers) < STRANGERS:
                self._strangers.add((message.name, message.pid))
                self._tell(running.child.name, "unhealthy", f"another process, {message.pid} on {message.hostname}, "
                           f"also calls itself {message.name}; end it or give it another name")

    def _take_token(self, node: str, alive: bool) -> None:
        running = self._nodes.get(node)
        if running is not None:
            running.health.token = alive

    # -- life ------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names of the children."""
        return list(self._all)

    @property
    def nodes(self) -> list[str]:
        """Full node names of the children that send heartbeats."""
        return list(self._nodes)

    def pid(self, name: str) -> int | None:
        """Process id of a child, None while it does not run."""
        process = self._all[name].process
        return None if process is None else process.pid

    def restarts(self, name: str) -> int:
        """How often a child was started again."""
        return max(0, self._all[name].starts - 1)

    def fault(self, name: str) -> str:
        """Why a child ended last; empty if it never did."""
        return self._all[name].fault

    def log_path(self, name: str) -> Path:
        """Log file of a child."""
        return self.log_dir / f"{name}.log"

    def last_line(self, name: str) -> str:
        """Last line that a child wrote to its log, empty if there is none."""
        with open(self.log_path(name), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
        lines = [line for line in lines if line and not line.startswith("--- ")]
        return lines[-1][:300] if lines else ""

    def kill(self, name: str, number: int = signal.SIGKILL) -> bool:
        """Sends a signal to a child, for demonstrations and tests; whether there was one to send it to."""
        process = self._all[name].process
        if process is None:
            return False
        os.kill(process.pid, number)
        return True

    def start(self) -> None:
        """Starts all children."""
        for running in self._all.values():
            self._start(running)

    def run(self, stop: threading.Event) -> None:
        """Keeps the children running until ``stop`` is set, then ends them."""
        try:
            while not stop.is_set():
                self.round()
        finally:
            self.stop()

    def round(self, wait: float = ROUND) -> None:
        """Waits up to ``wait`` s for a child to end, then looks after everything once."""
        descriptors = [r.pidfd for r in self._all.values() if r.pidfd >= 0]
        if descriptors:
            select.select(descriptors, [], [], wait)
        else:
            time.sleep(wait)
        now = time.monotonic()
        dt = 0.0 if self._last_round is None else min(now - self._last_round, LONGEST_ROUND)
        self._last_round = now
        self._quiet += dt
        while self._heard:
            self._heard.popleft()()
        self._unlinked = 0.0 if self._linked else self._unlinked + dt
        deaf = self._quiet > QUIET and not (self._linked and self._quiet > ALL_QUIET)
        for running in self._all.values():
            self._look_after(running, dt, deaf)

    def _look_after(self, running: _Running, dt: float, deaf: bool) -> None:
        process = running.process
        if process is None:
            if running.wait is not None:
                running.wait -= dt
                if running.wait <= 0.0:
                    self._start(running)
            return
        if process.poll() is not None:
            self._bury(running)
            return
        running.well += dt
        if running.well > self._backoff.healthy:
            running.failures = 0
        if running.why:  # was sent SIGKILL and has not gone yet
            return
        wrong = self._wrong(running, dt, deaf)
        if wrong:
            running.why = wrong
            self._tell(running.child.name, "unhealthy", f"process {process.pid} is {wrong}; ending it")
            process.kill()

    def _wrong(self, running: _Running, dt: float, deaf: bool) -> str | None:
        if running.child.name == self._router:
            if self._unlinked > LINK_LOST and running.well > ROUTER_START:
                self._unlinked = 0.0
                return f"hung: no link to it for {LINK_LOST:g} s"
            return None
        if not running.child.node:
            return None
        if deaf:
            running.health.forgive()
            return None
        return running.health.elapse(dt)

    def _start(self, running: _Running) -> None:
        child = running.child
        argv = list(child.argv)
        if child.counts_restarts and running.starts:
            # before --ros-args, which takes all that follows
            at = argv.index("--ros-args") if "--ros-args" in argv else len(argv)
            argv[at:at] = ["--restarts", str(running.starts)]
        running.starts += 1
        running.wait, running.why, running.well = None, "", 0.0
        running.health = self._health(child)
        log = open(self.log_path(child.name), "ab")  # noqa: SIM115 - lives as long as the process
        log.write(f"--- {datetime.now():%Y-%m-%d %H:%M:%S} start {running.starts}: {' '.join(argv)}\n".encode())
        log.flush()
        tethered = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *argv]
        try:
            process = subprocess.Popen(tethered, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                       env=self._environment, start_new_session=True)
        except OSError as error:
            log.close()
            self._fail(running, f"could not be started: {error}")
            return
        running.process, running.log = process, log
        running.pidfd = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else -1
        self._tell(child.name, "started", f"process {process.pid}"
                   + (f", restart {running.starts - 1}" if running.starts > 1 else ""))

    def _bury(self, running: _Running) -> None:
        status = running.process.returncode
        self._close(running)
        if running.why:
            reason = running.why
        elif status < 0:
            reason = f"killed by {_signal_name(-status)}"
        else:
            reason = f"ended with status {status}"
            last = self.last_line(running.child.name)
            if status and last:
                reason += f": {last}"
        self._fail(running, reason)

    def _fail(self, running: _Running, reason: str) -> None:
        running.fault = reason
        if not running.child.restart:
            self._tell(running.child.name, "given up", f"{reason}; it is not to be restarted")
            return
        running.failures += 1
        running.wait = self._backoff.delay(running.failures)
        self._tell(running.child.name, "ended", f"{reason}; starting it again in {running.wait:g} s")

    def _close(self, running: _Running) -> None:
        if running.pidfd >= 0:
            os.close(running.pidfd)
        running.pidfd = -1
        running.process = None
        if running.log is not None:
            running.log.close()
            running.log = None

    # -- end -------------------------------------------------------------------------------------------------------

    def stop(self, grace: float = 5.0) -> None:
        """Ends all children: SIGTERM, up to ``grace`` s for each group, SIGKILL for what is left then."""
        for running in self._all.values():
            running.wait = None
        for group in sorted({r.child.stop_after for r in self._all.values()}):
            self._stop_group([r for r in self._all.values() if r.child.stop_after == group and r.process], grace)

    def _stop_group(self, group: list[_Running], grace: float) -> None:
        for running in group:
            running.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + grace
        for running in group:
            try:
                status = running.process.wait(max(0.0, until - time.monotonic()))
                text = f"status {status}" if status >= 0 else f"by {_signal_name(-status)}"
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()
                text = f"by SIGKILL, since it did not end within {grace:g} s of SIGTERM"
            self._close(running)
            self._tell(running.child.name, "stopped", text)

    def _tell(self, child: str, kind: str, text: str) -> None:
        event = Event(time.time(), child, kind, text)
        with open(self.log_dir / "supervisor.log", "a", encoding="utf-8") as file:
            file.write(f"{datetime.fromtimestamp(event.time):%Y-%m-%d %H:%M:%S.%f} {child} {kind}: {text}\n")
        if self._on_event is not None:
            self._on_event(event)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

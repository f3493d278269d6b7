# SPDX-License-Identifier: Apache-2.0
"""Supervisor: starts the processes of a brain, and starts again what ended, hangs or is stuck.

It knows processes and heartbeats and nothing else: no wire, no torch. Whoever owns a wire hands in what was heard
(:meth:`Supervisor.beat`, :meth:`Supervisor.token`, :meth:`Supervisor.link`) from any thread.
"""
from __future__ import annotations

import functools
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
from typing import Any, Callable, Iterable, Mapping, Sequence

from brain_runtime import end_with_parent
from brain_runtime.child import CANNOT_START, TRIES, Backoff, Child, Event
from brain_runtime.health import Health, Limits
from brain_runtime.run import keeper
from brain_runtime.starved import Starved
from brain_wire import shown
from brain_wire.logs import Logs, Through
from brain_wire.observers import guarded
from brain_wire.standby import OPTION, Standby
from brain_wire.waking import Flag

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
ROUND = 0.1         # s between two looks at everything
LONGEST_ROUND = 0.3  # s that one round may count for, however late the supervisor itself is
QUIET = 0.5         # s without a heartbeat from anybody, after which the wire is suspected first
ALL_QUIET = 4.0     # s of that with a link, after which the processes are suspected after all
LINK_LOST = 1.0     # s without a link to a router that runs, after which the router is suspected
ROUTER_START = 5.0  # s that a router gets before that
ENOUGH = 0.8        # share of the others' heartbeats that must come, or the wire is doubted and not who is silent
STEADY = 2.0        # s after its first heartbeat from which on a region's count for that
FOREIGN = 64        # foreign processes under a region's name that are told of, at most
GRACE = 5.0         # s that children get to end in good order
SETTLED_AGAIN = 1.0     # s of the same where it was started again, alone
SETTLED = 3.0       # s after which a process has started, so that a spare one may take processor time for its own start


@dataclass
class _Running:
    child: Child
    health: Health
    process: subprocess.Popen | None = None
    pidfd: int = -1
    starved: Starved | None = None
    starts: int = 0
    failures: int = 0
    well: float = 0.0           # s since the start or the last fault
    wait: float | None = None   # s until the next start; None: none is due
    why: str = ""               # what the supervisor ended it for
    fault: str = ""             # why it ended last
    spare: Standby | None = None
    spare_wait: float = SETTLED     # s until one is to be there


class Supervisor:
    """Keeps children running.

    All methods but ``beat``, ``token``, ``link`` and ``kill`` belong to one thread, which must live as long as the
    children (the kernel ends them when it ends).

    Args:
        children: in the order of starting.
        log_dir: gets one ``<name>.log`` for each child, and ``supervisor.log``; None: they write where this process
            does.
        on_event: called with each :class:`Event`, in the supervisor's thread.
        limits: when a child counts as unhealthy.
        backoff: how long to wait before restarts.
        environment: added to that of the children.
        router: name of the child that is the router, if it is one of them.
    """

    def __init__(self, children: Iterable[Child], log_dir: Path | None, *,
                 on_event: Callable[[Event], None] | None = None, limits: Limits = Limits(),
                 backoff: Backoff = Backoff(), environment: Mapping[str, str] | None = None, router: str | None = None
                 ) -> None:
        self._logs = Through() if log_dir is None else Logs(log_dir, self._complain)
        self._show = guarded(on_event or (lambda event: None), "showing events")
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
        self._doubted = False
        self._foreign: set[tuple[str, int]] = set()
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
        elif running.process is not None and (message.name, message.pid) not in self._foreign \
                and len(self._foreign) < FOREIGN:
            # the last words of the process before this one come late; only a later one is foreign
            if running.health.last is not None:
                self._foreign.add((message.name, message.pid))
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
        return self._logs.path(name)

    def last_line(self, name: str) -> str:
        """Last line that a child wrote to its log, empty if there is none."""
        return self._logs.last_line(name)

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

    def run(self, stop: threading.Event | Flag, grace: float = GRACE) -> None:
        """Keeps the children running until ``stop`` is set, then ends them; see :meth:`stop`."""
        try:
            while not stop.is_set():
                self.round()
        finally:
            self.stop(grace)

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
        self._doubt_wire()
        for running in self._all.values():
            self._look_after(running, dt, deaf)

    def _doubt_wire(self) -> None:
        """Sees whether those that are silent are hung, or the wire loses heartbeats: then it loses the others' too."""
        heard = [r for r in self._all.values() if r.process is not None and r.health.last is not None]
        doubted = []
        for running in heard:
            health = running.health
            others = [r.health.heard for r in heard if r is not running and r.health.known > STEADY]
            health.doubted = (health.silence > QUIET and health.token is not False and bool(others)
                              and sum(others) < ENOUGH * len(others))
            if health.doubted:
                doubted.append(running.child.name)
        if doubted and not self._doubted:
            self._complain(f"heartbeats of {', '.join(doubted)} and of others are missing though they are there: the "
                           f"wire may be flooded; they get {Limits.silence_together:g} s")
        self._doubted = bool(doubted)

    def _look_after(self, running: _Running, dt: float, deaf: bool) -> None:
        process = running.process
        if process is None:
            if running.wait is not None:
                running.wait -= dt
                if running.wait <= 0.0:
                    self._start(running)
            return
        if process.poll() is not None:
            self._bury(running, process.returncode)
            if running.wait == 0.0:
                self._start(running)
            return
        running.well += dt
        if running.child.spare:
            self._keep_spare(running, dt)
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
        if running.starved is not None and running.health.late:
            dt = running.starved.counts(dt)
        return running.health.elapse(dt)

    def _start(self, running: _Running) -> None:
        child = running.child
        more = ["--restarts", str(running.starts)] if child.counts_restarts and running.starts else []
        running.starts += 1
        running.wait, running.why, running.well = None, "", 0.0
        running.health = self._health(child)
        spare, running.spare = running.spare, None
        running.spare_wait = SETTLED if running.starts == 1 else SETTLED_AGAIN
        self._logs.add(child.name, f"--- {datetime.now():%Y-%m-%d %H:%M:%S} start {running.starts}: "
                                   f"{' '.join(_with(child.argv, more))}\n")
        process = spare.put_to_work(running.starts - 1) if spare is not None else None
        if process is None:
            try:
                process = self._spawn(child, more)
            except OSError as error:
                self._fail(running, f"could not be started: {error}")
                return
        running.process = process
        running.pidfd = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else -1
        running.starved = Starved(process.pid)
        self._tell(child.name, "started", f"process {process.pid}"
                   + (f", restart {running.starts - 1}" if running.starts > 1 else ""))

    def _spawn(self, child: Child, more: list[str], stdin: int = subprocess.DEVNULL) -> subprocess.Popen:
        """Starts a child's process, which ends with this one, in good order where others need it. Raises OSError."""
        command, environment = _with(child.argv, more), {**self._environment, **keeper.told(child.stop_after)}
        if not child.lingers:
            command = [sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid()), *command]
        with self._logs.output(child.name) as log:
            return subprocess.Popen(command, stdin=stdin, stdout=log, stderr=subprocess.STDOUT, env=environment,
                                    start_new_session=True)

    def _keep_spare(self, running: _Running, dt: float) -> None:
        running.spare_wait -= dt
        if running.spare_wait > 0.0 or (running.spare is not None and running.spare.waits):
            return
        running.spare_wait = SETTLED     # one that does not stay is not tried again at once
        if running.spare is not None:
            running.spare.end()
        try:
            running.spare = Standby(functools.partial(self._spawn, running.child, [OPTION]))
        except OSError as error:
            running.spare = None
            self._complain(f"no spare process for {running.child.name} can be started: {error}")

    def _bury(self, running: _Running, status: int) -> None:
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
        self._fail(running, reason, cannot=status == CANNOT_START and running.child.counts_restarts)

    def _fail(self, running: _Running, reason: str, *, cannot: bool = False) -> None:
        running.fault = reason
        if not running.child.restart:
            self._tell(running.child.name, "given up", f"{reason}; it is not to be restarted")
            return
        running.failures += 1
        if cannot and running.failures >= TRIES:
            self._tell(running.child.name, "given up", f"{reason}; that was {running.failures} times in a row, and it "
                       f"is not started again: correct it, and start anew what keeps it")
            return
        # A spare process is there only where the one before had run for a while: that is no row of failures.
        ready = running.spare is not None and running.spare.waits
        running.wait = 0.0 if ready else self._backoff.delay(running.failures)
        self._tell(running.child.name, "ended", f"{reason}; starting it again in {running.wait:g} s")

    def _close(self, running: _Running) -> None:
        if running.pidfd >= 0:
            os.close(running.pidfd)
        running.pidfd = -1
        running.process = None

    # -- end -------------------------------------------------------------------------------------------------------

    def stop(self, grace: float = GRACE) -> None:
        """Ends all children: SIGTERM, up to ``grace`` s for each group, SIGKILL for what is left then."""
        for running in self._all.values():
            running.wait = None
            if running.spare is not None:
                running.spare.end()
        for group in sorted({r.child.stop_after for r in self._all.values()}):
            self._stop_group([(r, r.process) for r in self._all.values()
                              if r.child.stop_after == group and r.process is not None], grace)

    def _stop_group(self, group: list[tuple[_Running, subprocess.Popen]], grace: float) -> None:
        for _, process in group:
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + grace
        for running, process in group:
            try:
                status = process.wait(max(0.0, until - time.monotonic()))
                text = f"status {status}" if status >= 0 else f"by {_signal_name(-status)}"
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                text = f"by SIGKILL, since it did not end within {grace:g} s of SIGTERM"
            self._close(running)
            self._tell(running.child.name, "stopped", text)

    def _tell(self, child: str, kind: str, text: str) -> None:
        event = Event(time.time(), child, kind, text)
        self._logs.add("supervisor", f"{datetime.fromtimestamp(event.time):%Y-%m-%d %H:%M:%S.%f} {child} {kind}: "
                                     f"{shown.line(text)}\n")
        self._show(event)

    def _complain(self, text: str) -> None:
        self._show(Event(time.time(), "supervisor", "warning", text))


def _with(argv: Sequence[str], more: Sequence[str]) -> list[str]:
    """A command line with more options, before ``--ros-args``, which takes all that follows."""
    at = argv.index("--ros-args") if "--ros-args" in argv else len(argv)
    return [*argv[:at], *more, *argv[at:]]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

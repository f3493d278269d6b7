# SPDX-License-Identifier: Apache-2.0
"""Loop: starts the processes that are wanted, and starts again what ended or is not well.

It sees, has :func:`brain_runtime.run.reconcile.reconcile` decide, and does it. It knows nothing of wires and brains:
whoever does gives each workload a probe.
"""
from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Sequence

from brain_runtime.run import end_with_parent
from brain_runtime.run import keeper
from brain_runtime.run.called import Called
from brain_runtime.run.reconcile import SETTLED, SETTLED_AGAIN, Action, Seen, after_end, due_in, reconcile
from brain_runtime.run.tree import Tree
from brain_runtime.run.workload import Event, Watching, Workload
from brain_wire import safe_text
from brain_wire.logs import Logs, last_line
from brain_wire.observers import guarded
from brain_wire.standby import OPTION, Standby
from brain_wire.wakeup import Flag

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
ROUND = 0.1         # s between two looks at everything
LATE = 0.2          # s that one round may count for beyond what it was to wait, however late the loop itself is


class _Process:
    """Process of a workload: the loop's own record, beside ``seen``, on which decisions are made."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.popen: subprocess.Popen | Tree | Called | None = None
        self.pidfd = -1
        self.watching: Watching | None = None
        self.channel: socket.socket | None = None
        self.spare: Standby | None = None
        self.why = ""       # what it was ended for
        self.fault = ""     # why it ended last
        self.status: int | None = None


class Loop:
    """Keeps workloads running.

    Everything but :meth:`kill` and :meth:`wake` belongs to one thread, which must live as long as the processes (the
    kernel ends them when it ends).

    Args:
        workloads: in the order of starting.
        logs: get one for each workload, and one of the events.
        log: name of that.
        on_event: called with each :class:`Event`, in the loop's thread.
        on_told: called with a workload's name and what its call tells, in the loop's thread.
        environment: added to that of the processes; None for a variable: they have none of that name.
    """

    def __init__(self, workloads: Iterable[Workload], logs: Logs, *, log: str = "supervisor",
                 on_event: Callable[[Event], None] | None = None, on_told: Callable[[str, Any], None] | None = None,
                 environment: Mapping[str, str | None] | None = None) -> None:
        self._logs, self._log = logs, log
        self._show = guarded(on_event or (lambda event: None), "showing events")
        self._told = on_told or (lambda name, what: None)
        self._environment = {**ONE_THREAD, "PYTHONUNBUFFERED": "1", **os.environ}
        self._added = environment or {}
        self._wanted: dict[str, Workload] = {}
        self._all: dict[str, _Process] = {}
        self._now, self._ending = 0.0, False
        self._woken, self._waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for descriptor in (self._woken, self._waking):      # not when it has ended: it may still be woken
            weakref.finalize(self, os.close, descriptor)
        self._last_round: float | None = None
        self.want(workloads)

    def want(self, workloads: Iterable[Workload]) -> None:
        """From now on these are wanted: what is not among them ends, and what is otherwise than it runs starts anew.

        Raises:
            ValueError: two have one name.
        """
        wanted: dict[str, Workload] = {}
        for workload in workloads:
            if workload.name in wanted:
                raise ValueError(f"two processes are called {workload.name}; give one another name")
            wanted[workload.name] = workload
        self._all = {name: one for name, one in self._all.items() if name in wanted or one.popen is not None}
        for name, workload in wanted.items():
            one = self._all.setdefault(name, _Process(Seen(workload)))
            if one.seen.began is None and (name not in self._wanted or self._wanted[name] != workload):
                one.seen = Seen(workload, due=self._now, starts=one.seen.starts)
        self._wanted = wanted

    # -- what others ask -------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names of the workloads that are wanted."""
        return list(self._wanted)

    def pid(self, name: str) -> int | None:
        """Process id of a workload, None while it does not run."""
        popen = self._all[name].popen
        return None if popen is None else popen.pid

    def restarts(self, name: str) -> int:
        """Returns the number of times that a workload was started again."""
        return max(0, self._all[name].seen.starts - 1)

    def fault(self, name: str) -> str:
        """Returns the reason why a workload's process ended last by itself; empty if it never did."""
        return self._all[name].fault

    def status(self, name: str) -> int | None:
        """Exit status of a workload's last process, negative for a signal; None: none has ended."""
        return self._all[name].status

    def runs_for(self, name: str) -> float | None:
        """Returns the time for which a workload's process has run (s, of the loop's clock); None: it does not."""
        began = self._all[name].seen.began
        return None if began is None else self._now - began

    def failures(self, name: str) -> int:
        """Returns the number of a workload's failures in a row."""
        seen = self._all[name].seen
        return 0 if (self.runs_for(name) or 0.0) > seen.workload.restart.backoff.healthy else seen.failures

    def over(self, name: str) -> bool:
        """Tells whether a workload does not run, and is not started again."""
        seen = self._all[name].seen
        return seen.began is None and seen.due is None

    def watching(self, name: str) -> Watching | None:
        """Returns what looks at a workload's process; None where nothing does, or it does not run."""
        return self._all[name].watching

    def channel(self, name: str) -> socket.socket | None:
        """Returns this end of a workload's channel; None where it has none, or does not run."""
        return self._all[name].channel

    def log_path(self, name: str) -> Path:
        """Log file of a workload."""
        return self._logs.path(name)

    def last_line(self, name: str) -> str:
        """Last line that a workload wrote to its log, empty if there is none."""
        below = self._all[name].seen.workload.below
        return self._logs.last_line(name) if below is None else last_line(below.folder / "log")

    def kill(self, name: str, number: int = signal.SIGKILL) -> bool:
        """Sends a signal to a workload's process, for demonstrations and tests; whether there was one to send it to."""
        popen = self._all[name].popen
        if popen is None:
            return False
        os.kill(popen.pid, number)
        return True

    def wake(self) -> None:
        """Ends the waiting of a round, from any thread or signal handler."""
        with contextlib.suppress(BlockingIOError):      # it has been woken often enough
            os.write(self._waking, b"!")

    # -- life ------------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event | Flag) -> None:
        """Keeps the workloads running until ``stop`` is set, then ends them; see :meth:`stop`."""
        try:
            while not stop.is_set():
                self.round()
        finally:
            self.stop()

    def stop(self, grace: float | None = None) -> None:
        """Ends all: SIGTERM in the order of ``stop_order``, SIGKILL for what is left after its grace time.

        Args:
            grace: for all of them (s); None: of each its own.
        """
        if grace is not None:
            for one in self._all.values():
                one.seen.workload = replace(one.seen.workload, grace=grace)
        self._ending = True
        while any(one.popen is not None for one in self._all.values()):
            self.round(0.02)

    def round(self, wait: float = ROUND) -> None:
        """Waits up to ``wait`` s for a process to end, then looks after everything once."""
        wait = min(wait, due_in(self._seen().values(), self._now))
        poll = select.poll()
        channels = (one.channel.fileno() for one in self._all.values() if one.channel is not None)
        calls = (one.popen.fileno() for one in self._all.values() if isinstance(one.popen, Called))
        for descriptor in (self._woken, *(one.pidfd for one in self._all.values()), *channels, *calls):
            if descriptor >= 0:     # a channel that the process has closed has none
                poll.register(descriptor, select.POLLIN)
        if any(descriptor == self._woken for descriptor, _ in poll.poll(1000.0 * wait)):
            os.read(self._woken, 4096)
        at = time.monotonic()
        dt = 0.0 if self._last_round is None else min(at - self._last_round, wait + LATE)
        self._last_round = at
        self._now += dt
        self._look(dt)
        for one in self._all.values():
            self._see(one, dt)
        wanted = () if self._ending else self._wanted.values()
        for action in reconcile(wanted, self._seen(), self._now):
            self._do(action)

    def _seen(self) -> dict[str, Seen]:
        return {name: one.seen for name, one in self._all.items()}

    def _look(self, dt: float) -> None:
        """Sees what lies outside the processes, before they are looked at; for subclasses."""

    def _see(self, one: _Process, dt: float) -> None:
        seen = one.seen
        seen.spare = one.spare is not None and one.spare.waits
        if one.popen is None:
            return
        if (status := one.popen.poll()) is not None:
            if one.channel is not None and one.watching is not None:
                one.watching.wrong(0.0)
            self._bury(one, status)
        elif one.watching is not None and not seen.killed:
            seen.wrong = one.watching.wrong(dt)

    # -- what is done ----------------------------------------------------------------------------------------------

    def _do(self, action: Action) -> None:
        one = self._all[action.name]
        if action.spare:
            self._keep_spare(one)
        elif action.number is None:
            self._start(one, self._wanted[action.name])
        else:
            self._signal(one, action)

    def _start(self, one: _Process, workload: Workload) -> None:
        seen = one.seen
        more = ["--restarts", str(seen.starts)] if workload.restarts_told and seen.starts else []
        seen.starts += 1
        seen.workload, seen.began, seen.due = workload, self._now, None
        seen.wrong, seen.asked, seen.killed = None, None, False
        one.why = ""
        spare, one.spare, seen.spare = one.spare, None, False
        seen.spare_due = self._now + (SETTLED if seen.starts == 1 else SETTLED_AGAIN)
        self._logs.add(workload.name, f"--- {datetime.now():%Y-%m-%d %H:%M:%S} start {seen.starts}: "
                                      f"{' '.join(with_options(workload.argv, more))}\n")
        popen: subprocess.Popen | Tree | Called | None
        popen = None if spare is None else spare.put_to_work(seen.starts - 1)
        try:
            if popen is None and (below := workload.below) is not None:
                popen = Tree(below.folder, below.token, below.steps, workload.grace)
            elif popen is None and workload.call is not None:
                popen = Called(workload.call, functools.partial(self._told, workload.name),
                               self._logs.file(workload.name))
            elif popen is None:
                popen = self._spawn_with_channel(one, workload, more)
        except OSError as error:
            self._ended(one, f"could not be started: {error}", None)
            return
        one.popen = popen
        one.pidfd = os.pidfd_open(popen.pid) if hasattr(os, "pidfd_open") else -1
        one.watching = None if workload.probe is None else workload.probe.watch(workload, popen.pid, self)
        self._tell(workload.name, "started", f"process {popen.pid}"
                   + (f", restart {seen.starts - 1}" if seen.starts > 1 else ""))

    def _spawn_with_channel(self, one: _Process, workload: Workload, more: list[str]) -> subprocess.Popen:
        """Starts a process, and opens its channel where it has one. Raises OSError."""
        if not workload.channel:
            return self._spawn(workload, more)
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            one.channel = ours
            return self._spawn(workload, more, theirs.fileno())

    def _spawn(self, workload: Workload, more: list[str], stdin: int = subprocess.DEVNULL) -> subprocess.Popen:
        """Starts a process, which ends with this one, in good order where others need it. Raises OSError."""
        command, environment = with_options(workload.argv, more), self._environment_of(workload)
        if not workload.lingers:
            command = [sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid()), *command]
        with self._logs.output(workload.name) as log:
            return subprocess.Popen(command, stdin=stdin, stdout=log, stderr=self._logs.errors, env=environment,
                                    start_new_session=True)

    def _environment_of(self, workload: Workload) -> dict[str, str]:
        told = {**self._environment, **keeper.told(workload.stop_order), **self._added, **workload.environment}
        return {name: value for name, value in told.items() if value is not None}

    def _keep_spare(self, one: _Process) -> None:
        one.seen.spare_due = self._now + SETTLED     # one that does not stay is not tried again at once
        if one.spare is not None:
            one.spare.end()
        try:
            one.spare = Standby(functools.partial(self._spawn, one.seen.workload, [OPTION]))
        except OSError as error:
            one.spare = None
            self._complain(f"no spare process for {one.seen.workload.name} can be started: {error}")
        one.seen.spare = one.spare is not None

    def _signal(self, one: _Process, action: Action) -> None:
        assert one.popen is not None and action.number is not None, "only what runs is sent a signal"
        if action.number == signal.SIGTERM:
            one.seen.asked = self._now
            if one.spare is not None:
                one.spare.end()
                one.spare = None
        else:
            one.seen.killed, one.why = True, action.why
            if one.seen.asked is None:
                self._tell(action.name, "unhealthy", f"process {one.popen.pid} is {action.why}; ending it")
        one.popen.send_signal(action.number)

    def _bury(self, one: _Process, status: int) -> None:
        how = f"status {status}" if status >= 0 else f"by {_signal_name(-status)}"
        if one.seen.asked is not None:
            name = one.seen.workload.name
            self._close(one)
            one.status = status
            one.seen = Seen(one.seen.workload, due=self._now if name in self._wanted and not self._ending else None,
                            starts=one.seen.starts)
            self._tell(name, "stopped", f"{how}, since {one.why}" if one.why else how)
            return
        reason = one.why
        if not reason and status < 0:
            reason = f"killed {how}"
        elif not reason:
            last = self.last_line(one.seen.workload.name)
            reason = f"ended with {how}" + (f": {last}" if status and last else "")
        self._ended(one, reason, status)

    def _ended(self, one: _Process, reason: str, status: int | None) -> None:
        seen = one.seen
        assert seen.began is not None, "it ran"
        self._close(one)
        one.status = status
        found = after_end(seen.workload.restart, seen.failures, self._now - seen.began, status,
                          one.spare is not None and one.spare.waits)
        one.fault = reason
        seen.began, seen.failures = None, found.failures
        seen.due = None if found.wait is None else self._now + found.wait
        self._tell(seen.workload.name, found.kind, f"{reason}; {found.text}")

    def _close(self, one: _Process) -> None:
        if one.pidfd >= 0:
            os.close(one.pidfd)
        if one.channel is not None:
            one.channel.close()
        one.pidfd, one.popen, one.watching, one.channel = -1, None, None, None

    def _tell(self, name: str, kind: str, text: str) -> None:
        event = Event(time.time(), name, kind, text)
        self._logs.add(self._log, f"{datetime.fromtimestamp(event.time):%Y-%m-%d %H:%M:%S.%f} {name} {kind}: "
                                  f"{safe_text.line(text)}\n")
        self._show(event)

    def _complain(self, text: str) -> None:
        self._show(Event(time.time(), self._log, "warning", text))


def with_options(argv: Sequence[str], more: Sequence[str]) -> list[str]:
    """A command line with more options, before ``--ros-args``, which takes all that follows."""
    at = argv.index("--ros-args") if "--ros-args" in argv else len(argv)
    return [*argv[:at], *more, *argv[at:]]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

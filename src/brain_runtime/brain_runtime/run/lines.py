# SPDX-License-Identifier: Apache-2.0
"""Probe of a process that talks with who keeps it, by lines on its channel: one that is silent for long is not well."""
from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from brain_runtime.run.cpu_wait import CpuWait

if TYPE_CHECKING:
    from brain_runtime.run.workload import Workload

START = 60.0                    # s that a process gets to its first line, however busy the machine is
RATE, BURST = 100.0, 1000.0     # lines a second that it may say, and at once
LONGEST = 256 * 1024            # bytes of a line
UNSENT = 256 * 1024             # bytes that may wait for a process which does not listen
READ = 64 * 1024                # bytes that are read at a time
MOST = 16                       # times that it is read in one round, so that who floods holds up nobody else


class Lie(Exception):
    """A process says what none of its kind says; says what is wrong with it."""


@dataclass(frozen=True)
class Lines:
    """Probe by lines.

    Attributes:
        hear: takes in a line of the workload of this name; tells whether it is a sign of life. Raises Lie.
        patience: s that the process may be without a sign of life.
        hello: what it is told first.
    """

    hear: Callable[[str, bytes], bool]
    patience: float
    hello: bytes = b""

    def watch(self, workload: Workload, process: int, loop: Any) -> Talk:
        """See :class:`brain_runtime.run.workload.Probe`."""
        channel = loop.channel(workload.name)
        assert channel is not None, f"{workload.name} has no channel"
        talk = Talk(self, workload.name, channel, CpuWait(process))
        talk.say(self.hello)
        return talk


class Talk:
    """Talk with one process.

    Args:
        probe: see there.
        name: of the workload.
        channel: to its process.
        cpu_wait: of the process: time in which it wants for a processor is not held against it.
    """

    def __init__(self, probe: Lines, name: str, channel: socket.socket, cpu_wait: CpuWait) -> None:
        self._probe, self._name, self._channel, self._cpu_wait = probe, name, channel, cpu_wait
        self._begun, self._silence, self._left = False, 0.0, BURST
        self._text = self._unsent = b""

    def say(self, data: bytes) -> None:
        """Tells the process something; it waits here while the process does not listen."""
        self._unsent += data
        self._send()

    def wrong(self, dt: float) -> str | None:
        """See :class:`brain_runtime.run.workload.Watching`."""
        self._send()
        if len(self._unsent) > UNSENT:
            return "hung: it does not take what it is told"
        self._left = min(BURST, self._left + RATE * dt)
        self._silence += self._cpu_wait.counts(dt) if self._silence else dt
        try:
            self._hear()
        except Lie as lie:
            return f"lying: {lie}"
        patience = self._probe.patience if self._begun else START
        return f"hung: it has not said a word for {patience:g} s" if self._silence > patience else None

    def _hear(self) -> None:
        for _ in range(MOST):
            try:
                data = self._channel.recv(READ)
            except BlockingIOError:
                return
            except OSError:     # it ended with something unread
                data = b""
            if not data:
                self._channel.close()       # or it would count as readable for ever
                return
            *whole, self._text = (self._text + data).split(b"\n")
            if max(map(len, (*whole, self._text))) > LONGEST:
                raise Lie(f"it said a line of more than {LONGEST} bytes")
            for line in whole:
                self._left -= 1.0
                if self._left < 0.0:
                    raise Lie(f"it says more than {RATE:g} lines a second")
                if self._probe.hear(self._name, line):
                    self._begun, self._silence = True, 0.0

    def _send(self) -> None:
        while self._unsent:
            try:
                sent = self._channel.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:     # it has died, or closed its end: who keeps it sees that
                sent = len(self._unsent)
            self._unsent = self._unsent[sent:]

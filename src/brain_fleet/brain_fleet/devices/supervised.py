# SPDX-License-Identifier: Apache-2.0
"""One driver's process, as the mapper has it: started, listened to, and started again when it dies, hangs or floods."""
from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import Any

from brain_fleet.devices import lines
from brain_fleet.devices.driver import Around
from brain_fleet.devices.models import Device
from brain_fleet.messages.pace import Bucket
from brain_fleet.schema import FormProblem
from brain_wire import safe_text
from brain_wire.backoff import Backoff
from brain_wire.rate_limited_log import RateLimitedLog

AGAIN = Backoff(first=0.5, most=60.0, healthy=60.0)     # until it is started again
STARTING = 60.0         # s that a process may take to begin, however busy the machine is
RATE, BURST = 500.0, 2000.0     # lines a second that a driver may say, and at once
READ = 64 * 1024        # bytes that are read at a time
LEAVING = 3.0           # s until a process that was told to end is ended
UNSENT = 256 * 1024     # bytes that may wait for a driver which does not listen

log = logging.getLogger("brain.devices")


class Lie(Exception):
    """A driver says what none says; it is ended, and started again."""


class Supervised:
    """A driver's process.

    Args:
        device: of which.
        around: where it runs.

    Attributes:
        running: whether there is a process.
        refused: why the device cannot be meant so, as its driver has said last.
    """

    def __init__(self, device: Device, around: Around) -> None:
        self.device, self._around = device, around
        self.refused: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._again, self._failures = 0.0, 0
        self._began = self._heard = 0.0
        self._begun = False
        self._text, self._errors, self._unsent = b"", b"", b""
        self._last = ""     # line of its standard error
        self._bucket = Bucket(RATE, BURST)
        self._limited_log = RateLimitedLog(log)

    @property
    def running(self) -> bool:
        """True while there is a process."""
        return self._process is not None

    def due(self) -> float:
        """Steady time at which it is to be started, or counts as hung (s)."""
        if self._process is None:
            return self._again
        return self._heard + (self.device.patience if self._begun else STARTING)

    def pipes(self) -> list[Any]:
        """Returns the open pipes from which it can be read."""
        return [] if self._process is None else [
            one for one in (self._process.stdout, self._process.stderr) if one is not None and not one.closed]

    def start(self, now: float) -> str | None:
        """Starts the process; why it cannot be started, where that is so."""
        device = self.device
        words = [sys.executable, "-m", "brain_fleet.devices.process", str(os.getpid())]
        try:
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       bufsize=0)
        except OSError as error:    # no process or no memory to be had just now
            self._later(now)
            return f"its driver cannot be started ({error.strerror or error})"
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
        self._process, self._began, self._heard, self._begun = process, now, now, False
        self._text = self._errors = self._unsent = b""
        self._last = ""
        self._bucket = Bucket(RATE, BURST)
        self.send(device=device.name, protocol=device.protocol, settings=device.settings,
                  visitors={name: one.visitor for name, one in device.properties.items()},
                  periods={name: one.period for name, one in device.properties.items()},
                  writable={name: one.property.writable for name, one in device.properties.items()},
                  router=self._around.router, namespace=self._around.namespace, files=self._around.files)
        return None

    def send(self, **fields: Any) -> None:
        """Tells the driver something; it waits here while the driver does not listen.

        Raises:
            Lie: it has not listened for far too long.
        """
        if self._process is None:
            return
        self._unsent += lines.written(**fields)
        if len(self._unsent) > UNSENT:
            raise Lie("it does not take what it is told")
        self.flush()

    def flush(self) -> None:
        """Hands on what waits, as far as the pipe takes it."""
        if self._process is None or not self._unsent:
            return
        assert self._process.stdin is not None
        try:
            taken = os.write(self._process.stdin.fileno(), self._unsent)
        except BlockingIOError:
            return
        except OSError:     # it has died, which its other pipe tells
            taken = len(self._unsent)
        self._unsent = self._unsent[taken:]

    def hear(self, now: float) -> tuple[list[dict[str, Any]], str | None]:
        """Reads what it has said since the last time; returns that, and why it has ended where it has.

        Raises:
            Lie: it has said what none says.
        """
        if self._process is None:
            return [], None
        self.flush()
        told = _read(self._process.stderr)
        self._log(told)
        if told is None and self._process.stderr is not None:
            self._process.stderr.close()    # or it would count as readable for ever
        data = _read(self._process.stdout)
        if data is None:
            return [], self._ended(now)
        found = []
        *whole, self._text = (self._text + data).split(b"\n")
        if len(self._text) > lines.LONGEST or any(len(line) > lines.LONGEST for line in whole):
            raise Lie(f"it said a line of more than {lines.LONGEST} bytes")
        for line in whole:
            self._bucket.take(1.0)
            if self._bucket.wait() > 0.0:
                raise Lie(f"it says more than {RATE:g} lines a second")
            try:
                one = lines.read(line)
            except FormProblem as problem:
                raise Lie(f"it said what no driver says: {problem}") from None
            self._heard, self._begun = now, True
            if one["say"] == "refused":
                self.refused = safe_text.line(one["why"], 300)
            elif one["say"] in ("online", "offline"):
                self.refused = None
            found.append(one)
        return found, None

    def _log(self, data: bytes | None) -> None:
        *whole, self._errors = (self._errors + (data or b""))[-READ:].split(b"\n")
        for line in whole:
            if line.strip():
                text = safe_text.line(line.decode("utf-8", "replace"), 300)
                self._last = text
                self._limited_log(self.device.name, f"{self.device.name}: {text}")

    def _ended(self, now: float) -> str:
        """Its standard output is closed."""
        process = self._process
        assert process is not None
        try:
            status = process.wait(0.2)
        except subprocess.TimeoutExpired:
            status = None
        self._log(_read(process.stderr))
        self._log(b"\n")
        self.end(now)
        if status is None:
            return "its driver closed its output"
        if status < 0:
            return f"its driver was ended by signal {-status}"
        return f"its driver ended with status {status}" + (f": {self._last[:200]}" if status and self._last else "")

    def hung(self, now: float) -> str | None:
        """Returns why it counts as hung, where it does; None otherwise."""
        if self._process is None or now < self.due():
            return None
        patience = self.device.patience if self._begun else STARTING
        return f"its driver has not said a word for {patience:g} s"

    def end(self, now: float) -> None:
        """Ends the process at once, and has it started again later."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.wait()
        if now - self._began > AGAIN.healthy:
            self._failures = 0
        self._later(now)

    def _later(self, now: float) -> None:
        # What is refused is asked again seldom: somebody may have installed its driver.
        self._failures += 1
        self._again = now + (AGAIN.most if self.refused else AGAIN.delay(self._failures))

    def leave(self) -> None:
        """Tells it to close its device and end; see :meth:`left`."""
        if self._process is not None and self._process.stdin is not None:
            self.flush()
            self._process.stdin.close()

    def left(self, now: float, until: float) -> bool:
        """Tells whether it has ended; kills it from the steady time ``until`` (s) on."""
        if self._process is None:
            return True
        if self._process.poll() is None and now < until:
            _read(self._process.stdout)     # or it might wait for somebody to listen
            _read(self._process.stderr)
            return False
        if self._process.returncode is None:
            log.warning("%s: its driver does not end, and is ended", self.device.name)
        self.end(now)
        return True


def _read(pipe: Any) -> bytes | None:
    """Reads what there is in a pipe, without waiting; None at its end."""
    if pipe is None or pipe.closed:
        return b""
    try:
        return os.read(pipe.fileno(), READ) or None
    except BlockingIOError:
        return b""

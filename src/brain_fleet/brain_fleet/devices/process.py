# SPDX-License-Identifier: Apache-2.0
"""The process of one driver: ``python -m brain_fleet.devices.process PARENT``, told by its standard input what to do.

It reads the properties that are due, hands on what the driver tells by itself, writes what it is asked to, and says
every second that it is alive: unless the driver holds it up, which is how that is noticed. It dies with its parent, may
have half a gigabyte, and gives way to the robot's own processes.
"""
from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import deque
from typing import Any, Mapping

from brain_fleet.devices import lines
from brain_fleet.devices.driver import Around, Driver, Sample, Teller, Unreachable
from brain_fleet.devices.owned_files import with_paths
from brain_fleet.devices.protocols import check_device, find
from brain_fleet.schema import WHOLE, FormProblem
from brain_runtime.end_with_parent import die_with
from brain_wire.backoff import Backoff
from brain_wire.wakeup import Signal

MEMORY = 512 * 2**20    # bytes of data, threads' stacks among them
NICE = 5                # below the regions of the brain, which run at 0
ALIVE = 1.0             # s between two signs of life
AGAIN = Backoff(first=0.5, most=30.0)   # until a device that was gone is tried again
LEAVING = 2.0           # s that a driver gets to close
REFUSED = 3             # exit status where the device cannot be meant so


class Told(Teller):
    """Reports that a driver makes by itself: of each property the newest, until it is handed on."""

    def __init__(self, names: Mapping[str, Any], wake: Signal) -> None:
        self._names, self._wake, self._lock = names, wake, threading.Lock()
        self._news: dict[str, tuple[float, Any, str | None]] = {}
        self._gone: str | None = None

    def value(self, name: str, value: Any) -> None:
        """See the base."""
        self._put(name, value, None)

    def failed(self, name: str, why: str) -> None:
        """See the base."""
        self._put(name, None, str(why))

    def _put(self, name: str, value: Any, why: str | None) -> None:
        if name not in self._names:
            return      # a driver may only speak of what it was asked for
        with self._lock:
            self._news[name] = time.monotonic(), value, why
        self._wake.set()

    def gone(self, why: str) -> None:
        """See the base."""
        with self._lock:
            self._gone = str(why) or "it is gone"
        self._wake.set()

    def take(self, names: list[str]) -> list[tuple[str, float, Any, str | None]]:
        """Takes the newest reports of these properties: name, steady time (s), value, or why it is none."""
        with self._lock:
            return [(name, *self._news.pop(name)) for name in names if name in self._news]

    def waiting(self) -> list[str]:
        """Properties of which something waits."""
        with self._lock:
            return list(self._news)

    def take_gone(self) -> str | None:
        """Returns why the device is gone, once; None otherwise."""
        with self._lock:
            found, self._gone = self._gone, None
        return found


class Runner:
    """Runs a driver.

    Args:
        make: makes the driver of the device.
        visitors, periods: by property.
        say: writes a line to the mapper.
        wake: set when there is something to do.
    """

    def __init__(self, make: Any, visitors: Mapping[str, Mapping[str, Any]], periods: Mapping[str, float], say: Any,
                 wake: Signal) -> None:
        self._make, self._visitors, self._periods, self._say, self._wake = make, visitors, periods, say, wake
        self.commands: deque[dict[str, Any]] = deque(maxlen=1000)
        self.ended = False
        self._told = Told(visitors, wake)
        self._driver: Driver | None = None
        self._due = dict.fromkeys(visitors, 0.0)
        self._again, self._failures = 0.0, 0
        self._alive = self._looked = 0.0

    def run(self) -> None:
        """Until ``ended``."""
        while not self.ended:
            now = time.monotonic()
            if now - self._alive >= ALIVE:
                self._alive = now
                self._say(say="alive")
            try:
                if self._driver is None and now >= self._again:
                    self._open()
                self._write()
                if self._driver is not None:
                    self._turn(now)
            except Unreachable as problem:
                self._lose(str(problem) or "it is gone")
            self._wake.wait(max(0.0, self._next() - time.monotonic()))
        self._close()

    def _open(self) -> None:
        self._told = Told(self._visitors, self._wake)   # what an earlier connection still tells is nobody's
        try:
            self._driver = self._make()
            self._driver.open(self._told)
        except FormProblem:
            raise
        except Exception as error:
            raise Unreachable(_why(error)) from error
        self._failures = 0
        self._say(say="online")

    def _turn(self, now: float) -> None:
        driver = self._driver
        assert driver is not None
        gone = self._told.take_gone()
        if gone is not None:
            raise Unreachable(gone)
        if now - self._looked >= ALIVE:
            self._looked = now
            driver.look()
        due = [name for name in (self._visitors if driver.polls else self._told.waiting()) if self._due[name] <= now]
        if not driver.polls:
            for name, at, value, why in self._told.take(due):
                self._plan(name, now)
                self._tell(name, value, at, why)
            return
        for name in due:
            self._plan(name, now)
            at = time.monotonic()
            try:
                value, why = driver.read(self._visitors[name]), None
            except Unreachable:
                raise
            except Exception as error:      # this property cannot be read; the next may
                value, why = None, _why(error)
            self._tell(name, value, at, why)
            if time.monotonic() - self._alive >= ALIVE:
                return      # many that are slow: between them it is alive, and writes

    def _plan(self, name: str, now: float) -> None:
        self._due[name] = max(self._due[name] + self._periods[name], now)

    def _next(self) -> float:
        """Steady time at which there is something to do, if nothing comes before."""
        found = [self._alive + ALIVE]
        if self._driver is None:
            found.append(self._again)
        else:
            found += [self._due[name] for name in (self._due if self._driver.polls else self._told.waiting())]
        return min(found)

    def _tell(self, name: str, value: Any, at: float, why: str | None) -> None:
        sample = value if isinstance(value, Sample) else Sample(value)
        why = why or _unsayable(sample.value)
        if why is not None:
            self._say(say="failed", name=name, why=why[:300])
        else:
            self._say(say="value", name=name, value=sample.value, at=at, kept=bool(sample.kept),
                      unit=None if sample.unit is None else str(sample.unit)[:100])

    def _write(self) -> None:
        while self.commands:
            command = self.commands.popleft()
            name = command["name"]
            if self._driver is None:
                self._say(say="unwritten", name=name, why="the device is offline")
                continue
            try:
                self._driver.write(self._visitors[name], command["value"])
            except Unreachable:
                self._say(say="unwritten", name=name, why="the device went away while it was written to")
                raise
            except FormProblem:
                raise
            except Exception as error:
                self._say(say="unwritten", name=name, why=_why(error)[:300])
            else:
                self._say(say="written", name=name)
                self._due[name] = 0.0   # what it is now, at once

    def _lose(self, why: str) -> None:
        self._close()
        self._say(say="offline", why=why[:300])
        self._failures += 1
        self._again = time.monotonic() + AGAIN.delay(self._failures)

    def _close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            try:
                driver.close()
            except Exception as error:
                print(f"the driver could not be closed: {_why(error)}", file=sys.stderr)


def _why(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, (Unreachable, ValueError, OSError, ImportError)) or " " in text else (
        f"{type(error).__name__}: {text}")


def _unsayable(value: Any) -> str | None:
    """Returns why a value cannot be handed on at all; None where it can."""
    if isinstance(value, bool) or isinstance(value, float):
        return None
    if isinstance(value, int):
        return None if -WHOLE <= value <= WHOLE else "it gave a whole number of more than 64 bits"
    if isinstance(value, str):
        return None if len(value) <= 1000 else f"it gave a string of {len(value)} characters"
    return f"it gave a {type(value).__name__}, which is neither boolean, number nor string"


def _limit() -> None:
    import resource

    os.nice(NICE)
    if sys.platform == "linux":     # elsewhere the limit counts something else
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def main() -> None:
    """Runs the driver that the first line of standard input names, until that ends."""
    die_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)    # Ctrl-C is for who started this, and closes its device then
    _limit()
    # Whatever a driver or its library prints goes to the log, and none of it between the lines.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    lock = threading.Lock()

    def say(**fields: Any) -> None:
        with lock:
            out.write(lines.written(**fields))

    def refuse(problem: FormProblem) -> None:
        say(say="refused", why=str(problem)[:300])
        os._exit(REFUSED)

    asked = sys.stdin.buffer
    first = json.loads(asked.readline())
    visitors, writable = first["visitors"], first["writable"]
    try:
        around = Around(first["device"], first["router"], first["namespace"], first["files"])
        driver, settings = find(first["protocol"], around.named), first["settings"]
        check_device(driver, settings, visitors, writable, around.named)
        if around.files is not None:
            visitors = {
                name: with_paths(driver.visitor_form, one, around.files, settings, f"spec.properties.{name}.visitor")
                for name, one in visitors.items()}
            settings = with_paths(driver.settings_form, settings, around.files, settings, "spec.settings")
    except FormProblem as problem:
        refuse(problem)
    wake = Signal()
    runner = Runner(lambda: driver(settings, visitors, around), visitors, first["periods"], say, wake)

    def listen() -> None:
        for line in asked:
            runner.commands.append(json.loads(line))
            wake.set()
        runner.ended = True
        wake.set()
        time.sleep(LEAVING)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    say(say="begun")
    try:
        runner.run()
    except FormProblem as problem:      # only what was opened shows that the device cannot be meant so
        refuse(problem)
    os._exit(0)


if __name__ == "__main__":
    main()

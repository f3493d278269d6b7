# SPDX-License-Identifier: Apache-2.0
"""Keeps the devices that are wanted: the process of each, by the loop that keeps all processes, and its twin.

A process says JSON objects, one a line: its twin, what its properties wait for, and that the driver has come back
since. It is told first what the device is, then its last twin, and whenever that changes what is wanted of it.
"""
from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
from dataclasses import asdict
from datetime import datetime
from typing import Any, Mapping

from brain_edge.devices import values
from brain_edge.devices.models import Device
from brain_edge.devices.twin import Twin, date
from brain_edge.devices.twin_form import STATES, TWIN, shown
from brain_edge.schema import FormProblem, check, check_plain
from brain_runtime.run.lines import Lie, Lines, Talk
from brain_runtime.run.loop import Loop
from brain_runtime.run.workload import Event, Restart, Workload
from brain_wire import safe_text
from brain_wire.backoff import Backoff
from brain_wire.logs import Through
from brain_wire.rate_limited_log import RateLimitedLog

LEAVING = 3.0       # s that a driver gets to close
LATE = 2.0          # s without a word after which no value is one of now for longer than it is fresh
RESTART = Restart(backoff=Backoff(first=0.5, most=60.0, healthy=60.0))
READ = 64 * 1024    # bytes that are read of what a driver prints, at a time
PRINTS = 4          # such reads in a turn: who prints more waits
_WHY = {"type": "string", "maxLength": 2000}
SAID: dict[str, Any] = {"type": "object", "properties": {
    "progress": {"type": "integer"}, "twin": TWIN, "refused": _WHY,
    "waits": {"type": "object", "maxProperties": 100, "additionalProperties": _WHY}}}

log = logging.getLogger("brain.devices")
limited_log = RateLimitedLog(log)


class Printed(Through):
    """Prints of drivers: into the log, a line every few seconds; the last of each is kept."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: dict[str, int] = {}
        self._last: dict[str, bytes] = {}

    def output(self, name: str) -> Any:
        """Opens what a driver prints to."""
        self.forget(name)
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        self._ends[name], self._last[name] = ours, b""
        return open(theirs, "ab", buffering=0)

    def last_line(self, name: str) -> str:
        """The last line that a driver has printed."""
        self.look(name)
        text = self._last.get(name, b"").strip().rpartition(b"\n")[2]
        return safe_text.line(text.decode("utf-8", "replace"), 200)

    def look(self, name: str) -> None:
        """Takes in what a driver has printed."""
        with contextlib.suppress(KeyError, BlockingIOError):
            for _ in range(PRINTS):
                data = os.read(self._ends[name], READ)
                self._last[name] = (self._last[name] + data)[-READ:]
                for line in data.decode("utf-8", "replace").splitlines():
                    if line.strip():
                        limited_log(f"printed {name}", f"{name}: {safe_text.line(line, 300)}")

    def forget(self, name: str) -> None:
        """Lets go of what a driver printed to."""
        if name in self._ends:
            os.close(self._ends.pop(name))


class Kept:
    """A device that is wanted, and what is known of it."""

    def __init__(self, device: Device, before: Mapping[str, Any], now: float) -> None:
        self.device = device
        twin = Twin(device, now)
        twin.remember(before, now)
        self.twin, self.waits = twin.to_dict(), dict[str, str]()
        self.desired: Mapping[str, Any] = {}
        self.refused: str | None = None
        self.heard, self.progress = now, -1
        self.said = ""      # why it was offline last, which is logged once

    def take(self, line: bytes, now: float) -> bool:
        """Takes in what its process says; whether that is a sign of life. Raises FormProblem and Misfit."""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FormProblem(f"it is no JSON ({str(error)[:60]})") from None
        check_plain(found)
        check(found, SAID)
        if "refused" in found:
            self.refused = safe_text.line(found["refused"], 300)
        if "twin" in found:
            self._check(found["twin"])
            if found["twin"]["state"] != "starting":
                self.refused = None
            self.waits = found.get("waits", {})
            # what died stays offline until its device answers
            if (self.twin["state"], found["twin"]["state"]) != ("offline", "starting"):
                self.twin = found["twin"]
        before, self.progress = self.progress, found.get("progress", self.progress)
        self.heard = now
        return bool(self.progress != before)

    def _check(self, twin: Mapping[str, Any]) -> None:
        """Checks what no form says: the properties are the device's, and what they have is what they can have."""
        for name, about in twin["properties"].items():
            if name not in self.device.properties:
                raise FormProblem("it speaks of a property that it was not asked for")
            for value in ("value", "desired"):
                if value in about:
                    values.fitted(self.device.properties[name].property, about[value])
            try:
                datetime.fromisoformat(about.get("at", about["since"]))
            except ValueError:
                raise FormProblem(f"it says that {name} was read at no date") from None

    def lose(self, why: str, now: float) -> None:
        """Takes in that its process has ended."""
        self.twin = _all(self.twin, STATES, "offline", why, now)
        since = self.twin["since"] if self.twin["state"] == "offline" else date(now)
        self.twin |= {"state": "offline", "why": why[:300], "since": since}

    def shown(self, now: float) -> dict[str, Any]:
        """The twin, in which nothing is called fresh that its process does not say any more."""
        silence = now - self.heard - LATE
        late = {name for name, mapped in self.device.properties.items() if silence > mapped.fresh_for}
        return _all(self.twin, ("ok",), "stale", "its driver says nothing any more", now, late) if late else self.twin

    def waits_for(self, name: str) -> str | None:
        """Returns why a property is not as desired; None where it is."""
        if self.twin["state"] == "offline":
            return f"it is offline: {self.twin.get('why', '')}"
        if self.twin["properties"].get(name, {}).get("desired") != self.desired[name]:
            return "it is to be written"
        return self.waits.get(name)


def _all(twin: Mapping[str, Any], states: tuple[str, ...], state: str, why: str, now: float, names: Any = None
         ) -> dict[str, Any]:
    """A twin whose properties in some states, those of ``names`` where it is given, are in another."""
    properties = {name: about if about["state"] not in states or (names is not None and name not in names) else {
        **about, "state": state, "why": why[:300], "since": about["since"] if about["state"] == state else date(now)}
        for name, about in twin["properties"].items()}
    return {**twin, "properties": properties}


class DeviceManager:
    """Keeps devices as they are wanted, whatever their drivers do. All but :meth:`wake` belongs to one thread.

    Args:
        router, namespace: of the brain.
        files: those that orders may name; None: the devices are no order's, see
            :class:`brain_edge.devices.driver.Around`.
    """

    def __init__(self, router: str | None, namespace: str, *, files: Mapping[str, Any] | None) -> None:
        self._around = {"router": router, "namespace": namespace, "files": files}
        self._kept: dict[str, Kept] = {}
        self._printed = Printed()
        self._loop = Loop((), self._printed, log="devices", on_event=self._event)
        self._woken = False

    def wake(self) -> None:
        """Ends the waiting of a round, from any thread."""
        self._woken = True
        self._loop.wake()

    def look(self, wait: float = 0.0) -> dict[str, Any]:
        """All devices, as they are shown, after a round of up to ``wait`` s."""
        self.round(wait)
        return {"devices": [shown("", name, one.device.spec, self.status(name), True)
                            for name, one in self._kept.items()]}

    def stop(self) -> None:
        """Ends all drivers, and then returns."""
        self._loop.stop()
        for name in self._kept:
            self._printed.forget(name)

    def twins(self) -> dict[str, dict[str, Any]]:
        """The twins by device, as they are told."""
        return {name: one.shown(time.monotonic()) for name, one in self._kept.items()}

    def status(self, name: str) -> dict[str, Any]:
        """Status of a device, as it is reported: its twin, or why its driver refuses it as it is described."""
        one = self._kept[name]
        if one.refused is not None:
            return {"state": "refused", "why": one.refused[:500]}
        return {"state": "applied", "twin": one.shown(time.monotonic())}

    def waits(self, device: str, name: str) -> str | None:
        """Returns why a property is not as desired; None where it is."""
        return self._kept[device].waits_for(name)

    def round(self, wait: float) -> None:
        """Looks after everything once, and then for ``wait`` s, or until it is woken."""
        until, left = time.monotonic() + wait, 0.0
        while left >= 0.0:
            self._loop.round(left)
            left = -1.0 if self._woken else until - time.monotonic()
        self._woken = False
        for name, one in self._kept.items():
            self._printed.look(name)
            if one.twin["state"] == "offline" and one.twin.get("why") != one.said:
                one.said = one.twin.get("why", "")
                limited_log(f"offline {name}", f"{name} is offline: {one.said}")
            elif one.twin["state"] == "online" and one.said:
                log.info("%s is online again", name)
                one.said = ""

    def want(self, devices: Mapping[str, Device], desired: Mapping[str, Mapping[str, Any]],
             before: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Sets the devices and the values that are wanted from now on.

        Args:
            devices: by name.
            desired: values by device and property, checked already.
            before: twins of an earlier process, by device.
        """
        now, kept = time.monotonic(), {}
        for name, device in devices.items():
            known = self._kept.get(name)
            if known is None or known.device != device:
                known = Kept(device, (before or {}).get(name, {}) if known is None else known.twin, now)
            kept[name] = known
            if known.desired != desired.get(name, {}):
                known.desired = dict(desired.get(name, {}))
                if isinstance(talk := self._talk(name), Talk):
                    talk.say(_line(desired=known.desired))
        for name in self._kept.keys() - kept.keys():
            self._printed.forget(name)
        self._kept = kept
        self._loop.want(self._workload(device) for device in devices.values())

    def _talk(self, name: str) -> Any:
        return self._loop.watching(name) if name in self._loop.names else None

    def _workload(self, device: Device) -> Workload:
        about = _line(device=device.name, spec=device.spec,
                      model={name: asdict(one.property) for name, one in device.properties.items()}, **self._around)
        return Workload(device.name, (sys.executable, "-m", "brain_edge.devices.process", device.name),
                        restart=RESTART, grace=LEAVING, channel=True,
                        probe=Lines(self._hear, device.patience, about))

    def _event(self, event: Event) -> None:
        one = self._kept.get(event.name)
        if one is None:
            return
        now = time.monotonic()
        if event.kind == "started":
            one.heard, one.progress = now, -1
            self._talk(event.name).say(_line(twin=one.twin, desired=one.desired))
        elif event.kind == "ended":
            one.lose(_ended(self._loop.fault(event.name)), now)

    def _hear(self, name: str, line: bytes) -> bool:
        one = self._kept.get(name)
        try:
            return one is not None and one.take(line, time.monotonic())
        except (FormProblem, values.Misfit) as problem:
            raise Lie(f"it said what no driver says: {problem}") from None


def _line(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _ended(fault: str) -> str:
    """Says of a driver why its process has ended."""
    verb = "is " if fault.startswith(("hung", "lying")) else "was " if fault.startswith("killed") else ""
    return f"its driver {verb}{fault}"

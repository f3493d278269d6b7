# SPDX-License-Identifier: Apache-2.0
"""The mapper: one thread that keeps the drivers of all devices, and their twins."""
from __future__ import annotations

import logging
import math
import os
import selectors
import threading
import time
from typing import Any, Callable, Mapping

from brain_fleet.devices.driver import Around
from brain_fleet.devices.models import Device
from brain_fleet.devices.supervised import LEAVING, Lie, Supervised
from brain_fleet.devices.twin import Twin
from brain_wire import safe_text
from brain_wire.rate_limited_log import RateLimitedLog

LOOK = 0.25         # s between two looks at what time alone brings about
TELL = 0.05         # s between two times that twins are told, however much is said
HELD_UP = 30.0      # s without a turn, after which what is believed counts no more

log = logging.getLogger("brain.devices")
limited_log = RateLimitedLog(log)
Fresh = Callable[[Device, str, Mapping[str, Any], float], None]


class _Kept:
    """A device that is wanted: its driver, its twin, and what is being written."""

    def __init__(self, device: Device, around: Around, now: float) -> None:
        self.device, self.driver, self.twin = device, Supervised(device, around), Twin(device, now)
        self.said = ""      # why it was offline last, which is logged once


class Mapper:
    """Keeps devices as they are wanted, whatever their drivers do.

    Args:
        router, namespace: of the brain.
        files: those that orders may name; None: the devices are no order's, see :class:`Around`.
        fresh: called at each good value, in the mapper's thread: with the device, the property, all that is fresh of
            the device, and the steady time of the value (s). It must not block.
        changed: called when a twin may have changed, in the mapper's thread.
    """

    def __init__(self, router: str | None, namespace: str, *, files: Mapping[str, Any] | None, fresh: Fresh,
                 changed: Callable[[], None] = lambda: None) -> None:
        self._router, self._namespace, self._files = router, namespace, files
        self._fresh, self._changed = fresh, changed
        self._lock = threading.Lock()
        self._wanted: tuple[Mapping[str, Device], Mapping[str, Mapping[str, Any]], Mapping[str, Any]] | None = None
        self._twins: dict[str, dict[str, Any]] = {}
        self._waits: dict[tuple[str, str], tuple[Any, str | None]] = {}
        self._refused: dict[str, str] = {}
        self._kept: dict[str, _Kept] = {}
        self._leaving: dict[str, tuple[Supervised, float]] = {}     # what was told to end, and until when it may
        self._selector = selectors.DefaultSelector()
        self._pipes: dict[int, Any] = {}    # those that it looks at, by number
        self._mouth: int | None
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._mouth, False)
        os.set_blocking(self._ear, False)
        self._stopping = False
        self._turned = time.monotonic()
        self._told = 0.0
        self._thread = threading.Thread(target=self._run, name="devices", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends all drivers, and then returns. May be called twice."""
        self._stopping = True
        self._wake()
        self._thread.join(LEAVING + 5.0)

    def want(self, devices: Mapping[str, Device], desired: Mapping[str, Mapping[str, Any]],
             before: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Sets the devices and the values that are wanted from now on.

        Args:
            devices: by name.
            desired: values by device and property, checked already.
            before: twins of an earlier process, by device.
        """
        with self._lock:
            self._wanted = devices, desired, before or {}
        self._wake()

    def twins(self) -> dict[str, dict[str, Any]]:
        """The twins by device, as they are told."""
        with self._lock:
            return self._twins

    def waits(self, device: str, name: str, value: Any) -> str | None:
        """Returns why a property is not as desired; None where it is."""
        with self._lock:
            found = self._waits.get((device, name))
        if found is None or found[0] != value or type(found[0]) is not type(value):
            return "it is to be written"
        return found[1]

    @property
    def turns(self) -> bool:
        """True while devices are looked after: otherwise what is believed of them is of the past."""
        return not self._kept or time.monotonic() - self._turned < HELD_UP

    def refused(self, device: str) -> str | None:
        """Returns why a driver refuses a device as it is described; None where it does not."""
        with self._lock:
            return self._refused.get(device)

    def _wake(self) -> None:
        with self._lock:
            try:
                if self._mouth is not None:
                    os.write(self._mouth, b"!")
            except BlockingIOError:
                return      # it is woken already

    def _run(self) -> None:
        self._selector.register(self._ear, selectors.EVENT_READ)
        while not self._stopping:
            try:
                self._turn()
            except Exception:   # whatever one driver brings about, the others go on
                limited_log("turn", "the devices could not be looked after", trace=True, level=logging.ERROR)
                time.sleep(LOOK)
        self._end()

    def _turn(self) -> None:
        now = time.monotonic()
        nearest = min((one.driver.due() for name, one in self._kept.items() if name not in self._leaving),
                      default=math.inf)
        pause = LOOK if self._kept or self._leaving else 60.0
        if self._selector.select(max(0.0, min(pause, nearest - now))):
            try:
                os.read(self._ear, 1000)
            except BlockingIOError:
                pass    # a driver has said something, and nobody has woken this thread
        now = time.monotonic()
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._take_on(*wanted, now)
        for name, (driver, until) in list(self._leaving.items()):
            if driver.left(now, until):
                del self._leaving[name]
        for one in list(self._kept.values()):
            self._look_after(one, now)
        self._listen()
        if now - self._told >= TELL:    # what is not told now is told in the next turn but one
            self._told = now
            self._tell()
        self._turned = now

    def _take_on(self, devices: Mapping[str, Device], desired: Mapping[str, Mapping[str, Any]],
                 before: Mapping[str, Mapping[str, Any]], now: float) -> None:
        gone = [one for name, one in self._kept.items() if devices.get(name) != one.device]
        for one in gone:
            name = one.device.name
            del self._kept[name]
            if name in self._leaving:       # it has not begun anything yet, for it waits for the one before
                continue
            one.driver.leave()
            self._leaving[name] = one.driver, now + LEAVING
        for name, device in devices.items():
            if name not in self._kept:
                around = Around(name, self._router, self._namespace, self._files)
                self._kept[name] = _Kept(device, around, now)
                self._kept[name].twin.remember(before.get(name, {}), now)
            self._kept[name].twin.want(desired.get(name, {}))

    def _look_after(self, one: _Kept, now: float) -> None:
        driver, twin = one.driver, one.twin
        try:
            if driver.running:
                said, ended = driver.hear(now)
                for line in said:
                    self._hear(one, line, now)
                ended = ended or driver.hung(now)
                if ended is not None:
                    self._lose(one, driver.refused or ended, now)
            elif now >= driver.due() and one.device.name not in self._leaving:
                self._starts(one, now)
            twin.look(now)
            if twin.state == "online":
                for name, kept in twin.properties.items():
                    raw = kept.to_write(now)
                    if raw is not None:
                        driver.send(name=name, value=raw)
        except Lie as lie:
            self._lose(one, f"its driver lies: {lie}", now)
        except Exception as error:  # nothing that one driver brings about may reach the others
            limited_log(f"trouble {one.device.name}", f"{one.device.name} brings trouble", trace=True,
                        level=logging.ERROR)
            self._lose(one, f"its driver says what cannot be dealt with ({type(error).__name__})", now)

    def _starts(self, one: _Kept, now: float) -> None:
        why = one.driver.start(now)
        if why is not None:
            one.twin.become("offline", why, now)
        elif one.twin.state != "offline":   # what died stays offline until its device answers
            one.twin.become("starting", "", now)

    def _hear(self, one: _Kept, line: Mapping[str, Any], now: float) -> None:
        twin, says = one.twin, line["say"]
        if says == "online":
            twin.become("online", "", now)
            if one.said:
                log.info("%s is online again", one.device.name)
                one.said = ""
            return
        if says == "offline":
            self._says_offline(one, safe_text.line(line["why"], 300), now)
            return
        if "name" not in line:
            return
        kept = twin.properties.get(line["name"])
        if kept is None:
            raise Lie("it speaks of a property that it was not asked for")
        if says in ("value", "failed") and twin.state != "online":
            raise Lie("it has read something of a device that is not online")
        if says == "value":
            if kept.take(line["value"], float(line["at"]), line["unit"], line["kept"], now):
                self._fresh(one.device, line["name"], twin.fresh(), kept.at or now)
        elif says == "failed":
            kept.become("invalid", safe_text.line(line["why"], 300), now)
        elif says == "unwritten":
            kept.trouble = f"it cannot be written: {safe_text.line(line['why'], 250)}"
        elif says == "written":
            kept.trouble = ""

    def _lose(self, one: _Kept, why: str, now: float) -> None:
        one.driver.end(now)
        self._says_offline(one, why, now)

    def _says_offline(self, one: _Kept, why: str, now: float) -> None:
        one.twin.become("offline", why[:300], now)
        if why != one.said:
            one.said = why
            limited_log(f"offline {one.device.name}", f"{one.device.name} is offline: {why}")

    def _listen(self) -> None:
        """Has the selector look at the pipes of the processes that run now."""
        wanted = {pipe.fileno(): pipe for one in self._kept.values() for pipe in one.driver.pipes()}
        for number, pipe in list(self._pipes.items()):
            if wanted.get(number) is not pipe:      # closed; another may have its number by now
                self._selector.unregister(number)
                del self._pipes[number]
        for number, pipe in wanted.items():
            if number not in self._pipes:
                self._selector.register(number, selectors.EVENT_READ)
                self._pipes[number] = pipe

    def _tell(self) -> None:
        twins = {name: one.twin.to_dict() for name, one in self._kept.items()}
        waits = {(device, name): (kept.desired, None if kept.done else kept.waits())
                 for device, one in self._kept.items() for name, kept in one.twin.properties.items()
                 if kept.desired is not None}
        refused = {name: one.driver.refused for name, one in self._kept.items() if one.driver.refused is not None}
        with self._lock:
            changed = (twins, waits, refused) != (self._twins, self._waits, self._refused)
            self._twins, self._waits, self._refused = twins, waits, refused
        if changed:
            self._changed()

    def _end(self) -> None:
        ending = [driver for driver, _ in self._leaving.values()]
        for one in self._kept.values():
            one.driver.leave()
            ending.append(one.driver)
        until = time.monotonic() + LEAVING
        while ending := [driver for driver in ending if not driver.left(time.monotonic(), until)]:
            time.sleep(0.02)
        self._selector.close()
        with self._lock:
            mouth, self._mouth = self._mouth, None
        for end in (self._ear, mouth):
            if end is not None:
                os.close(end)

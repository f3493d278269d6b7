# SPDX-License-Identifier: Apache-2.0
"""The twin of a device: what is believed of it, and what is wanted. It computes; who asks knows the time."""
from __future__ import annotations

import math
import time
from datetime import datetime, timezone
from typing import Any, Mapping

from brain_edge.devices import values
from brain_edge.devices.models import Device, Mapped
from brain_wire.backoff import Backoff

OLDEST = 86400.0    # s; nothing that comes just now is older
AGAIN = Backoff(first=1.0, most=60.0)   # until a desired value is written again


def date(steady: float) -> str:
    """The date (UTC) of a steady time, by this machine's clock: for people only."""
    when = datetime.fromtimestamp(time.time() - (time.monotonic() - steady), timezone.utc)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class PropertyTwin:
    """Twin of one property: its last good value, and the value that is desired.

    Attributes:
        state: see :data:`brain_edge.devices.twin_form.STATES`.
        why: of any state but ``ok``.
        value: the last good value; None before the first.
        at: when it was read (steady, s); None where that was by an earlier process.
        desired: None: nothing is wanted of it.
    """

    def __init__(self, mapped: Mapped, now: float) -> None:
        self.mapped = mapped
        self.state, self.why = "unknown", "nothing was read yet"
        self.value: Any = None
        self.at: float | None = None
        self.desired: Any = None
        self.trouble = ""           # of the last attempt to write
        self._since = date(now)
        self._at = ""
        self._again, self._tries = -math.inf, 0

    def remember(self, told: Mapping[str, Any], now: float) -> None:
        """Takes over the last good value of what was told by an earlier process: old, however old that is."""
        try:
            self.value, self._at = values.fitted(self.mapped.property, told["value"]), str(told["at"])
        except (KeyError, values.Misfit):
            return
        self.become("stale", "it is the last from before this process began", now)

    def become(self, state: str, why: str, now: float) -> None:
        """Takes a state on; the date is that of the change."""
        if state != self.state:
            self._since = date(now)
        self.state, self.why = state, why

    def take(self, raw: Any, at: float, unit: str | None, kept: bool, now: float) -> bool:
        """Takes in what a driver read; whether it is a good and fresh value."""
        at = min(max(at, now - OLDEST), now)
        known = self.mapped.property
        if unit is not None and unit != known.unit:
            self.become("invalid", f"it came with the unit {values.shown(unit)[:60]}, and the model's is "
                                   f"{values.shown(known.unit)}", now)
            return False
        try:
            value = values.read(self.mapped, raw)
        except values.Misfit as problem:
            self.become("out of limits" if problem.limits else "invalid", str(problem)[:300], now)
            return False
        if self.at is not None and at < self.at:
            return False
        self.value, self.at, self._at = value, at, date(at)
        if kept:
            self.become("stale", "it is the last that something kept, of unknown age", now)
            return False
        if now - at > self.mapped.fresh_for:
            self.become("stale", "it was on its way for too long", now)
            return False
        self.become("ok", "", now)
        return True

    def look(self, now: float) -> None:
        """A value becomes old by itself."""
        if self.state == "ok" and self.at is not None and now - self.at > self.mapped.fresh_for:
            self.become("stale", f"no value came for {self.mapped.fresh_for:g} s", now)

    def want(self, desired: Any) -> None:
        """Something is wanted of it, or (None) nothing more."""
        if desired != self.desired or type(desired) is not type(self.desired):
            self.desired, self.trouble = desired, ""
            self._again, self._tries = -math.inf, 0

    @property
    def known(self) -> bool:
        """True where there is a last good value."""
        return bool(self._at)

    @property
    def done(self) -> bool:
        """True where the device has said, freshly, that it is as desired."""
        return self.state == "ok" and self.desired is not None and values.same(self.mapped, self.value, self.desired)

    def to_write(self, now: float) -> Any:
        """The raw value that is to be written now; None: none."""
        if self.desired is None or now < self._again:
            return None
        if self.done:
            self._tries, self.trouble = 0, ""
            return None
        self._tries += 1
        self._again = now + AGAIN.delay(self._tries)
        return values.written(self.mapped, self.desired)

    def waits(self) -> str:
        """Returns why it is not as desired, where it is not."""
        if self.state in ("offline", "unknown"):
            return f"it is {self.state}: {self.why}"
        if self.trouble:
            return self.trouble
        if self._tries == 0:
            return "it is to be written"
        if self.state != "ok":
            return f"it was written, and what the device says is {self.state}"
        return "it was written, and the device says another value"

    def to_dict(self) -> dict[str, Any]:
        """As it is told."""
        found: dict[str, Any] = {"state": self.state, "since": self._since}
        if self.why:
            found["why"] = self.why[:300]
        if self._at:
            found |= {"value": self.value, "at": self._at}
        if self.desired is not None:
            found["desired"] = self.desired
        if self.mapped.property.unit:
            found["unit"] = self.mapped.property.unit
        return found


class Twin:
    """Twin of one device: its state, and a twin of each property.

    Attributes:
        state: online, starting or offline.
    """

    def __init__(self, device: Device, now: float) -> None:
        self.device = device
        self.properties = {name: PropertyTwin(mapped, now) for name, mapped in device.properties.items()}
        self.state, self.why, self._since = "starting", "", date(now)

    def become(self, state: str, why: str, now: float) -> None:
        """Takes a state on; what is not online has no property that is fresh."""
        if state != self.state:
            self._since = date(now)
        self.state, self.why = state, why
        if state == "offline":
            for one in self.properties.values():
                one.become("offline", why, now)
        elif state == "online":
            for one in self.properties.values():
                if one.state == "offline":
                    one.become("stale" if one.known else "unknown", "nothing was read since it is back", now)

    def remember(self, told: Mapping[str, Any], now: float) -> None:
        """Takes over the last good values of what was told of this device by an earlier process."""
        for name, about in told.get("properties", {}).items():
            if name in self.properties:
                self.properties[name].remember(about, now)

    def want(self, desired: Mapping[str, Any]) -> None:
        """Sets the desired values of its properties; of the others nothing is desired."""
        for name, one in self.properties.items():
            one.want(desired.get(name))

    def look(self, now: float) -> None:
        """Time has passed."""
        for one in self.properties.values():
            one.look(now)

    def fresh(self) -> dict[str, Any]:
        """Good and fresh values by property."""
        return {name: one.value for name, one in self.properties.items() if one.state == "ok"}

    def waits(self) -> dict[str, str]:
        """Returns why properties are not as desired, by name."""
        return {name: one.waits() for name, one in self.properties.items() if one.desired is not None and not one.done}

    def to_dict(self) -> dict[str, Any]:
        """As it is told: see :mod:`brain_edge.devices.twin_form`."""
        found: dict[str, Any] = {"state": self.state, "since": self._since,
                                 "properties": {name: one.to_dict() for name, one in self.properties.items()}}
        if self.why:
            found["why"] = self.why[:300]
        return found

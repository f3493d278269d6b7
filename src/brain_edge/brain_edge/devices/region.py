# SPDX-License-Identifier: Apache-2.0
"""A device as a region: its driver is read and written to in steps, its ports and parameters come from its model."""
from __future__ import annotations

import dataclasses
import logging
import math
import threading
import time
from typing import Any, Callable, Mapping

import numpy as np

from brain_edge.devices import values
from brain_edge.devices.driver import Driver, Sample, Teller, Unreachable
from brain_edge.devices.features import FEATURES, features_of, value_message
from brain_edge.devices.models import Device, node_name
from brain_edge.devices.twin import Twin
from brain_edge.schema import FormProblem
from brain_runtime.contract.inbox import Inbox
from brain_runtime.contract.ports import Out
from brain_runtime.contract.region import Outbox, Region, State
from brain_wire import messages, safe_text
from brain_wire.backoff import Backoff
from brain_wire.parameters import ParameterError, parameter
from brain_wire.rate_limited_log import RateLimitedLog

ALIVE = 1.0             # s after which a step comes to its end though more is due: between steps it is written to
LOOK = 1.0              # s between two looks at whether the device is there
SLOWEST, FASTEST = 10.0, 100.0  # steps a second
AGAIN = Backoff(first=0.5, most=30.0)   # until a device that was gone is tried again
LONGEST = 1000          # characters of a text that is looked into
HOSTS = ("energy_budget", "use_sim_time")   # parameters of every node, whose names no property can have there

limited_log = RateLimitedLog(logging.getLogger("brain.devices"))


def topics(device: Device) -> dict[str, str]:
    """Topics of a device's ports by other names, where its properties ask for them."""
    return {_own_topic(device, name): mapped.topic.name for name, mapped in device.properties.items()
            if mapped.topic is not None}


def ports(device: Device) -> dict[str, Out]:
    """Ports that a device publishes: of the properties that have a topic, by name, and of its features."""
    found = {f"property {name}": Out(_own_topic(device, name), mapped.topic.type)
             for name, mapped in device.properties.items() if mapped.topic is not None}
    return found if device.features is None else {**found, "features": FEATURES}


def _own_topic(device: Device, name: str) -> str:
    return f"devices/{device.name.replace('-', '_')}/{name}"


def parameters_of(device: Device) -> type:
    """Parameters of a device: what is wanted of each property that can be set.

    One that was never set has the value in its limits that is next to 0, which is not written.
    """
    fields = []
    for name, mapped in device.properties.items():
        known = mapped.property
        if not known.writable or name in HOSTS:
            continue
        low, high = (None if math.isinf(limit) else limit for limit in (known.minimum, known.maximum))
        near = min(max(0.0, known.minimum), known.maximum)
        default = {"boolean": False, "string": "", "integer": math.ceil(near) if near > 0 else math.floor(near),
                   "float": float(near)}[known.type]
        fields.append((name, type(default), parameter(default, f"wanted {name} of {device.name}", unit=known.unit,
                                                      low=low, high=high)))
    return dataclasses.make_dataclass("Parameters", fields, frozen=True)


class DeviceRegion(Region):
    """A device.

    Its times are those of the steady clock, by which drivers report from threads of their own, whatever its host is.

    Args:
        device: see there.
        make: makes its driver.
        visitors: by property, as the driver takes them.

    Attributes:
        twin: what is believed of the device; to be looked at with ``lock``.
        refused: why the device cannot be meant so, as only what was opened shows.
        progress: grows whenever the driver has come back.
        rests: nothing is asked of the driver, since the region is not active.
    """

    Parameters: type    # type: ignore[misc]    # of the device
    rate: float         # type: ignore[misc]    # as the shortest of its periods needs it
    _driver: Driver | None = None

    def __init__(self, device: Device, make: Callable[[], Driver], visitors: Mapping[str, Mapping[str, Any]]) -> None:
        self.device, self._make, self._visitors = device, make, visitors
        self.Parameters = parameters_of(device)
        super().__init__(node_name(device.name))
        self._outputs = ports(device)
        shortest = min(mapped.period for mapped in device.properties.values())
        self.rate = min(FASTEST, max(SLOWEST, 2.0 / shortest))
        self.lock = threading.RLock()
        self.twin = Twin(device, time.monotonic())
        self.refused: str | None = None
        self.progress, self.rests = 0, True
        self._due = dict.fromkeys(device.properties, 0.0)
        self._told = Teller(device.properties)
        self._tries, self._look_at, self._open_at = 0, 0.0, 0.0
        self._news: dict[str, float] = {}   # properties that have a new good value, and when that was read

    def publishes(self) -> dict[str, Out]:
        """See the base."""
        return self._outputs

    # -- what is wanted ----------------------------------------------------------------------------------------------

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """See the base. What is given and is not as it was before is wanted."""
        before = self.parameters
        super().configure(parameters)
        for name, value in vars(self.parameters).items():
            if value != getattr(before, name):
                self._want(name, value)

    def on_parameter(self, name: str, value: Any) -> None:
        """See the base."""
        super().on_parameter(name, value)
        self._want(name, getattr(self.parameters, name))

    def _want(self, name: str, value: Any) -> None:
        try:
            wanted = values.settable(self.device, name, value)
        except values.Misfit as problem:
            raise ParameterError(str(problem)) from None
        with self.lock:
            self.twin.properties[name].want(wanted)

    def want(self, desired: Mapping[str, Any]) -> None:
        """Sets the desired values, which were checked, and with them the parameters; of others nothing is desired."""
        with self.lock:
            self.twin.want(desired)
            self.parameters = dataclasses.replace(self.parameters, **{
                name: value for name, value in desired.items() if hasattr(self.parameters, name)})

    # -- steps -------------------------------------------------------------------------------------------------------

    def step(self, inbox: Inbox, state: State, dt: float, rng: np.random.Generator) -> tuple[Outbox, State]:
        """See the base."""
        began = time.monotonic()
        try:
            if self._driver is None and began >= self._open_at:
                self._open()
            if self._driver is not None:
                if self._told.why_gone is not None:
                    raise Unreachable(self._told.why_gone)
                self._write(self._driver)
                self._turn(self._driver, began)
        except FormProblem as problem:
            self.refused = str(problem)
            raise
        except Unreachable as problem:
            self._lose(self._told.why_gone or str(problem) or "it is gone")
        self.progress += 1
        self.trouble = "" if self.twin.state == "online" else f"{self.twin.state}: {self.twin.why}"
        return self._said(), state

    def activate(self) -> None:
        """See the base."""
        self.rests, self._open_at = False, 0.0

    def deactivate(self) -> None:
        """Lets go of the device."""
        self.rests = True
        self._close()
        with self.lock:
            self.twin.become("offline", "it was deactivated", time.monotonic())

    def _open(self) -> None:
        self._told = Teller(self._visitors)   # what an earlier connection still tells is nobody's
        try:
            self._driver = self._make()
            self._driver.open(self._told)
        except FormProblem:
            raise
        except Exception as error:
            raise Unreachable(why_of(error)) from error
        self._tries, self._look_at = 0, 0.0
        with self.lock:
            self.twin.become("online", "", time.monotonic())

    def _turn(self, driver: Driver, began: float) -> None:
        if began >= self._look_at:
            self._look_at = began + LOOK
            driver.look()
        if not driver.polls:
            for name, at, value, why in self._told.take(lambda name: self._due[name] <= began):
                self._take(name, value, at, why)
            return
        for name in sorted(self._due, key=lambda name: self._due[name]):    # whose turn came first
            if self._due[name] > began:
                return
            at = time.monotonic()
            try:
                value, why = driver.read(self._visitors[name]), None
            except Unreachable:
                raise
            except Exception as error:      # this property cannot be read; the next may
                value, why = None, why_of(error)
            self._take(name, value, at, why)
            if time.monotonic() - began >= ALIVE:
                return

    def _take(self, name: str, value: Any, at: float, why: str | None) -> None:
        self.progress += 1
        self._due[name] = max(self._due[name] + self.device.properties[name].period, at)
        sample = value if isinstance(value, Sample) else Sample(value)
        why = why or _unsayable(sample.value)
        with self.lock:
            kept, now = self.twin.properties[name], time.monotonic()
            if why is not None:
                kept.become("invalid", safe_text.line(why, 300), now)
            elif kept.take(sample.value, at, None if sample.unit is None else str(sample.unit), bool(sample.kept), now):
                self._news[name] = at

    def _write(self, driver: Driver) -> None:
        for name, kept in self.twin.properties.items():
            with self.lock:
                raw = kept.to_write(time.monotonic())
            if raw is None:
                continue
            trouble = ""
            try:
                driver.write(self._visitors[name], raw)
            except Unreachable:
                kept.trouble = "it cannot be written: the device went away while it was written to"
                raise
            except FormProblem:
                raise
            except Exception as error:
                trouble = f"it cannot be written: {safe_text.line(why_of(error), 250)}"
            with self.lock:
                kept.trouble = trouble
            if not trouble:
                self._due[name] = 0.0   # what it is now, at once
            self.progress += 1

    def _lose(self, why: str) -> None:
        self._close()
        self._tries += 1
        now = time.monotonic()
        self._open_at = now + AGAIN.delay(self._tries)
        with self.lock:
            self.twin.become("offline", safe_text.line(why, 300), now)

    def _close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            try:
                driver.close()
            except Exception as error:
                limited_log("close", f"the driver could not be closed: {why_of(error)}")

    # -- what is said ------------------------------------------------------------------------------------------------

    def _said(self) -> dict[str, Any]:
        with self.lock:
            news, self._news = self._news, {}
            fresh = self.twin.fresh()
        found = {}
        for name, at in news.items():
            port, topic = f"property {name}", self.device.properties[name].topic
            if topic is None or name not in fresh:
                continue
            try:
                found[port] = value_message(topic.type, topic.field, fresh[name], at)
            except messages.MessageError as problem:
                limited_log(topic.name, f"{name} of {self.device.name} is not published: {problem}")
        features = self.device.features
        if news and features is not None and any(patch.property in fresh for patch in features.patches):
            found["features"] = features_of(self.device, features, fresh, max(news.values()))
        return found


def _unsayable(value: Any) -> str | None:
    """Returns why a value is none of any property; None where it may be one."""
    if isinstance(value, (bool, int, float)):
        return None
    if isinstance(value, str):
        return None if len(value) <= LONGEST else f"it gave a string of {len(value)} characters"
    return f"it gave a {type(value).__name__}, which is neither boolean, number nor string"


def why_of(error: Exception) -> str:
    """Fault that an error of a driver tells of, in a line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, (Unreachable, ValueError, OSError, ImportError)) or " " in text else (
        f"{type(error).__name__}: {text}")

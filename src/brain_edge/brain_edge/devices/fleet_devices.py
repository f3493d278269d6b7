# SPDX-License-Identifier: Apache-2.0
"""Joins devices to the state of the fleet: keeps those that are wanted of this robot, and reports their twins.

What is wanted is in the robot's database, so that a robot that starts without its cloud has its devices as it was last
told. Where no device is wanted there is neither a manager nor anything of what that needs.
"""
from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any, Callable, Mapping

from brain_edge.messages.outbox import OutboxFull
from brain_edge.state.desired_state import DesiredState, Wanted
from brain_edge.state.kinds import DEVICES
from brain_edge.state.worker import Worker
from brain_edge.store import StoreProblem
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.wakeup import Flag

if TYPE_CHECKING:
    from brain_edge.devices.device_manager import DeviceManager
    from brain_edge.devices.files import Described

LOOK = 1.0          # s between two looks at what is to be reported
PATIENCE = 10.0     # s that all drivers have to end
AGAIN = 30.0        # s after which values are reported though none has changed, so that their date is one of now
LARGEST = 200_000   # bytes of a twin that is reported

log = logging.getLogger("brain.devices")
limited_log = RateLimitedLog(log)


class FleetDevices(Worker):
    """One thread that keeps a robot's devices.

    Args:
        held: what is wanted.
        router, namespace: of the brain.
        files: that the robot's owner has named for devices.
        reported: called when something was reported.
        stop: ends it.
    """

    def __init__(self, held: DesiredState, router: str | None, namespace: str, files: Mapping[str, Any],
                 reported: Callable[[], None], stop: Flag) -> None:
        super().__init__("devices", LOOK, PATIENCE, limited_log, held, reported, stop)
        self._router, self._namespace, self._files = router, namespace, files
        self._manager: DeviceManager | None = None
        self._last: list[Wanted] = []
        self._described: Described | None = None
        self._told: dict[str, tuple[float, str, str]] = {}  # by device: when it was reported, its states, all of it

    def wake(self) -> None:
        """See the base."""
        super().wake()
        if self._manager is not None:
            self._manager.wake()

    def _pause(self) -> None:
        if self._manager is None:
            super()._pause()
            return
        try:
            self._manager.round(LOOK)
        except Exception:   # whatever one driver brings about, the others go on
            limited_log("round", "the devices could not be looked after", trace=True, level=logging.ERROR)
            super()._pause()

    def _end(self) -> None:
        if self._manager is not None:
            self._manager.stop()

    def _look(self) -> None:
        wanted = [one for one in self._held.wanted() if one.kind in DEVICES]
        if wanted != self._last:
            self._take_on(wanted)
            self._last = wanted
        for one in wanted:
            try:
                self._look_at(one)
            except (StoreProblem, OutboxFull):
                raise       # so it will be of the others
            except Exception:
                limited_log(f"report {one.name}", f"{one.kind} {one.name} cannot be reported", trace=True,
                            level=logging.ERROR)

    def _take_on(self, wanted: list[Wanted]) -> None:
        from brain_edge.devices.files import described

        found = self._described = described([(one.kind, one.name, one.spec) for one in wanted])
        before: dict[str, Any] = {}
        if self._manager is None:
            if not found.devices:
                return
            before = {one.name: (self._held.reported(one) or {}).get("twin", {})
                      for one in wanted if one.kind == "Device"}
            from brain_edge.devices.device_manager import DeviceManager

            self._manager = DeviceManager(self._router, self._namespace, files=self._files)
        self._manager.want(found.devices, found.desired, before)
        log.info("devices that are wanted: %s", ", ".join(found.devices) or "none")

    def _look_at(self, one: Wanted) -> None:
        status = self.status(one)
        due = self._due(one, status) if one.kind == "Device" else None
        if one.kind == "Device" and due is None:
            return
        self._report(one, status)
        if due is not None:     # not before: what could not be written is due again
            self._told[one.name] = due

    def status(self, one: Wanted) -> dict[str, Any]:
        """Returns the status of a resource, as it is reported."""
        found, manager, key = self._described, self._manager, (one.kind, one.name)
        assert found is not None
        if key in found.problems:
            return {"state": "refused", "why": found.problems[key][:500]}
        if key in found.waiting:
            return {"state": "waiting", "why": found.waiting[key][:500]}
        if one.kind == "DeviceModel" or manager is None:
            return {"state": "applied"}
        if one.kind == "Device":
            status = manager.status(one.name)
            if len(json.dumps(status)) > LARGEST:
                return {"state": "applied", "why": f"its twin is larger than the {LARGEST} bytes that are reported"}
            return status
        device, wanted = found.settings[one.name]
        waits = [f"{name}: {why}" for name in wanted if (why := manager.waits(device, name)) is not None]
        return {"state": "waiting", "why": "; ".join(waits)[:500]} if waits else {"state": "applied"}

    def _due(self, one: Wanted, status: Mapping[str, Any]) -> tuple[float, str, str] | None:
        """Returns what is noted once a device is reported; None: it need not be reported now.

        States are told at once, values as often as the device says, dates seldom.
        """
        states, values = _parts(one.version, status)
        at, had_states, had_values = self._told.get(one.name, (0.0, "", ""))
        now = time.monotonic()
        if one.name in self._told and states == had_states:
            every = AGAIN if values == had_values else float(one.spec.get("report", 5.0))
            if now - at < every:
                return None
        return now, states, values


def _parts(version: int, status: Mapping[str, Any]) -> tuple[str, str]:
    """Splits a status into what is told at once and what may wait (JSON), without the dates of values."""
    twin = status.get("twin") or {"properties": {}}
    properties = twin["properties"].items()
    states = {name: [about["state"], about.get("desired")] for name, about in properties}
    values = {name: [about.get("value"), about.get("why")] for name, about in properties}
    about = [version, status["state"], status.get("why"), twin.get("state"), twin.get("why"), states]
    return json.dumps(about), json.dumps(values)

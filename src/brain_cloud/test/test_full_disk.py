# SPDX-License-Identifier: Apache-2.0
"""A robot's disk that is full, or gives errors, for a while: nothing that brings orders about ends by it."""
from __future__ import annotations

from typing import Any

import pytest

from brain_edge.devices.fleet_devices import FleetDevices
from brain_edge.messages.outbox import Outbox, OutboxFull
from brain_edge.models.fetching import Fetching
from brain_edge.models.loading import Loading
from brain_edge.models.model_cache import ModelCache
from brain_edge.processes.settings import FROM_ROBOT
from brain_edge.state.apply import Effects
from brain_edge.state.desired_state import DesiredState, Wanted
from brain_edge.store import DiskFull, Store
from brain_wire.router import free_port
from brain_wire.wakeup import Flag

DIGEST = "sha256:" + "a" * 64


def test_threads_that_bring_orders_about_outlive_a_database_that_cannot_be_read(tmp_path, until, monkeypatch):
    store, stop, broken = Store(tmp_path, "robot1"), Flag(), []
    held = DesiredState(store, Outbox(store, FROM_ROBOT))
    cache = ModelCache(store)
    fetching = Fetching("robot1", cache, lambda: None, lambda: None)
    effects = Effects(held, Loading(store, held, cache, fetching), f"tcp/127.0.0.1:{free_port()}", "/", lambda: None,
                      stop)
    read, failed = Store.read, []

    def reads(self: Store, query: str, values: Any = ()) -> list[Any]:
        if broken:
            failed.append(query)
            raise DiskFull("the disk is full")
        return read(self, query, values)

    monkeypatch.setattr(Store, "read", reads)
    broken.append(True)
    monkeypatch.setattr(cache, "path", lambda digest: reads(store, "path") and None)
    effects.start()
    fetching.want({DIGEST: "motor"})
    try:
        until(lambda: "path" in failed and len(failed) > 2)     # no brain runs, and no order can be read
        broken.clear()
        failed.clear()
        assert effects._thread.is_alive() and fetching._thread.is_alive()
    finally:
        stop.set()
        effects.join()
        fetching.close()
    assert not effects._thread.is_alive() and not fetching._thread.is_alive()      # they end when they are told to


class Brain:
    """Regions that take what they are given."""

    def __init__(self, stop: Flag) -> None:
        self.given: list[str] = []
        self._stop = stop

    def bring_about(self, one: Wanted) -> dict[str, Any]:
        self.given.append(one.name)
        self._stop.set()
        return {"state": "applied"}


class Full:
    """Models that cannot be written down."""

    def look(self, watch: Any) -> None:
        raise DiskFull("the disk is full: look")

    def prepare(self, wanted: list[Wanted]) -> dict:
        return {}

    def guarded(self) -> bool:
        return False

    def bring_about(self, *what: Any) -> dict[str, Any]:
        raise DiskFull("the disk is full: remove something")


class Orders:
    """What is wanted, and what is reported of it."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def wanted(self) -> list[Wanted]:
        return [Wanted("Model", "motor", 1, {"region": "motor", "digest": DIGEST}),
                Wanted("Parameters", "calm", 2, {"region": "pfc", "values": {"ode": 1.0}})]

    def report(self, one: Wanted, status: dict[str, Any]) -> bool:
        self.told[one.name] = status
        return True


class Watch:
    """No goals."""

    def look(self) -> None:
        pass


def test_a_full_disk_holds_up_one_order_and_none_behind_it() -> None:
    stop, orders = Flag(), Orders()
    effects = Effects(orders, Full(), None, "/", lambda: None, stop)      # type: ignore[arg-type]
    brain = Brain(stop)
    effects._keep(brain, Watch(), lambda: True)      # type: ignore[arg-type]
    assert brain.given == ["calm"] and orders.told["calm"] == {"state": "applied"}
    assert orders.told["motor"] == {"state": "waiting", "why": "the disk is full: remove something"}


def test_what_a_full_disk_keeps_of_a_device_is_reported_once_it_can_be(tmp_path, monkeypatch):
    orders, tries = Orders(), []
    device = Wanted("Device", "boiler", 1, {"model": "none", "protocol": "modbus-tcp"})

    def report(one: Wanted, status: dict[str, Any]) -> bool:
        tries.append(one.name)
        if len(tries) == 1:
            raise OutboxFull("the disk is full")
        return Orders.report(orders, one, status)

    monkeypatch.setattr(orders, "wanted", lambda: [device])
    monkeypatch.setattr(orders, "report", report)
    keeping = FleetDevices(orders, None, "/", {}, lambda: None, Flag())      # type: ignore[arg-type]
    with pytest.raises(OutboxFull):
        keeping._look()
    assert not orders.told
    keeping._look()
    assert orders.told["boiler"]["state"] in ("refused", "waiting")
    keeping._look()     # and then seldom, as nothing changes
    assert len(tries) == 2

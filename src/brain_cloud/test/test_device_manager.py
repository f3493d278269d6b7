# SPDX-License-Identifier: Apache-2.0
"""The manager: a driver that dies, hangs or lies changes nothing else, and none is left behind."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ovens import Manager, device

from brain_edge.schema import check_plain


def alive(pid):
    return Path(f"/proc/{pid}").exists()


@pytest.fixture
def manager(monkeypatch):
    """Makes one of which all drivers are ended at the end."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "programs"), prepend=os.pathsep)
    made = []

    def make(*devices, desired=None):
        made.append(Manager(None, "", files=None))
        made[0].want({one.name: one for one in devices}, desired or {})
        return made[0]

    yield make
    for one in made:
        one.stop()


@pytest.mark.slow
def test_a_driver_that_dies_hangs_or_lies_changes_nothing_else(manager, until):
    said = {name: device(name, "liars:Says", heat={"what": name}) for name in (
        "nan", "infinite", "list", "none", "text", "huge", "whole", "flag", "high", "unit", "kept")}
    others = [device(name, f"liars:{name.title()}", heat={}) for name in
              ("dies", "raises", "away", "floods", "garbles", "eats")]
    hangs = device("hangs", "liars:Hangs", patience=1, heat={})
    # One of many things that are no driver, and one that is: they are asked by whoever may run classes of their own.
    none = device("none-such", "liars:os", heat={})
    known = manager(device("well", pid={}), *said.values(), *others, hangs, none)

    def heat(name):
        about = known.twins().get(name, {"properties": {"heat": {"state": "unknown"}}})["properties"]["heat"]
        return about["state"], about.get("why", "")

    expected = {
        "nan": ("invalid", "nan is no finite number"), "infinite": ("invalid", "inf is no finite number"),
        "list": ("invalid", "it gave a list"), "none": ("invalid", "it gave a NoneType"),
        "text": ("invalid", "'2.5 or so' is no number"), "huge": ("invalid", "it gave a string of 10000000 characters"),
        "whole": ("invalid", "more than 64 bits"), "flag": ("invalid", "True is no number"),
        "high": ("out of limits", "101 degC is more than the maximum 100 degC"),
        "unit": ("invalid", "it came with the unit 'degF', and the model's is 'degC'"),
        "kept": ("stale", "of unknown age"), "raises": ("invalid", "by nothing"),
        "dies": ("offline", "its driver ended with status 7: goodbye"), "away": ("offline", "nobody is at home"),
        "floods": ("offline", "its driver is lying: it says more than 100 lines a second"),
        "garbles": ("offline", "its driver is lying: it said"),
        "eats": ("offline", "its driver ended with status 9"),
        "hangs": ("offline", "its driver is hung: it has not said a word for 1 s")}
    waiting = dict(expected)

    def all_seen():
        for name in list(waiting):
            state, why = heat(name)
            if state == waiting[name][0] and waiting[name][1] in why:
                del waiting[name]
        return not waiting

    until(all_seen, lambda: (waiting, {name: heat(name) for name in waiting}))
    assert known.twins()["hangs"]["properties"]["heat"]["value"] == 2.0     # the last good one, with its date
    assert "is no class that inherits" in until(lambda: known.twins() and known.status("none-such").get("why"))
    check_plain(known.twins())
    # All the while nothing happened to the one that is well: it is the process that it was from the first.
    well = until(lambda: known.twins()["well"]["properties"]["pid"]["state"] == "ok" and known.twins()["well"])
    pid = well["properties"]["pid"]["value"]
    assert alive(pid)
    assert known.twins()["well"]["since"] == well["since"]


def test_drivers_end_with_their_manager_and_with_their_order(manager, until):
    one, two = device("one", pid={}), device("two", pid={})
    known = manager(one, two)

    def pid(name):
        return until(lambda: known.twins().get(name, {}).get("properties", {}).get("pid", {}).get("value"))

    first, second = pid("one"), pid("two")
    known.want({"two": two}, {})
    until(lambda: set(known.twins()) == {"two"} and not alive(first))
    assert alive(second) and pid("two") == second
    known.stop()
    assert not alive(second)


def test_what_is_desired_is_written_until_the_device_has_it(manager, until):
    known = manager(device("oven", heat={"is": 20.0}, on={"is": False}),
                    device("mule", heat={"is": 20.0, "stubborn": True}),
                    desired={"oven": {"heat": 55.5, "on": True}, "mule": {"heat": 30}})
    until(lambda: known.twins() and known.waits("oven", "heat") is None and known.waits("oven", "on") is None,
          lambda: known.twins())
    heat = known.twins()["oven"]["properties"]["heat"]
    assert heat.items() >= {"value": 55.5, "desired": 55.5, "state": "ok"}.items()
    until(lambda: known.twins() and known.waits("mule", "heat") == "it was written, and the device says another value")
    oven = device("oven", heat={"is": 20.0}, on={"is": False})
    known.want({"oven": oven}, {"oven": {"heat": 1.0}})
    assert known.waits("oven", "heat") == "it is to be written"
    until(lambda: known.twins() and known.waits("oven", "heat") is None)


def test_a_manager_that_is_killed_leaves_no_driver(tmp_path, until, monkeypatch):
    path = tmp_path / "devices.yaml"
    path.write_text("""
apiVersion: fleet.brain/v1
kind: DeviceModel
metadata: {name: oven}
spec: {properties: {pid: {type: integer}}}
---
apiVersion: fleet.brain/v1
kind: Device
metadata: {name: oven}
spec: {model: oven, protocol: "liars:Well", properties: {pid: {visitor: {}}}}
""")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "programs"), prepend=os.pathsep)
    with subprocess.Popen([sys.executable, "-m", "brain", "devices", "run", path, "--json"], stdout=subprocess.PIPE,
                          text=True) as process:
        for line in process.stdout:
            found = json.loads(line)["devices"][0]["properties"].get("pid", {})
            if found.get("fresh"):
                break
        assert alive(found["value"])
        process.kill()
    until(lambda: not alive(found["value"]))

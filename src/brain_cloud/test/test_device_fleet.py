# SPDX-License-Identifier: Apache-2.0
"""Devices in a fleet: ordered by the cloud, run by the edge with it or without, and shown by both."""
from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_edge.processes.asking import NoCloud

PROGRAMS = Path(__file__).parent / "programs"


def order(kind, name, **spec):
    return {"apiVersion": "fleet.brain/v1", "kind": kind, "metadata": {"name": name, "robots": ["robot1"]},
            "spec": spec}


MODEL = order("DeviceModel", "boiler", properties={
    "heat": {"type": "float", "unit": "degC", "minimum": 0, "maximum": 90},
    "goal": {"type": "float", "unit": "degC", "minimum": 10, "maximum": 60, "access": "ReadWrite"}})


def boiler(port, **more):
    def at(address, **more):
        return {"visitor": {"register": "holding", "address": address, "type": "int16"}, "period": 0.2, **more}

    return order("Device", "boiler", model="boiler", protocol="modbus-tcp", report=1,
                 settings={"host": "127.0.0.1", "port": port, "timeout": 1.0},
                 properties={"heat": at(0, scale=0.1), "goal": at(1)}, **more)


def goal(value, device="boiler", name="warm"):
    return order("DeviceSettings", name, device=device, values={"goal": value})


def invoke(*words):
    done = CliRunner().invoke(app, ["fleet", *map(str, words)], env={"BRAIN_CLOUD": "", "COLUMNS": "200"})
    return done.exit_code, done.output


@pytest.fixture
def server(fleet, until):
    """A Modbus device that can be turned off and on."""
    pytest.importorskip("pymodbus")
    from brain_wire.router import free_port

    port, running = free_port(), []

    def begin():
        running.append(subprocess.Popen([sys.executable, PROGRAMS / "modbus_server.py", str(port)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert running[-1].stdout.readline() == "ready\n"
        return running[-1]

    begin.port = port
    yield begin
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_devices_are_ordered_and_run_with_the_cloud_and_without(fleet, server, until, tmp_path):
    def device():
        found = fleet.ask("devices")["devices"]
        return found[0] if found else {"state": "none", "properties": {}}

    def here():
        return json.loads(invoke("devices", "--json", "--folder", fleet.database("robot1"))[1])["devices"][0]

    def becomes(name, **wanted):
        return until(lambda: (found := device())["properties"].get(name, {}).items() >= wanted.items() and found,
                     lambda: (wanted, device(), fleet.said("robot1")))

    def state(kind, name):
        found = [one for one in fleet.ask("status")["resources"] if (one["kind"], one["name"]) == (kind, name)]
        return {key: found[0][key] for key in ("state", "why") if key in found[0]} if found else None

    def refused(*resources):
        with pytest.raises(NoCloud) as told:
            fleet.ask("apply", resources=list(resources))
        assert "\n" not in str(told.value)
        return str(told.value)

    process = server()
    fleet.cloud()
    fleet.edge(cut=False)
    fleet.until_robot(state="connected")
    # What the cloud can know to be wrong no robot ever hears of.
    assert refused(MODEL, boiler(server.port), goal(99)) == (
        "DeviceSettings warm: goal of boiler: 99 degC is more than the maximum 60 degC")
    assert "Device boiler: spec.settings.host is missing" in refused(MODEL, order(
        "Device", "boiler", model="boiler", protocol="modbus-tcp", properties={"heat": {"visitor": {}}}))
    assert fleet.ask("status")["resources"] == []
    fleet.ask("apply", resources=[goal(21)])
    until(lambda: state("DeviceSettings", "warm") == {"state": "waiting", "why": "there is no Device boiler here"})
    fleet.ask("apply", resources=[MODEL, boiler(server.port)])
    assert "goal of boiler: 5 degC is less than the minimum 10 degC" in refused(goal(5))
    assert "heat of boiler is ReadOnly" in refused(order("DeviceSettings", "x", device="boiler", values={"heat": 20}))
    small = json.loads(json.dumps(MODEL).replace("60", "20"))
    assert "DeviceSettings warm: goal of boiler: 21 degC is more than the maximum 20 degC" in refused(small)
    becomes("goal", state="ok", value=21.0, desired=21.0, unit="degC", fresh=True)
    becomes("heat", state="ok", value=21.5)
    until(lambda: state("DeviceSettings", "warm") == {"state": "applied"})
    assert process.stdout.readline() == "written holding 1 21\n"
    at = ("--cloud", f"tcp/localhost:{fleet.port}")
    shown = invoke("devices", *at)[1]
    assert "boiler" in shown and "21.5 degC" in shown and "(21.5" not in shown
    # Its device is off: offline, with the last value, its date, and not as one of now.
    process.kill()
    was = device()["properties"]["heat"]
    off = becomes("heat", state="offline", value=21.5, fresh=False)
    assert off["properties"]["heat"]["at"] >= was["at"] and off["state"] == "offline"
    assert "(21.5 degC)" in invoke("devices", *at)[1]
    until(lambda: state("DeviceSettings", "warm")["state"] == "waiting")
    # Without its cloud, and started again, the edge has its devices as it was last told.
    fleet.end("cloud")
    fleet.end("robot1", signal.SIGTERM)
    fleet.edge(cut=False)
    last = until(lambda: (found := here()["properties"].get("heat", {})).get("state") == "offline" and found, here)
    assert (last["value"], last["at"], last["fresh"]) == (21.5, off["properties"]["heat"]["at"], False)
    process = server()
    assert process.stdout.readline() == "written holding 1 21\n"
    until(lambda: here()["properties"].get("goal", {}).get("fresh"), here)
    assert here()["properties"]["goal"]["value"] == 21.0
    # A robot that is killed takes its drivers along, and what it said last is nothing of now.
    fleet.end("robot1")
    fleet.cloud()
    away = until(lambda: (found := device())["state"] == "away" and found, device)
    assert not any(one["fresh"] for one in away["properties"].values())
    assert "(21" in invoke("devices", *at)[1]
    # Deleted while it was away.
    fleet.ask("delete", resources=[{"kind": kind, "name": name} for kind, name in (
        ("Device", "boiler"), ("DeviceModel", "boiler"), ("DeviceSettings", "warm"))])
    fleet.edge(cut=False)
    fleet.until_robot(state="connected", waiting=0, resources={})
    assert fleet.ask("devices") == {"devices": []}
    assert "no device is ordered" in invoke("devices", *at)[1]


@pytest.mark.slow
def test_a_driver_or_a_file_that_the_robot_has_not_is_told_of(fleet, until, tmp_path):
    (tmp_path / "files.yaml").write_text("broker: {path: ~/broker.txt, hosts: [127.0.0.1]}\n")
    fleet.more["robot1"] = ["--device-files", str(tmp_path / "files.yaml")]
    fleet.cloud()
    fleet.edge(cut=False)
    fleet.until_robot(state="connected")
    odd = order("Device", "boiler", model="boiler", protocol="smoke-signals", properties={"heat": {"visitor": {}}})
    fleet.ask("apply", resources=[MODEL, odd, order("Device", "pump", model="pump", protocol="mqtt", properties={
        "heat": {"visitor": {}}}), order("Device", "valve", model="boiler", protocol="mqtt", settings={
            "host": "127.0.0.1", "username": "u", "password_file": "other"}, properties={
                "heat": {"visitor": {"topic": "a"}}})])

    def states():
        return {one["name"]: (one["state"], one.get("why", "")) for one in fleet.ask("status")["resources"]
                if one["kind"] == "Device"}

    until(lambda: states()["boiler"][0] == "refused" and states()["pump"][0] == "waiting", states)
    assert states()["boiler"][1].startswith("there is no protocol 'smoke-signals' here; there are ")
    assert states()["pump"][1] == "there is no DeviceModel pump here"
    until(lambda: "this robot has no file 'other' for devices; there are broker: see" in states()["valve"][1], states)
    odd["spec"]["protocol"] = "os:system"
    fleet.ask("apply", resources=[odd])
    until(lambda: "no order: install it on the robot" in states()["boiler"][1])


def test_a_database_of_the_edge_before_is_opened_and_its_device_runs(fleet, server, until):
    """The dump is of an edge whose drivers were no regions yet, which had set this boiler and was ended."""
    server()
    folder = fleet.database("robot1")
    folder.mkdir(mode=0o700)
    with contextlib.closing(sqlite3.connect(folder / "fleet.db")) as db:
        dump = (Path(__file__).parent / "data" / "edge_with_device.sql").read_text(encoding="utf-8")
        db.executescript(dump.replace("5020", str(server.port)))
    fleet.edge(cut=False)

    def boiler():
        return json.loads(invoke("devices", "--json", "--folder", folder)[1])["devices"][0]["properties"]

    found = until(lambda: (now := boiler()) and all(one["fresh"] for one in now.values()) and now,
                  lambda: (boiler(), fleet.said("robot1")))
    assert found["goal"].items() >= {"value": 21.0, "desired": 21.0, "state": "ok"}.items()
    assert found["heat"]["value"] == 21.5 and found["heat"]["at"] > "2026-11-29T19:14:19"


def test_an_edge_without_devices_loads_no_driver():
    code = "import sys; import brain_edge.processes.run_edge; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "brain_edge.devices.fleet_devices" in loaded
    assert not loaded & {"pymodbus", "paho", "asyncio", "brain_edge.devices.device_manager",
                         "brain_edge.devices.region"}


def test_the_process_of_a_device_loads_no_torch():
    code = ("import sys; import brain_edge.devices.process; from brain_edge.devices.protocols import OWN, find; "
            "[find(name, True) for name in OWN]; print(*sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "brain_regions", "pymodbus", "paho"} & set(done.stdout.split())

# SPDX-License-Identifier: Apache-2.0
"""The drivers that come with the package, each against a server of its protocol, and what they publish on the robot."""
from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from brain_edge.devices.device_manager import DeviceManager
from brain_edge.devices.files import read_devices
from brain_edge.state.brain import Brain, Never
from brain_runtime.interfaces import Heartbeat
from brain_wire import Node, messages, open_node, open_session
from brain_wire.qos import FEATURE, STREAM
from brain_wire.router import free_port

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def start():
    """Starts programs, which are ended at the end."""
    running = []

    def begin(*words):
        running.append(subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def ports(monkeypatch):
    """Ports and a domain of its own."""
    found = [free_port() for _ in range(2)]
    monkeypatch.setenv("ROS_DOMAIN_ID", str(found[0] % 200))
    for name in ("BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def run(tmp_path, until):
    """Runs the devices of a text; returns what looks at one property, and what waits for it to be so."""
    opened = []

    def begin(text, router=None, settings=()):
        path = tmp_path / "devices.yaml"
        path.write_text(text)
        told = read_devices(path, list(settings))
        opened.append(manager := DeviceManager(router, "", files=None))
        manager.want(told.devices, told.desired)

        def look(name, device=0):
            return manager.look()["devices"][device]["properties"].get(name, {})

        def becomes(name, device=0, **wanted):
            return until(lambda: look(name, device).items() >= wanted.items() and look(name, device),
                         lambda: (wanted, manager.look()))

        return look, becomes

    yield begin
    for manager in opened:
        manager.stop()


def listens(port):
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def model(**properties):
    return json.dumps({"apiVersion": "fleet.brain/v1", "kind": "DeviceModel", "metadata": {"name": "plant"},
                       "spec": {"properties": properties}})


def device(protocol, settings, properties, **more):
    return "\n---\n" + json.dumps({
        "apiVersion": "fleet.brain/v1", "kind": "Device", "metadata": {"name": "plant"},
        "spec": {"model": "plant", "protocol": protocol, "settings": settings, "properties": properties, **more}})


HEAT = {"type": "float", "unit": "degC", "minimum": -40, "maximum": 100}


def test_modbus_registers_are_properties(start, ports, run, until):
    pytest.importorskip("pymodbus")
    port, _ = ports

    def server():
        process = start(sys.executable, PROGRAMS / "modbus_server.py", port)
        assert process.stdout.readline() == "ready\n"
        until(lambda: listens(port))
        return process

    def says(process, *words):
        print(*words, file=process.stdin, flush=True)
        while process.stdout.readline().split() != ["changed", *map(str, words)]:
            pass

    def at(register, address, period=0.1, **more):
        scaled = {name: more.pop(name) for name in ("scale", "offset") if name in more}
        return {"visitor": {"register": register, "address": address, **more}, "period": period, **scaled}

    text = model(heat=HEAT, cold=HEAT, goal={**HEAT, "access": "ReadWrite", "maximum": 60}, door={"type": "boolean"},
                 fan={"type": "boolean", "access": "ReadWrite"}, far=HEAT, wide={"type": "float"},
                 swapped={"type": "integer"}, bit={"type": "boolean"}, lost=HEAT) + device(
        "modbus-tcp", {"host": "127.0.0.1", "port": port, "timeout": 1.0}, {
            "heat": at("holding", 0, type="int16", scale=0.1), "cold": at("input", 0, type="int16"),
            "goal": at("holding", 1, type="int16", scale=0.5, offset=-10), "door": at("discrete", 0),
            "fan": at("coil", 0), "wide": at("input", 2, type="int32", words="little"),
            "swapped": at("holding", 0, type="uint16", bytes="little"), "bit": at("input", 3, bit=2),
            "far": at("holding", 100), "lost": at("holding", 3, type="int32")})
    process = server()
    look, becomes = run(text, settings=["plant.goal=21.5", "plant.fan=true"])
    becomes("heat", state="ok", value=21.5, unit="degC", fresh=True)
    becomes("cold", state="ok", value=-10.0)
    becomes("door", state="ok", value=True)
    becomes("wide", state="ok", value=5.0 * 65536)
    becomes("swapped", state="ok", value=(215 << 8) & 65535 | 215 >> 8)
    becomes("bit", state="ok", value=True)
    becomes("far", state="invalid", why="it has no such register (illegal address)", fresh=False)
    becomes("lost", state="invalid", why="it has no such register (illegal address)")
    becomes("goal", state="ok", value=21.5, desired=21.5)       # 63 steps of 0.5, from -10
    becomes("fan", state="ok", value=True, desired=True)
    says(process, "holding", 0, 1010)
    kept = becomes("heat", state="out of limits", why="101 degC is more than the maximum 100 degC", value=21.5)
    says(process, "holding", 1, 0)      # somebody turns it by hand, and it is set again
    becomes("goal", state="ok", value=21.5)
    says(process, "silent")
    gone = becomes("heat", state="offline", value=21.5, at=kept["at"], fresh=False)
    assert "it does not answer as Modbus has it" in gone["why"]
    process.kill()
    process.wait()
    until(lambda: look("heat")["why"] == f"nobody answers Modbus at 127.0.0.1, port {port}", lambda: look("heat"))
    server()
    becomes("heat", state="ok", value=21.5)     # as it is when it begins
    assert look("heat")["at"] > kept["at"]
    becomes("goal", state="ok", value=21.5)


BROKERS = ["own"] + ["mosquitto"] * (shutil.which("mosquitto") is not None)


@pytest.mark.parametrize("broker", BROKERS)
def test_mqtt_topics_are_properties(broker, start, ports, run, until):
    paho = pytest.importorskip("paho.mqtt.client")
    port, _ = ports

    def begin():
        words = (shutil.which("mosquitto"), "-p") if broker == "mosquitto" else (
            sys.executable, PROGRAMS / "mqtt_broker.py")
        process = start(*words, port)
        until(lambda: listens(port))
        return process

    def client():
        made = paho.Client(paho.CallbackAPIVersion.VERSION2)
        made.connect("127.0.0.1", port)
        made.loop_start()
        return made

    process, heard = begin(), []
    other = client()
    other.publish("plant/old", "7", retain=True).wait_for_publish(30)
    other.on_message = lambda client, data, message: (
        heard.append((message.topic, message.payload)),
        client.publish("plant/goal", json.dumps({"is": json.loads(message.payload)["to"]})))
    other.subscribe("plant/goal/set")
    plant = model(heat=HEAT, old=HEAT, goal={**HEAT, "access": "ReadWrite"}, name={"type": "string"})
    look, becomes = run(plant + device(
        "mqtt", {"host": "127.0.0.1", "port": port, "version": "5" if broker == "mosquitto" else "3.1.1"}, {
            "heat": {"visitor": {"topic": "plant/state", "field": "sensors[1].heat", "unit_field": "sensors[1].unit"},
                     "period": 0.05},
            "name": {"visitor": {"topic": "plant/state", "field": "name"}, "period": 0.05},
            "old": {"visitor": {"topic": "plant/old"}, "period": 0.05},
            "goal": {"visitor": {"topic": "plant/goal", "field": "is", "command": "plant/goal/set",
                                 "command_field": "to"}}}), settings=["plant.goal=30"])

    def say(heat, unit="degC", **more):
        other.publish("plant/state", json.dumps({"sensors": [0, {"heat": heat, "unit": unit}], "name": "p1", **more}))

    def said(text, name, **wanted):
        """Says it until it is taken so: the subscription may be a moment later."""
        return until(lambda: (text(), look(name).items() >= wanted.items() and look(name))[1], lambda: look(name))

    becomes("old", state="stale", value=7.0, fresh=False)       # kept by the broker: nobody knows how long
    assert "unknown age" in look("old")["why"]
    said(lambda: say(21.5), "heat", state="ok", value=21.5)
    said(lambda: say(21.5), "name", state="ok", value="p1")
    becomes("goal", value=30.0, desired=30)
    assert ("plant/goal/set", b'{"to": 30.0}') in heard or ("plant/goal/set", b'{"to": 30}') in heard
    becomes("heat", state="stale", value=21.5)                  # nothing came any more
    said(lambda: say(70.7, "degF"), "heat", state="invalid", value=21.5)
    assert look("heat")["why"] == "it came with the unit 'degF', and the model's is 'degC'"
    said(lambda: say("hot"), "heat", state="invalid", why="'hot' is no number")
    said(lambda: say(float("nan")), "heat", state="invalid", why="nan is no finite number")
    said(lambda: other.publish("plant/state", b"{"), "heat", state="invalid", why="a payload came that is no JSON: '{'")
    said(lambda: other.publish("plant/state", b"\xff"), "heat", state="invalid")
    said(lambda: other.publish("plant/state", b"1" * 100_000), "heat", state="invalid",
         why="a payload of 100000 bytes came, and at most 65536 are looked into")
    said(lambda: [say(22.0) for _ in range(300)], "heat", state="ok", value=22.0)   # too many: the newest counts
    process.kill()
    process.wait()
    assert "the broker is gone" in becomes("heat", state="offline", value=22.0, fresh=False)["why"]
    other.loop_stop()
    until(lambda: "no MQTT broker at 127.0.0.1" in look("heat")["why"])
    begin()
    other = client()
    said(lambda: say(23.0), "heat", state="ok", value=23.0)
    other.loop_stop()


def test_keys_and_topics_are_properties_and_are_shown(start, ports, run, until):
    _, port = ports
    router = f"tcp/127.0.0.1:{port}"

    def begin():
        process = start(sys.executable, "-m", "brain_wire.router", "--listen", router)
        until(lambda: listens(port))
        return process

    process = begin()
    plant = model(heat=HEAT, front={"type": "float", "unit": "m", "minimum": 0, "maximum": 4})
    text = plant + device("zenoh", {}, {
        "heat": {"visitor": {"key": "plant/heat"}, "period": 0.05, "topic": {
            "type": "sensor_msgs/msg/Temperature", "field": "temperature"}},
        "front": {"visitor": {"key": "plant/front", "field": "m"}, "period": 0.05}},
        features={"modality": "sonar", "confidence": 0.9, "maps": [
            {"property": "front", "map": "hazard", "azimuth": 0, "width": 0.6, "from": 1, "to": 0}]})
    text += device("ros-topic", {}, {
        "level": {"visitor": {"topic": "tank", "type": "sensor_msgs/msg/BatteryState", "field": "cell_voltage[1]"},
                  "period": 0.05},
        "lamp": {"visitor": {"topic": "lamp/is", "type": "std_msgs/msg/Bool", "command": {
            "topic": "lamp/set", "type": "std_msgs/msg/Bool"}}, "period": 0.05}}).replace(
                '"name": "plant"', '"name": "tank"').replace('"model": "plant"', '"model": "tank"')
    text += "\n---\n" + model(level={"type": "float", "unit": "V", "maximum": 5},
                              lamp={"type": "boolean", "access": "ReadWrite"}).replace("plant", "tank")
    look, becomes = run(text, router, ["tank.lamp=true"])

    def said(text, name, number=0, **wanted):
        return until(lambda: (text(), look(name, number).items() >= wanted.items() and look(name, number))[1],
                     lambda: look(name, number))

    with open_session(router, patience=30.0) as session, open_node("others", router=router, patience=30.0) as node:
        put = session.zenoh.put
        heat = node.subscription("devices/plant/heat", "sensor_msgs/msg/Temperature")
        maps = node.subscription("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE.with_depth(10))
        battery = node.publisher("tank", "sensor_msgs/msg/BatteryState")
        lamp = node.publisher("lamp/is", "std_msgs/msg/Bool")
        order = node.subscription("lamp/set", "std_msgs/msg/Bool")
        said(lambda: put("plant/heat", "21.5"), "heat", state="ok", value=21.5)
        shown = until(lambda: (put("plant/heat", "21.5"), heat.take())[1])[0]
        message = messages.decode(shown.data, heat.type)
        assert message.temperature == 21.5 and message.header.stamp.sec > 0 and message.header.frame_id == "base_link"
        said(lambda: put("plant/front", '{"m": 0.25}'), "front", state="ok", value=0.25)
        found = until(lambda: (put("plant/front", '{"m": 0.25}'), maps.take())[1])[0]
        message = messages.decode(found.data, maps.type)
        assert message.source == "device/plant" and message.modality == "sonar"
        assert [bool(value) for value in message.hazard[:4]] == [True, True, False, False] and message.hazard[0] == 0.75
        said(lambda: put("plant/front", '{"m": 9}'), "front", state="out of limits", value=0.25, fresh=False)
        said(lambda: put("plant/heat", b"x" * 10**6), "heat", state="invalid")
        volts = messages.make("sensor_msgs/msg/BatteryState", cell_voltage=[1.0, 3.5])
        said(lambda: battery.publish(volts), "level", 1, state="ok", value=3.5)
        volts = messages.make("sensor_msgs/msg/BatteryState", cell_voltage=[1.0])
        said(lambda: battery.publish(volts), "level", 1, state="invalid", value=3.5)
        until(order.take)       # the lamp is told, and told again, until it says so
        said(lambda: lamp.publish(messages.make("std_msgs/msg/Bool", data=True)), "lamp", 1, state="ok", value=True)
    process.kill()
    process.wait()
    becomes("heat", state="offline", why="the Zenoh router is gone")
    begin()
    with open_session(router, patience=30.0) as session:
        said(lambda: session.zenoh.put("plant/heat", "20"), "heat", state="ok", value=20.0)


def test_a_device_is_a_node_whose_parameters_are_what_is_wanted_of_it(start, ports, run, until, monkeypatch):
    _, port = ports
    router = f"tcp/127.0.0.1:{port}"
    monkeypatch.setenv("PYTHONPATH", str(PROGRAMS), prepend=os.pathsep)
    well = {"visitor": {"is": 20.0}, "period": 0.1, "topic": {}}
    look, becomes = run(model(goal={**HEAT, "access": "ReadWrite", "minimum": 5}, heat=HEAT)
                        + device("liars:Well", {}, {"goal": well, "heat": well}), router)
    becomes("heat", state="ok", value=20.0)     # without a router, too
    start(sys.executable, "-m", "brain_wire.router", "--listen", router)
    with open_node("people", router=router, patience=30.0) as node:
        goals = node.subscription("devices/plant/goal", "std_msgs/msg/Float64")
        beats = node.subscription("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
        until(goals.take)
        beat = messages.decode(until(beats.take)[-1].data, beats.type)
        assert (beat.name, beat.state, beat.critical) == ("/device_plant", Heartbeat.STATE_ACTIVE, False)
        brain = Brain(node)
        assert brain.get_parameter("device_plant", "goal") == 5.0 and "desired" not in look("goal")   # nobody set it
        with pytest.raises(Never, match="goal of device_plant is 101.0, but must be between 5 and 100"):
            brain.set_parameters("device_plant", {"goal": 101.0})
        brain.set_parameters("device_plant", {"goal": 41.5})
        becomes("goal", state="ok", value=41.5, desired=41.5)
        until(lambda: messages.decode((goals.take() or until(goals.take))[-1].data, goals.type).data == 41.5)
        brain.set_active("device_plant", False)
        becomes("heat", state="offline", why="it was deactivated")
        brain.set_active("device_plant", True)
        becomes("heat", state="ok", value=20.0)


def test_in_a_secured_brain_a_device_with_keys_has_rights_of_its_own(start, ports, run, until, tmp_path, monkeypatch):
    domain, port = os.environ["ROS_DOMAIN_ID"], ports[1]
    keys, router, path = tmp_path / "keys", f"tls/localhost:{port}", tmp_path / "tank.yaml"
    text = model(level={"type": "float", "unit": "V", "maximum": 5}) + device("ros-topic", {}, {"level": {
        "visitor": {"topic": "tank", "type": "std_msgs/msg/Float64"}, "period": 0.05, "topic": {}}})
    path.write_text(text)
    subprocess.run([sys.executable, "-m", "brain", "keys", keys, "--world", "none", "--edge", "--device", path,
                    "--domain", domain], check=True, capture_output=True, timeout=400)
    assert (keys / "device_plant.json5").exists() and (keys / "device_plant_link.json5").exists()
    start(sys.executable, "-m", "brain_wire.router", "--listen", router, "--config", keys / "router.json5")
    until(lambda: listens(port))
    monkeypatch.setenv("BRAIN_SECURITY", str(keys))
    look, _ = run(text, router)
    with (open_session(router, identity="robot", patience=30.0) as driver, Node(driver, "tank_driver") as tank,
          open_session(router, identity="edge", patience=30.0) as edge, Node(edge, "edge") as node,
          open_session(router, identity="device_plant", patience=30.0) as own, Node(own, "device_plant") as stranger):
        says = tank.publisher("tank", "std_msgs/msg/Float64")
        said = lambda: says.publish(messages.make("std_msgs/msg/Float64", data=1.25))   # noqa: E731
        level = node.subscription("devices/plant/level", "std_msgs/msg/Float64")
        other = node.subscription("devices/other/level", "std_msgs/msg/Float64")
        until(lambda: (said(), look("level").get("value") == 1.25)[1], look)
        lie = stranger.publisher("devices/other/level", "std_msgs/msg/Float64")
        shown = until(lambda: (said(), lie.publish(messages.make("std_msgs/msg/Float64")), level.take())[2])[0]
        assert messages.decode(shown.data, level.type).data == 1.25
        assert Brain(node).get_parameter("device_plant", "use_sim_time") is False   # the edge may ask it
        assert other.take() == []


def test_in_a_secured_brain_devices_have_the_rights_of_the_edge(start, ports, run, until, tmp_path, monkeypatch):
    domain, port = os.environ["ROS_DOMAIN_ID"], ports[1]
    keys, router = tmp_path / "keys", f"tls/localhost:{port}"
    subprocess.run([sys.executable, "-m", "brain", "keys", keys, "--world", "none", "--edge", "--device-topic",
                    "tank", "--domain", domain], check=True, capture_output=True, timeout=400)
    start(sys.executable, "-m", "brain_wire.router", "--listen", router, "--config", keys / "router.json5")
    until(lambda: listens(port))
    monkeypatch.setenv("BRAIN_SECURITY", str(keys))
    volts = {"type": "float", "unit": "V", "maximum": 5}
    look, _ = run(model(level=volts) + device("ros-topic", {}, {"level": {
        "visitor": {"topic": "tank", "type": "std_msgs/msg/Float64"}, "period": 0.05, "topic": {}}},
        features={"modality": "tank", "maps": [{"property": "level", "map": "hazard", "from": 5, "to": 0}]}), router)
    # the driver of the tank has the edge's rights too; the prefrontal cortex hears what all sensors say
    with (open_session(router, identity="edge", patience=30.0) as driver, Node(driver, "tank_driver") as tank,
          open_session(router, identity="pfc", patience=30.0) as region, Node(region, "pfc") as pfc,
          open_node("people", router=router, patience=30.0) as people):
        says = tank.publisher("tank", "std_msgs/msg/Float64")
        said = lambda: says.publish(messages.make("std_msgs/msg/Float64", data=1.25))   # noqa: E731
        level = people.subscription("devices/plant/level", "std_msgs/msg/Float64")
        maps = pfc.subscription("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE.with_depth(10))
        until(lambda: (said(), look("level").get("value") == 1.25)[1], look)
        shown = until(lambda: (said(), level.take())[1])[0]
        assert messages.decode(shown.data, level.type).data == 1.25
        found = until(lambda: (said(), maps.take())[1])[0]
        assert messages.decode(found.data, maps.type).hazard[0] == 0.75


def extra(name):
    """What setup.cfg asks for under the name of an extra, without spaces."""
    from configparser import ConfigParser
    settings = ConfigParser()
    assert settings.read(Path(__file__).resolve().parents[2] / "brain_edge" / "setup.cfg", encoding="utf-8")
    return settings["options.extras_require"][name].strip().replace(" ", "")


@pytest.mark.parametrize("module, protocol, settings, visitor", [
    ("pymodbus", "modbus-tcp", {"host": "h"}, {"register": "holding", "address": 0}),
    ("paho", "mqtt", {"host": "h"}, {"topic": "a"})])
def test_a_library_that_is_missing_is_named_with_what_installs_it(module, protocol, settings, visitor, tmp_path, run,
                                                                  monkeypatch):
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").write_text(f"raise ModuleNotFoundError('No module named {module}')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    _, becomes = run(model(heat=HEAT) + device(protocol, settings, {"heat": {"visitor": visitor}}))
    why = becomes("heat", state="offline")["why"]
    assert f"which is not installed: pip install '{extra(protocol.partition('-')[0])}'" in why

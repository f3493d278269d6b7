# SPDX-License-Identifier: Apache-2.0
"""Models, devices and their twins: what cannot be meant so is refused by name, and what is old is not called fresh."""
from __future__ import annotations

import copy
import json
import math
import random
import time

import pytest
from ovens import MODEL, device

from brain_edge.devices import payloads, values
from brain_edge.devices.device_manager import Kept
from brain_edge.devices.features import features_of
from brain_edge.devices.files import described
from brain_edge.devices.models import Device, Mapped, Property, read_device, read_model
from brain_edge.devices.payloads import PATH
from brain_edge.devices.protocols import checked, find
from brain_edge.devices.reserved import HEARD, check_heard, check_key, check_said
from brain_edge.devices.twin import Twin
from brain_edge.devices.twin_form import TWIN
from brain_edge.schema import FormProblem, check, check_plain

DEVICE = {"model": "oven", "protocol": "modbus-tcp", "settings": {"host": "127.0.0.1"}, "properties": {
    "heat": {"visitor": {"register": "holding", "address": 0, "type": "int16"}, "scale": 0.1, "period": 0.1}}}


def changed(spec, **changes):
    """A copy with other values: ``properties__heat__scale=0``; None takes one away."""
    spec = copy.deepcopy(spec)
    for path, value in changes.items():
        *above, last = path.split("__")
        place = spec
        for one in above:
            place = place[one]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return spec


FEATURES = {"modality": "heat", "maps": [{"property": "heat", "map": "hazard", "from": 0, "to": 100}]}
WRONG_MODELS = {
    "no properties": ({"properties": {}}, "spec.properties is empty"),
    "a type that is none": (changed(MODEL, properties__heat__type="double"), "spec.properties.heat.type must be one of "
                                                                             "boolean, integer, float, string"),
    "limits the wrong way": (changed(MODEL, properties__heat__minimum=200), "minimum is 200, more than its maximum"),
    "limits of a flag": (changed(MODEL, properties__on__maximum=1), "is a boolean, which has neither"),
    "a name that is none": ({"properties": {"Heat!": {"type": "float"}}}, "must read"),
    "a field too many": (changed(MODEL, properties__heat__unt="C"), "no field 'unt'; did you mean unit?")}
WRONG_DEVICES = {
    "a property that the model has not": (changed(DEVICE, properties__hat={"visitor": {}}), "has no such property; it "
                                          "has heat, pid, on, label"),
    "a scale of nothing": (changed(DEVICE, properties__heat__scale=0), "scale is 0"),
    "a scaled flag": (changed(DEVICE, properties__on={"visitor": {}, "scale": 2}), "neither scaled nor offset"),
    "another unit": (changed(DEVICE, properties__heat__unit="degF"), "unit is 'degF', and the model's is 'degC'; give "
                                                                     "the scale and offset"),
    "a period of nothing": (changed(DEVICE, properties__heat__period=0), "period must be at least 0.02"),
    "no visitor": (changed(DEVICE, properties__heat__visitor=None), "heat.visitor is missing"),
    "the wheels": (changed(DEVICE, properties__heat__topic={"name": "cmd_vel"}), "a topic of the brain's own"),
    "the wheels elsewhere": (changed(DEVICE, properties__heat__topic={"name": "/r2/cmd_vel"}), "the brain's own"),
    "a command": (changed(DEVICE, properties__heat__topic={"type": "geometry_msgs/msg/Twist"}),
                  "cannot say a 'geometry_msgs/msg/Twist'"),
    "no field": (changed(DEVICE, properties__heat__topic={"type": "sensor_msgs/msg/Temperature"}),
                 "has no field data; it has header"),
    "a field of another kind": (changed(DEVICE, properties__heat__topic={"type": "std_msgs/msg/Bool"}), "heat.topic: "),
    "a map of what is not there": (changed(DEVICE, features=changed(FEATURES, maps=[
        {"property": "pid", "map": "hazard", "from": 0, "to": 1}])), "the device shows no 'pid'; it shows heat"),
    "a map of nothing": (changed(DEVICE, features=changed(FEATURES, maps=[
        {"property": "heat", "map": "hazard", "from": 1, "to": 1}])), "from and to are the same")}
WRONG_VISITORS = {
    "modbus, no host": ("modbus-tcp", {}, {"register": "holding", "address": 0}, "spec.settings.host is missing"),
    "modbus, no register": ("modbus-tcp", {"host": "a"}, {"register": "x", "address": 0}, "must be one of coil"),
    "modbus, read only": ("modbus-tcp", {"host": "a"}, {"register": "input", "address": 0}, "can only be read, and the "
                                                                                            "model says ReadWrite"),
    "modbus, too far": ("modbus-tcp", {"host": "a"}, {"register": "holding", "address": 65535, "type": "int32"},
                        "beyond the last address"),
    "modbus, a typed bit": ("modbus-tcp", {"host": "a"}, {"register": "coil", "address": 1, "type": "int16"},
                            "one bit"),
    "mqtt, many": ("mqtt", {"host": "a"}, {"topic": "a/+/b", "command": "c"}, "no single topic"),
    "mqtt, no command": ("mqtt", {"host": "a"}, {"topic": "a"}, "a command is needed"),
    "mqtt, text with fields": ("mqtt", {"host": "a"}, {"topic": "a", "command": "c", "format": "text", "field": "b"},
                               "a text has no fields"),
    "zenoh, many": ("zenoh", {}, {"key": "a/**", "command": "c"}, "is no key"),
    "zenoh, a topic of ROS 2": ("zenoh", {}, {"key": "a", "command": "0/cmd_vel/geometry_msgs::msg::dds_::Twist_/R"},
                                "a key of ROS 2's"),
    "ros, the wheels": ("ros-topic", {}, {"topic": "a", "type": "std_msgs/msg/Bool", "command": {
        "topic": "estop/release", "type": "std_msgs/msg/Bool"}}, "the brain's own"),
    "ros, a command": ("ros-topic", {}, {"topic": "a", "type": "std_msgs/msg/Bool", "command": {
        "topic": "wheels", "type": "geometry_msgs/msg/Twist", "field": "linear"}}, "cannot say a"),
    **{f"ros, {what}": ("ros-topic", settings, {"topic": "a", "type": "std_msgs/msg/Bool", "command": {
        "topic": topic, "type": "std_msgs/msg/String"}}, "the brain's own") for what, settings, topic in [
            ("goals by a namespace", {"namespace": "/goal"}, "text"), ("no slash", {"namespace": "r1/goal/"}, "text"),
            ("private", {"namespace": "/r1"}, "~/goal/text"), ("absolute", {"namespace": "/r1"}, "/r2/goal/text"),
            ("an action", {}, "seek/_action/status")]},
    **{f"ros, hears {topic}": ("ros-topic", settings, {"topic": topic, "type": kind, "field": field, "command": {
        "topic": "b", "type": "std_msgs/msg/Bool"}}, why) for settings, topic, kind, field, why in [
            ({}, "goal/text", "std_msgs/msg/String", "data", "no device may hear"),
            ({"namespace": "/goal"}, "text", "std_msgs/msg/String", "data", "no device may hear"),
            ({}, "rosout", "rcl_interfaces/msg/Log", "msg", "no device may hear"),
            ({}, "told", "brain_interfaces/msg/GoalStatus", "state", "no device may hear"),
            ({}, "front/image", "sensor_msgs/msg/Image", "data[5]", "holds a picture"),
            ({}, "front/compressed", "sensor_msgs/msg/CompressedImage", "data", "holds a picture"),
            ({}, "depth", "sensor_msgs/msg/PointCloud2", "data", "holds a picture"),
            ({}, "marks", "visualization_msgs/msg/MarkerArray", "markers", "holds a picture")]},
    **{f"zenoh, {what}": ("zenoh", {}, {"key": "a", "command": "b", **visitor}, why) for what, visitor, why in [
        ("hears goals", {"key": "0/goal/text/std_msgs::msg::dds_::String_/RIHS01_0"}, "a key of ROS 2's"),
        ("hears any", {"key": "0/goal/*/std_msgs::msg::dds_::String_/RIHS01_0"}, "is no key"),
        ("a bridge's goals", {"command": "r1/goal/text"}, "the brain's own"),
        ("hears a bridge's pictures", {"key": "camera/image_raw"}, "the brain's own"),
        ("another group's", {"command": "brain_collectives/x"}, "a key of ROS 2's, of Zenoh's own, or of the brain's"),
        ("the fleet's", {"key": "brain_fleet/robot2/up"}, "a key of ROS 2's, of Zenoh's own, or of the brain's")]},
    **{f"{protocol}, to {router}": (protocol, {"router": router}, visitor, "spec.settings.router must read")
       for router in ("serial//dev/ttyACM0", "unixsock-stream//tmp/s", "tls/a:7447#root_ca_certificate_file=/etc/x")
       for protocol, visitor in (("zenoh", {"key": "a", "command": "b"}), ("ros-topic", {
           "topic": "a", "type": "std_msgs/msg/Bool", "command": {"topic": "b", "type": "std_msgs/msg/Bool"}}))},
    "mqtt, a bridge's goals": ("mqtt", {"host": "a"}, {
        "topic": "a", "command": "0/goal/text/std_msgs::msg::dds_::String_/RIHS01_0"}, "a key of ROS 2's"),
    "mqtt, a path": ("mqtt", {"host": "a", "password_file": "/etc/hostname"}, {"topic": "a", "command": "b"},
                     "password_file is '/etc/hostname', and an order says the name that the robot's owner gave"),
    "mqtt, a certificate": ("mqtt", {"host": "a", "ca": "~/.ssh/id_rsa"}, {"topic": "a", "command": "b"},
                            "ca is '~/.ssh/id_rsa', and an order says the name"),
    "ros, no type": ("ros-topic", {}, {"topic": "a", "type": "std_msgs/msg/Nothing", "command": {
        "topic": "b", "type": "std_msgs/msg/Bool"}}, "unknown message type"),
    "no protocol": ("modbus", {}, {}, "there is no protocol 'modbus' here; did you mean modbus-tcp?"),
    "a class by an order": ("os:system", {}, {}, "but no order: install it on the robot"),
}


def told(work):
    try:
        return f"taken as {work()}"
    except FormProblem as problem:
        return str(problem)


def test_what_cannot_be_meant_so_is_refused_by_name():
    wrong = {}
    for name, (spec, why) in WRONG_MODELS.items():
        wrong[name] = why, told(lambda: read_model(spec))
    for name, (spec, why) in WRONG_DEVICES.items():
        wrong[name] = why, told(lambda: read_device("oven", spec, read_model(MODEL)))
    for name, (protocol, settings, visitor, why) in WRONG_VISITORS.items():
        oven = Device("oven", "oven", protocol, settings, {"heat": Mapped(HEAT, visitor)})
        wrong[name] = why, told(lambda: checked(oven, named=True))
    wrong = {name: line for name, (why, line) in wrong.items() if why not in line or "\n" in line}
    assert wrong == {}
    assert read_device("oven", changed(DEVICE, features=FEATURES), read_model(MODEL)).features.patches[0].end == 100


HEAT = Property("heat", "float", "degC", 0.0, 100.0, writable=True)
VALUES = [(HEAT, 20, 20.0), (HEAT, 100.5, "100.5 degC is more than the maximum 100 degC"), (HEAT, -1e-9, "less than"),
          (HEAT, math.nan, "nan is no finite number"), (HEAT, math.inf, "inf is no"), (HEAT, True, "True is no number"),
          (HEAT, "20", "'20' is no number"), (HEAT, None, "None is no number"), (HEAT, [1], "a list is no number"),
          (HEAT, 10**400, "more than 64 bits"), (Property("n", "integer"), 3.0, 3),
          (Property("n", "integer"), 3.5, "whole"), (Property("n", "integer"), 3.4e38, "more than 64 bits"),
          (Property("n", "float"), 3.4e38, 3.4e38),
          (Property("n", "integer"), math.nan, "finite"), (Property("b", "boolean"), 1, "1 is no boolean"),
          (Property("s", "string", longest=3), "abcd", "4 characters is more than the 3"),
          (Property("s", "string"), "\udc80", "surrogate"), (Property("s", "string"), b"a", "a bytes is no string")]


def test_a_value_is_what_its_property_can_have_or_it_is_said_why_not():
    wrong = []
    for known, value, expected in VALUES:
        try:
            found = values.fitted(known, value)
        except values.Misfit as problem:
            right = isinstance(expected, str) and expected in str(problem)
            found = str(problem)
        else:
            right = found == expected and type(found) is type(expected)
        if not right:
            wrong.append((known.type, value, found))
    assert wrong == []


def mapped(kind, **visitor):
    known = Property("p", kind, minimum=0.0, maximum=5000.0) if kind != "boolean" else Property("p", kind)
    return Mapped(known, visitor)


def test_plugs_and_meters_say_numbers_and_flags_as_text():
    said = {  # as a Tasmota, a Shelly and a zigbee2mqtt device do
        ("float", "StatusSNS.DS18B20-1.Temperature"): ({"StatusSNS": {"DS18B20-1": {"Temperature": "21.5"}}}, 21.5),
        ("float", "StatusSNS.ENERGY.Power"): ({"StatusSNS": {"ENERGY": {"Power": 12}}}, 12.0),
        ("boolean", "POWER"): ({"POWER": "ON"}, True), ("boolean", "state"): ({"state": "off"}, False),
        ("boolean", "switch:0.output"): ({"switch:0": {"output": True}}, True),
        ("integer", "1_total[0]"): ({"1_total": ["42"]}, 42)}
    for (kind, field), (payload, value) in said.items():
        check(field, PATH, "field")
        sample = payloads.decode(json.dumps(payload).encode(), {"field": field})
        found = values.read(mapped(kind, field=field), sample.value)
        assert found == value and type(found) is type(value), field
    door = mapped("boolean", true_as="open", false_as="closed", format="text")
    assert values.read(door, payloads.decode(b"open", door.visitor).value) is True
    assert payloads.encode(values.written(door, False), door.visitor) == b"closed"
    plug = {"field": "switch:0.output", "command_format": "text", "true_as": "on", "false_as": "off"}
    assert payloads.encode(values.written(mapped("boolean", **plug), True), plug) == b"on"
    for kind, raw in (("float", "12 W"), ("float", "nan"), ("float", "1" * 50), ("float", "0x10"), ("float", "6000"),
                      ("integer", "1.5"), ("boolean", "ajar"), ("boolean", "1")):
        with pytest.raises(values.Misfit):
            values.read(mapped(kind), raw)
    with pytest.raises(values.Misfit):
        values.read(door, "ON")


@pytest.mark.parametrize("visitor, why", [({"true_as": "ON"}, "stand together"),
                                          ({"true_as": "1", "false_as": "1"}, "two words"),
                                          ({"command_field": "a", "command_format": "text"}, "a text has no fields")])
def test_words_that_cannot_be_meant_so_are_refused(visitor, why):
    with pytest.raises(ValueError, match=why):
        payloads.check_payload(visitor)


def test_what_is_scaled_comes_back_as_it_was():
    oven = read_device("oven", DEVICE, read_model(MODEL)).properties["heat"]
    assert values.read(oven, 215) == pytest.approx(21.5)
    assert round(values.written(oven, 21.5)) == 215
    assert values.same(oven, values.read(oven, round(values.written(oven, 21.54))), 21.54)
    assert not values.same(oven, 21.6, 21.5)
    for name, value, why in [("hat", 1, "has no property"), ("pid", 1, "ReadOnly"), ("heat", 101, "more than the max")]:
        with pytest.raises(values.Misfit, match=why):
            values.settable(device(heat={}, pid={}), name, value)


def test_no_topic_of_the_brains_may_be_said():
    from brain_runtime.graph.graphs import load

    ports = [port for spec in load("brain", "sim").regions for each in (spec.load().inputs(), spec.load().outputs())
             for port in each.values()]
    topics = {port.topic for port in ports}
    assert "cmd_vel" in topics and len(topics) > 15
    allowed = []
    for topic in sorted(topics):
        try:
            check_said(f"/{topic}", "std_msgs/msg/Bool")
            allowed.append(topic)
        except FormProblem:
            continue
    assert allowed == []
    for topic in (*HEARD, "devices/oven/goal", "goal", "text", "factory/camera/heat"):
        check_heard(f"/r1/{topic}", "std_msgs/msg/String")
    check_said("/devices/oven/heat", "sensor_msgs/msg/Temperature")
    for said in (False, True):
        check_key("factory/oven/heat", said=said)


def test_settings_are_taken_together_or_not_at_all():
    def settings(name, **wanted):
        return "DeviceSettings", name, {"device": "oven", "values": wanted}

    resources = [settings("early", heat=50), ("Device", "oven", DEVICE), ("DeviceModel", "oven", MODEL),
                 settings("hot", heat=200), settings("late", heat=60), settings("pid", pid=1),
                 ("DeviceSettings", "other", {"device": "pump", "values": {"on": True}}),
                 ("Device", "pump", changed(DEVICE, model="pump"))]
    found = described(resources)
    assert found.desired == {"oven": {"heat": 60}} and list(found.devices) == ["oven"]
    assert found.problems == {
        ("DeviceSettings", "early"): "DeviceSettings late, ordered later, says otherwise of heat of oven; delete one "
                                     "of them",
        ("DeviceSettings", "hot"): "heat of oven: 200 degC is more than the maximum 100 degC",
        ("DeviceSettings", "pid"): "oven has no property 'pid'"}
    assert found.waiting == {("Device", "pump"): "there is no DeviceModel pump here",
                             ("DeviceSettings", "other"): "there is no Device pump here"}


def test_a_twin_says_what_is_fresh_and_never_calls_old_what_is_not():
    now = 1000.0
    twin = Twin(device(heat={}), now)
    heat = twin.properties["heat"]

    def state():
        check(twin.to_dict(), TWIN)
        return heat.state, heat.value

    assert state() == ("unknown", None)
    twin.become("online", "", now)
    assert heat.take(20.0, now, None, False, now) and state() == ("ok", 20.0)
    assert not heat.take(200.0, now + 0.1, None, False, now + 0.1) and state() == ("out of limits", 20.0)
    assert heat.at == now and twin.fresh() == {}
    assert not heat.take(30.0, now + 0.2, "degF", False, now + 0.2) and state() == ("invalid", 20.0)
    assert not heat.take(math.nan, now + 0.3, "degC", False, now + 0.3) and state() == ("invalid", 20.0)
    assert heat.take(21.0, now + 9.0, "degC", False, now + 0.4) and heat.at == now + 0.4    # not of the future
    twin.look(now + 1.3)
    assert state() == ("ok", 21.0)
    twin.look(now + 1.5)
    assert state() == ("stale", 21.0) and twin.fresh() == {}
    assert not heat.take(22.0, now + 1.0, None, False, now + 5.0) and state() == ("stale", 22.0)    # it was on its way
    assert not heat.take(23.0, now + 6.0, None, True, now + 6.0) and state() == ("stale", 23.0)     # somebody kept it
    twin.become("offline", "the plug", now + 7.0)
    assert state() == ("offline", 23.0) and heat.why == "the plug"
    twin.become("online", "", now + 8.0)
    assert state() == ("stale", 23.0)
    # What is desired is written again, ever more seldom, until the device says that it has it.
    twin.want({"heat": 40})
    tried = [later for later in range(100) if heat.to_write(now + 8.0 + later) is not None]
    assert tried == [0, 1, 3, 7, 15, 31, 63]
    assert heat.take(40.0, now + 110.0, None, False, now + 110.0) and heat.done
    assert heat.to_write(now + 200.0) is None


ODD = [math.nan, -math.inf, 1e400, 2**70, "x" * 900, "\udc80", None, True, [], {"a": 1}, -0.0, 5, 99.5, "degC",
       "\n\x1b"]


def test_whatever_a_driver_reads_a_twin_can_be_told():
    rng = random.Random(7)
    twin, taken = Twin(device(heat={}, pid={}, on={}, label={}), 1000.0), 0
    for step in range(3000):
        now = 1000.0 + step
        known = twin.properties[rng.choice(["heat", "pid", "on", "label"])]
        taken += known.take(rng.choice(ODD), now - rng.choice([0.0, 0.5, 9e9]), rng.choice([None, None, "degC", "\n"]),
                            rng.random() < 0.1, now)
        check(json.loads(json.dumps(twin.to_dict())), TWIN)
        check_plain(twin.to_dict())
    assert 100 < taken < 1500


def test_what_no_process_of_a_driver_says_is_refused_in_a_line():
    """Nothing that one says ends who keeps it, or is told of a device that it is not."""
    oven, rng = device(heat={}, pid={}), random.Random(7)
    twin, now = Twin(oven, 1000.0), 1000.0
    twin.become("online", "", now)
    twin.properties["heat"].take(20.0, now, None, False, now)
    good = {"progress": 1, "twin": twin.to_dict(), "waits": {"heat": "it is to be written"}}
    kept = Kept(oven, {}, now)
    assert kept.take(json.dumps(good).encode(), now) and kept.twin["properties"]["heat"]["value"] == 20.0
    assert not kept.take(json.dumps(good).encode(), now)    # its driver has not come back since
    places = [("twin", "properties", "heat", "value"), ("twin", "properties", "heat", "at"), ("twin", "properties"),
              ("twin", "properties", "heat", "state"), ("twin", "state"), ("twin", "since"), ("waits", "heat"),
              ("progress",), ("refused",), ("twin", "properties", "heat")]
    refused = 0
    for _ in range(2000):
        line = copy.deepcopy(good)
        *above, last = rng.choice(places)
        inner = line
        for one in above:
            inner = inner[one]
        inner[last] = rng.choice(ODD)
        try:
            kept.take(json.dumps(line).encode()[:rng.choice([None, None, 40])], now)
        except (FormProblem, values.Misfit) as problem:
            refused += 1
            assert "\n" not in str(problem)
        check(json.loads(json.dumps(kept.twin)), TWIN)
        check_plain(kept.twin)
    assert refused > 1000
    stranger = {**good, "twin": {**good["twin"], "properties": {"on": good["twin"]["properties"]["heat"]}}}
    with pytest.raises(FormProblem, match="not asked for"):
        kept.take(json.dumps(stranger).encode(), now)


def test_a_twin_of_which_nothing_is_heard_is_not_of_now():
    oven = device(heat={})
    twin, kept = Twin(oven, 1000.0), Kept(oven, {}, 1000.0)
    twin.become("online", "", 1000.0)
    twin.properties["heat"].take(20.0, 1000.0, None, False, 1000.0)
    kept.take(json.dumps({"progress": 1, "twin": twin.to_dict()}).encode(), 1000.0)
    heat = lambda now: kept.shown(now)["properties"]["heat"]    # noqa: E731
    assert heat(1000.5)["state"] == "ok"
    assert heat(1010.0).items() >= {"state": "stale", "value": 20.0, "why": "its driver says nothing any more"}.items()
    kept.lose("its driver ended with status 7", 1011.0)
    assert kept.twin["state"] == "offline" and heat(1011.0).items() >= {"state": "offline", "value": 20.0}.items()
    twin.become("starting", "", 1012.0)
    kept.take(json.dumps({"progress": 0, "twin": twin.to_dict()}).encode(), 1012.0)
    assert kept.twin["state"] == "offline"      # until its device answers
    twin.become("online", "", 1013.0)
    kept.take(json.dumps({"progress": 1, "twin": twin.to_dict()}).encode(), 1013.0)
    assert kept.twin["state"] == "online"


def test_a_driver_of_another_package_is_found_by_its_name(tmp_path, monkeypatch):
    about = tmp_path / "brain_oven-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: brain-oven\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[brain.device_drivers]\noven = brain_oven:Oven\nmqtt = brain_oven:Oven\n")
    (tmp_path / "brain_oven.py").write_text("from brain_edge.devices.driver import Driver\n\n\nclass Oven(Driver):\n"
                                            "    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find("oven", named=True).__name__ == "Oven"
    assert find("mqtt", named=True).__name__ == "Mqtt"      # nobody takes the place of those that come with it
    assert "oven" in told(lambda: find("ovn", named=True))


def test_a_map_says_what_is_fresh_and_where():
    spec = changed(DEVICE, features={"modality": "heat", "confidence": 0.5, "maps": [
        {"property": "heat", "map": "hazard", "azimuth": math.pi / 2, "width": 0.5, "from": 20, "to": 60}]})
    oven = read_device("oven", spec, read_model(MODEL))
    message = features_of(oven, oven.features, {"heat": 40.0}, time.monotonic())
    assert message.source == "device/oven" and message.confidence == 0.5 and not message.novelty.any()
    assert [number for number, value in enumerate(message.hazard) if value] == [8, 9, 10]
    assert message.hazard[9] == 0.5
    assert features_of(oven, oven.features, {"heat": 99.0}, 0.0).hazard.max() == 1.0
    assert not features_of(oven, oven.features, {}, 0.0).hazard.any()

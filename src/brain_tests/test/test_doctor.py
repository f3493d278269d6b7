# SPDX-License-Identifier: Apache-2.0
"""``brain doctor``: a fake robot on a real wire takes faults, each of which is named; a sound one has none."""
from __future__ import annotations

import copy
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from brain_observe.doctor import base_timeout, examination, machine, topics
from brain_observe.doctor.finding import SEVERITIES, Finding, ordered
from brain_observe.doctor.heard import COMMAND, DEVICES, STAMPED, TWIST, Heard
from brain_observe.doctor.listening import listen
from brain_observe.doctor.machine import Machine
from brain_runtime.contract import heartbeat
from brain_runtime.graph.graphs import load
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_runtime.graph.robots import SIM, Robot, load_robot, shipped
from brain_runtime.interfaces import Heartbeat
from brain_tests.cases import of_all
from brain_tests.fake_robot import TYPES, FakeRobot
from brain_tests.fuzzing import fuzz
from brain_tests.in_process import brain
from brain_wire import Node, names, open_node, open_session
from brain_wire.messages import make, time_message
from brain_wire.qos import FEATURE, LATCHED, SENSOR, STREAM
from brain_wire.router import Router, free_port
from brain_wire.wakeup import Flag

PATIENCE = 240.0        # s; only ends a hang
SECONDS = 2.0           # of a listening
FALTERS = 0.3           # s between two turns of a fake robot, on a machine that is too busy for it
INFO, IMAGE = "camera/camera_info", "camera/image_raw"


@pytest.fixture(scope="module")
def wire():
    """Endpoint of a router, a session of the robot's, and the domain."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]), open_session(endpoint, patience=10) as session:
        yield endpoint, session, 77


def look(wire, robot=None, *, heard=None, seconds=SECONDS, beside=(), **faults):
    """Heard of a fake robot with faults, and the findings. ``beside``: opens more on the robot's session, each."""
    endpoint, session, domain = wire
    robot = robot or load_robot(SIM)
    blank = heard or Heard(robot, domain=domain)
    with ExitStack() as stack:
        fake = stack.enter_context(FakeRobot(session, robot, domain, **faults))
        for one in beside:
            stack.enter_context(one(session, domain))
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            heard, fake.longest = copy.deepcopy(blank), 0.0
            with open_node("brain_doctor", domain=domain, router=endpoint, patience=10) as node:
                listen(node, heard, seconds)
            if fake.longest < FALTERS:      # else it was no sound robot
                break
    found, left = examination.judge(heard, Machine())
    assert not any("Error" in line for line in left), left
    return heard, found


def codes(found):
    return sorted(one.code for one in found)


# -- faults, by the code that names them ------------------------------------------------------------------------------

def put(**values):
    """A change that sets fields, by their path with __ for a dot."""
    def change(message):
        for path, value in values.items():
            *way, last = path.split("__")
            at = message
            for name in way:
                at = getattr(at, name)
            setattr(at, last, value)
    return change


def at(where, value):
    """A change of ranges."""
    def change(message):
        message.ranges = message.ranges.copy()
        message.ranges[where] = value
    return change


def filled(value):
    """A change of a picture to one color, with noise."""
    rng = np.random.default_rng(0)
    return lambda m: put(data=np.clip(rng.normal(value, 0.5, len(m.data)), 0, 255).astype(np.uint8))(m)


def same(field):
    """A change that repeats the first message's field."""
    first = []

    def change(message):
        first.append(getattr(message, field))
        setattr(message, field, first[0])
    return change


def every(count):
    """A change that lets one of so many messages through."""
    came = []

    def change(message):
        came.append(message)
        return None if len(came) % count == 0 else []
    return change


def bunched(count):
    """A change that sends so many messages at once."""
    held = []

    def change(message):
        held.append(message)
        out = list(held) if len(held) == count else []
        del held[:len(out)]
        return out
    return change


def later(seconds):
    """A change of stamps."""
    return lambda m: put(header__stamp=time_message(m.header.stamp.sec + m.header.stamp.nanosec * 1e-9 + seconds))(m)


def swapped(message):
    message.data = message.data.reshape(-1, 3)[:, ::-1].reshape(-1).copy()


def transforms(change):
    """A change of what tf_static says, given its list."""
    return lambda message: change(message.transforms)


def joint(all_of, child):
    return next(one for one in all_of if one.child_frame_id == child)


def stopped():
    """A change of transforms: they stay those of when they first came."""
    first = []

    def change(all_of):
        first.append(all_of[0].header.stamp)
        put(header__stamp=first[0])(all_of[0])
    return transforms(change)


def one_more(parent, child):
    """A change that adds a transform."""
    def change(all_of):
        more = copy.deepcopy(all_of[0])
        more.header.frame_id, more.child_frame_id = parent, child
        all_of.append(more)
    return transforms(change)


def turned(child, **q):
    return transforms(lambda all_of: put(**{f"transform__rotation__{k}": v for k, v in q.items()})(
        joint(all_of, child)))


def moved(child, **t):
    return transforms(lambda all_of: put(**{f"transform__translation__{k}": v for k, v in t.items()})(
        joint(all_of, child)))


def twice_elsewhere(all_of):
    more = copy.deepcopy(joint(all_of, "camera_link"))
    more.transform.translation.z += 0.3
    all_of.insert(0, more)      # the last one counts, and is as the profile says


def bent(all_of):
    """Adds a transform whose quaternion is none."""
    all_of.append(copy.deepcopy(all_of[0]))
    put(header__frame_id="base_link", child_frame_id="bent", transform__rotation__w=0.5)(all_of[-1])


PLANTED = {
    # of the scan
    "scan-beams": ("scan", lambda m: put(ranges=m.ranges[:3])(m)),
    "scan-angles": ("scan", put(angle_increment=0.0)),
    "scan-count": ("scan", lambda m: put(ranges=m.ranges[:100])(m)),
    "scan-limits": ("scan", put(range_max=0.0)),
    "scan-empty": ("scan", at(slice(None), math.inf)),
    "scan-empty zeros": ("scan", at(slice(None), 0.0)),
    "scan-empty NaN": ("scan", at(slice(None), math.nan)),
    "scan-units": ("scan", lambda m: put(ranges=1000 * m.ranges, range_max=8000.0)(m)),
    "scan-frozen": ("scan", same("ranges")),
    "scan-dead": ("scan", at(slice(20, 40), math.nan)),
    "scan-ahead": ("scan", lambda m: put(ranges=m.ranges[:45], angle_min=2.4,
                                         angle_max=2.4 + 44 * m.angle_increment)(m)),
    "scan-own": ("scan", at(slice(10, 14), 0.12)),
    # of odometry
    "odom-nan": ("odom", put(twist__twist__linear__x=math.nan)),
    "odom-quaternion": ("odom", put(pose__pose__orientation__w=0.0)),
    "odom-frames": ("odom", put(child_frame_id="odom", header__frame_id="base_link")),
    "odom-contradiction": ("odom", lambda m: put(twist__twist__angular__z=-m.twist.twist.angular.z)(m)),
    "odom-covariance": ("odom", put(pose__covariance=np.full(36, -1.0))),
    "odom-child": ("odom", put(child_frame_id="wheel_thing")),
    # of the camera
    "picture-encoding": (IMAGE, put(encoding="yuv422")),
    "picture-size": (IMAGE, put(step=10)),
    "picture-dark": (IMAGE, filled(4)),
    "picture-bright": (IMAGE, filled(254)),
    "picture-plain": (IMAGE, filled(120)),
    "picture-swapped": (IMAGE, swapped),
    "picture-frozen": (IMAGE, same("data")),
    "camera-fisheye": (INFO, put(distortion_model="equidistant", d=np.zeros(4))),
    "camera-model": (INFO, put(distortion_model="bent", d=np.ones(5))),
    "camera-focal": (INFO, lambda m: put(k=np.array([0.1, *m.k[1:]]))(m)),
    "camera-size": (INFO, put(width=640, height=300)),
    "camera-size scaled": (INFO, lambda m: put(width=192, height=128, k=2 * m.k)(m)),
    "camera-uncalibrated": (INFO, put(k=np.zeros(9))),
    "camera-view": (INFO, lambda m: put(k=np.array([2 * m.k[0], *m.k[1:4], 2 * m.k[4], *m.k[5:]]))(m)),
    "camera-frames": (INFO, put(header__frame_id="camera_link")),
    # of frames
    "frame-empty": ("odom", put(header__frame_id="")),
    "frame-unknown": ("scan", put(header__frame_id="laser_of_another")),
    "tf-no-way": ("tf_static", transforms(lambda all_of: put(header__frame_id="island")(joint(all_of, "base_scan")))),
    "tf-quaternion": ("tf_static", transforms(bent)),
    "tf-two-parents": ("tf_static", one_more("elsewhere", "base_scan")),
    "tf-place": ("tf_static", one_more("base_link", "base_link")),
    "tf-loop": ("tf_static", lambda m: (one_more("here", "there")(m), one_more("there", "here")(m))),
    "tf-changed": ("tf_static", transforms(twice_elsewhere)),
    "lidar-mount": ("tf_static", turned("base_scan", z=1.0, w=0.0)),
    "tf-stopped": ("tf", stopped()),
    "lidar-tilted": ("tf_static", turned("base_scan", x=1.0, w=0.0)),
    "camera-mount": ("tf_static", moved("camera_link", z=1.2)),
    "description-broken": ("robot_description", put(data="<robot><joint>")),
    # of topics
    "topic-silent": (INFO, every(10**9)),
    "topic-broken": ("odom", lambda m: [b"\0\1\0\0nothing"]),
    "rate-low": ("scan", every(8)),
    "rate-bursty": ("scan", bunched(7)),
    "stamp-zero": (IMAGE, put(header__stamp=time_message(0.0))),
    "stamp-old": ("scan", later(-3.0)),
    "stamp-future": (IMAGE, later(2.0)),
    "stamp-stuck": ("odom", same("header")),
    "stamp-old of another time": (INFO, later(-1.5e9)),
}
TOGETHER = [
    ["scan-beams", "odom-nan", "picture-encoding", "camera-frames", "tf-place"],
    ["scan-angles", "odom-quaternion", "picture-size", "camera-model", "tf-quaternion"],
    ["scan-count", "odom-frames", "picture-dark", "camera-focal", "tf-two-parents"],
    ["scan-limits", "odom-contradiction", "picture-bright", "camera-size", "tf-changed"],
    ["scan-empty", "odom-covariance", "picture-swapped", "camera-uncalibrated", "lidar-mount"],
    ["scan-empty zeros", "odom-child", "picture-plain", "camera-view", "lidar-tilted"],
    ["scan-empty NaN", "topic-broken", "stamp-zero", "camera-fisheye", "camera-mount"],
    ["scan-units", "stamp-stuck", "stamp-future", "topic-silent", "tf-no-way"],
    ["scan-frozen", "frame-empty", "picture-frozen", "stamp-old of another time", "description-broken"],
    ["scan-dead", "frame-unknown", "camera-size scaled", "tf-stopped"],
    ["scan-ahead", "tf-loop"], ["scan-own", "stamp-old"],
    ["rate-low"], ["rate-bursty"],
]


def test_each_fault_is_planted_and_there_are_forty():
    assert sorted(code for some in TOGETHER for code in some) == sorted(PLANTED)
    assert len(PLANTED) + len(ENDS) + len(OF_REGIONS) + len(OF_THE_MACHINE) >= 80


@of_all(TOGETHER)
def test_a_fault_of_messages_is_named(case, wire):
    changes = {}
    for fault in case:
        topic, change = PLANTED[fault]
        changes.setdefault(topic, []).append(change)
    _, found = look(wire, changes=changes)
    assert codes(found) == sorted(fault.partition(" ")[0] for fault in case), found
    for one in found:
        assert one.severity in SEVERITIES and one.subject and one.text and one.remedy


# -- faults of who is there -------------------------------------------------------------------------------------------

def ends(kind, topic, type_name, qos=SENSOR):
    """Opens a node with a publisher or subscription."""
    def opened(session, domain):
        node = Node(session, "other", domain=domain)
        getattr(node, kind)(topic, type_name, qos)
        return node
    return opened


class Token:
    """Token of a publisher with another hash of its type."""

    def __init__(self, session, domain):
        node = Node(session, "older", domain=domain)
        real = node._endpoint(names.PUBLISHER, "odom", TYPES["odom"], SENSOR)
        self._node = node
        self._token = session.zenoh.liveliness().declare_token(names.Endpoint(**{
            **{f.name: getattr(real, f.name) for f in fields(real)}, "type_hash": "RIHS01_" + "0" * 64}).token())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._token.undeclare()
        self._node.close()


ENDS = [
    ({"topic-missing", "command-unheard"}, dict(without=["scan"], hears="")),
    ({"topic-type", "command-type"}, dict(types={"odom": "geometry_msgs/msg/PoseStamped"}, hears=TWIST)),
    ({"topic-hash", "command-several", "estop-qos", "topic-several"}, dict(without=["odom"], beside=[
        Token, ends("publisher", COMMAND, STAMPED, FEATURE), ends("publisher", "estop", "std_msgs/msg/Bool", SENSOR),
        ends("publisher", "scan", TYPES["scan"])])),
    ({"topic-qos", "tf-volatile"}, dict(hears_as=LATCHED, qualities={"tf_static": STREAM})),
]


@of_all(ENDS)
def test_a_fault_of_the_ends_is_named(case, wire):
    wanted, how = case
    _, found = look(wire, **how)
    assert set(codes(found)) == wanted, found


def test_a_robot_in_another_domain_is_found(wire):
    endpoint, session, domain = wire
    heard = Heard(load_robot(SIM), domain=domain + 1)
    with FakeRobot(session, heard.robot, domain), open_node("brain_doctor", domain=domain + 1, router=endpoint,
                                                            patience=10) as node:
        listen(node, heard, 1.0)
    found = {one.code: one for one in topics.findings(heard)}
    assert f"--domain {domain}," in found["domain-other"].remedy and "/fake_robot" in found["domain-other"].text


def test_a_missing_topic_of_another_name_is_proposed(wire):
    robot = Robot("other", Path(), topics={"scan": "front/scan"})
    _, found = look(wire, robot, heard=Heard(Robot("brain's", Path()), domain=wire[2]), seconds=1.0)
    assert "topics: {scan: /front/scan}" in next(one.remedy for one in found if one.code == "topic-missing")


def test_clocks_and_stamps_of_a_simulation_are_told_apart(wire):
    """Of what a sound robot said, with times as they would come from elsewhere."""
    heard, found = look(wire, beside=[ends("publisher", "/clock", "rosgraph_msgs/msg/Clock")])
    assert found == []
    heard.came = {name: [one._replace(sent=one.sent - 7.0, stamp=one.stamp - 7.0) for one in came]
                  for name, came in heard.came.items()}
    assert codes(topics.findings(heard)) == ["clocks-apart"]
    heard.came = {name: [one._replace(sent=one.wall, stamp=3.0 + 0.1 * k) for k, one in enumerate(came)]
                  for name, came in heard.came.items()}
    assert codes(topics.findings(heard)) == ["stamp-simulated"] * 4


def test_swapped_colors_are_told_by_the_cameras_own_jpeg(wire):
    heard, found = look(wire, changes={IMAGE: [swapped], "camera/image_raw/compressed": []})
    assert heard.compressed is not None
    assert [(one.code, one.severity) for one in found] == [("picture-swapped", "degrades")]


# -- sound robots -----------------------------------------------------------------------------------------------------

@of_all([*shipped(), "frames with a prefix", "at rest", "all frames on tf"])
def test_nothing_is_found_on_a_sound_robot(case, wire):
    turning, changes, robot = 0.3, {}, SIM if " " in case else case
    if case == "at rest":
        turning = 0.0
    elif " " in case:
        def prefixed(message):
            for one in getattr(message, "transforms", [message]):
                one.header.frame_id = f"r1/{one.header.frame_id}"
                if hasattr(one, "child_frame_id"):
                    one.child_frame_id = f"r1/{one.child_frame_id}"
        changes = {name: [prefixed] for name in (*DEVICES, "tf_static", "tf")}
    on_tf, fixed = [], lambda m: on_tf.extend(m.transforms) or []
    if case == "all frames on tf":
        changes = {"tf_static": [fixed], "tf": [lambda m: m.transforms.extend(on_tf)],
                   "robot_description": []}     # which has no joints
    _, found = look(wire, load_robot(robot), turning=turning, changes=changes)
    assert found == []


def test_the_devices_are_those_that_the_regions_hear():
    """The doctor's table, held against the ports of the graph."""
    ports = {port.topic: port for spec in load("brain").regions for port in spec.load().ports().values()}
    for name, device in DEVICES.items():
        assert (ports[name].type, ports[name].qos.reliable, ports[name].device) == (device.type, False, True)
    assert ports[COMMAND].type == STAMPED and ports[COMMAND].alone


# -- whatever a peer says ---------------------------------------------------------------------------------------------

def spoil(message, rng):
    """Sets one field of a message, somewhere in it, to what the wire may bring."""
    name = rng.choice(list(vars(message)))
    value = getattr(message, name)
    if hasattr(value, "__msgtype__"):
        return spoil(value, rng)
    if isinstance(value, list):
        return spoil(rng.choice(value), rng) if value and hasattr(value[0], "__msgtype__") else None
    if isinstance(value, np.ndarray):
        odd = rng.choice([math.nan, math.inf, -math.inf, 0.0, 1e30] if value.dtype.kind == "f" else [0, 255])
        whole = rng.random() < 0.5 or name in ("k", "p", "r", "covariance")
        value = value.copy() if whole else value[:rng.randrange(8)].copy()
        value[rng.randrange(len(value)) if rng.random() < 0.5 and len(value) else slice(None)] = odd
    elif isinstance(value, str):
        value = rng.choice(["", "/", "odom", "x" * 5000, "\x1b[2J", "\u202e"])
    elif isinstance(value, float):
        value = rng.choice([math.nan, math.inf, -math.inf, 0.0, -1.0, 1e308, 5e-324])
    else:
        value = rng.choice([0, 1, 2**31 - 1]) if name != "nanosec" else 0
    setattr(message, name, value)


def test_whatever_a_message_holds_all_themes_judge(wire):
    sound, _ = look(wire)

    def one(rng):
        heard = copy.copy(sound)
        heard.came = {name: list(came) for name, came in sound.came.items()}
        for _ in range(rng.randint(1, 4)):
            name = rng.choice([*DEVICES, "tf"])
            if name == "tf":
                heard.static = copy.deepcopy(sound.static)
                spoil(rng.choice(heard.static), rng)
                continue
            message = copy.deepcopy(heard.newest(name))
            spoil(message, rng)
            heard.came[name][-1] = heard.came[name][-1]._replace(message=message)
        found, left = examination.judge(heard, Machine())
        assert not any("Error" in line for line in left), left
        return bool(found)

    fuzz(one, few=400, seeds=True, share=0.2)


# -- graphs -----------------------------------------------------------------------------------------------------------

EYE = ResolvedRegion("eye", "some:Eye", publishes=("eye/said",), rate=10.0)
EAR = ResolvedRegion("ear", "some:Ear", hears=("eye/said",), triggers=("eye/said",), critical=True)
SMALL = Resolved("small", (EYE, EAR))
STRING = "std_msgs/msg/String"


class FakeBrain:
    """Two regions, as nodes with heartbeats. ``how`` alters a heartbeat, given its region and how many there were."""

    def __init__(self, session, domain, how=lambda name, count, beat: None, only=("eye", "ear"), ends=("eye", "ear"),
                 type_name=STRING):
        self._nodes = {name: Node(session, name, domain=domain) for name in only}
        self._out = {name: node.publisher(heartbeat.PORT.topic, heartbeat.TYPE, STREAM)
                     for name, node in self._nodes.items()}
        if "eye" in only and "eye" in ends:
            self._nodes["eye"].publisher("eye/said", STRING)
        if "ear" in only and "ear" in ends:
            self._nodes["ear"].subscription("eye/said", type_name)
        self._how, self._end = how, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        count = 0
        while not self._end.wait(0.1):
            count += 1
            for name, out in self._out.items():
                beat = make(heartbeat.TYPE, name=f"/{name}", state=Heartbeat.STATE_ACTIVE, step=count, epoch=1,
                            inputs=["eye/said"], input_ages=np.array([0.01], np.float32), step_age=0.1)
                if self._how(name, count, beat) is not False:
                    out.publish(beat)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        for node in self._nodes.values():
            node.close()


def of(which, **values):
    """Alters heartbeats of a region."""
    return lambda name, count, beat: put(**values)(beat) if name == which else None


OF_REGIONS = [
    ([], {}),
    ([("region-stuck", "/eye")], dict(how=of("eye", step=7))),
    ([("region-stuck", "/ear")], dict(how=of("ear", step=7, stepping=True, step_age=9.0))),
    ([("region-error", "/ear")], dict(how=of("ear", state=Heartbeat.STATE_ERROR, reason="broken"))),
    ([("region-inactive", "/eye")], dict(how=of("eye", state=Heartbeat.STATE_INACTIVE))),
    ([("region-restarts", "/eye")], dict(how=lambda name, count, beat: of("eye", epoch=1 + count)(
        name, count, beat))),
    ([("region-unhealthy", "/eye")], dict(how=of("eye", reason="odom is refused: \x1b[2J"))),
    ([("region-silent", "/eye")], dict(how=lambda name, count, beat: False if name == "eye" else None)),
    ([("edge-unheard", "/eye/said"), ("region-missing", "/ear")], dict(only=["eye"])),
    ([("edge-unpublished", "/eye/said")], dict(ends=["ear"])),
    ([("edge-type", "/eye/said")], dict(type_name="std_msgs/msg/Bool")),
]


@of_all(OF_REGIONS)
def test_a_fault_of_a_graph_is_named(case, wire):
    wanted, how = case
    robot = load_robot(SIM)
    heard = Heard(robot, domain=wire[2], expected=("/eye", "/ear"), resolved=SMALL)
    _, found = look(wire, heard=heard, beside=[lambda session, domain: FakeBrain(session, domain, **how)])
    assert sorted((one.code, one.subject) for one in found) == wanted


def test_a_profile_that_names_what_no_region_has_is_refused_by_its_entry(tmp_path):
    (tmp_path / "mine.yaml").write_text("shared: {wings: 2}\ntopics: {scan: front/scan}\n")
    heard = examination.expect(str(tmp_path / "mine.yaml"), "brain", 0, "/")
    assert heard.refused.code == "profile-refused" and "wings" in heard.refused.text
    assert heard.topic("scan") == "/front/scan"


# -- the machine ------------------------------------------------------------------------------------------------------

OF_THE_MACHINE = [
    ([], {}),
    (["python-old"], dict(python=(3, 10))),
    (["package-version"], dict(lacking=("brain-wire needs eclipse-zenoh >=1.10, and 0.9 is installed",))),
    (["router-port"], dict(router=False, taken=True)),
    (["router-missing"], dict(router=False)),
    (["rmw"], dict(rmw="rmw_fastrtps_cpp")),
    (["domain-variable"], dict(domain_variable="3", domain=5)),
    (["one-core"], dict(cores=1)),
    (["numpy-slow"], dict(products=1e9)),
    (["clock-jumps"], dict(jumped=-0.4)),
    ([], dict(synchronised=False)),     # all on one machine
    (["clock-unsynchronised"], dict(synchronised=False, endpoint="tcp/192.168.1.5:7447")),
    (["disk-full"], dict(disk_free=1 << 20)),
    ([], dict(may_lock=False, shared_free=0)),      # nothing is so large
    (["memory-lock"], dict(may_lock=False, largest=1 << 20)),
    (["shared-memory"], dict(shared_free=1 << 20, largest=1 << 20)),
]


@of_all(OF_THE_MACHINE)
def test_a_fault_of_the_machine_is_named(case):
    wanted, how = case
    assert codes(machine.findings(Machine(**how))) == wanted


def test_this_machine_is_looked_at(tmp_path):
    found = machine.look("tcp/127.0.0.1:1", 3, "", tmp_path / "not" / "there", router=True, jumped=0.0, largest=0)
    assert found.python == sys.version_info[:2] and found.disk_free > 0 and found.cores >= 1
    assert found.folder == str(tmp_path) and not any("not installed" in one for one in found.lacking)


def test_the_worst_comes_first_and_once():
    one, two = Finding("a", "note", "x", "t", "r"), Finding("b", "stops", "y", "t", "r")
    assert ordered([one, two, one]) == [two, one]


# -- the verb ---------------------------------------------------------------------------------------------------------

@pytest.fixture
def environment(tmp_path, wire):
    return {"ROS_DOMAIN_ID": str(wire[2]), "BRAIN_ROUTER": wire[0], "XDG_STATE_HOME": str(tmp_path),
            "RMW_IMPLEMENTATION": ""}


def test_the_verb_says_in_json_that_a_sound_robot_is_sound_and_what_it_did_not_judge(wire, environment):
    _, session, domain = wire
    with FakeRobot(session, load_robot("turtlebot3_burger"), domain):
        done = brain("doctor", "--robot", "turtlebot3_burger", "--json", environment=environment)
    told = json.loads(done.stdout)
    assert (done.returncode, told["findings"]) == (0, []), done.stdout + done.stderr
    assert told["robot"] == "turtlebot3_burger" and any("--measure-timeout" in one for one in told["unjudged"])


def test_a_table_shows_findings_and_nothing_of_others_steers_the_terminal(wire, environment, tmp_path):
    _, session, domain = wire
    (tmp_path / "small.graph.yaml").write_text('regions: {waits: "brain_tests.regions:Waits"}')
    with FakeRobot(session, load_robot(SIM), domain, changes={"scan": [put(header__frame_id="a\x1b[2Jb")]}):
        done = brain("doctor", "--graph", str(tmp_path / "small.graph.yaml"), environment=environment)
    assert done.returncode == 0 and "degrades" in done.stdout and "\x1b" not in done.stdout, done.stdout + done.stderr


def test_a_port_that_is_taken_and_wrong_use_have_exit_statuses_of_their_own(environment):
    assert brain("doctor", "--robot", "no_such", environment=environment).returncode == 2
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        endpoint = f"tcp/127.0.0.1:{other.getsockname()[1]}"
        done = brain("doctor", "--json", environment={**environment, "BRAIN_ROUTER": endpoint})
    assert done.returncode == 1
    assert [one["code"] for one in json.loads(done.stdout)["findings"]] == ["router-port"]


# -- the base's timeout -----------------------------------------------------------------------------------------------

def measured(wire, stop=None, **how):
    """A measurement, its findings, and the commands that the base heard."""
    endpoint, session, domain = wire
    robot = load_robot(SIM)
    end = time.monotonic() + PATIENCE
    while True:
        heard = Heard(robot, domain=domain)
        with FakeRobot(session, robot, domain, turning=0.0, **how) as fake, \
                open_node("brain_doctor", domain=domain, router=endpoint, patience=10) as node:
            listen(node, heard, 1.0)
            assert base_timeout.refusal(heard) == ""
            fake.longest = 0.0
            found = base_timeout.measure(node, heard, stop or Flag())
            if fake.longest < FALTERS or time.monotonic() > end:
                return found, codes(base_timeout.findings(heard, found)), list(fake.commands)


def crawled(commands):
    """Checks that a base was driven as the question says, and ended with zeros."""
    moving = [(when, speed) for when, speed, _ in commands if speed]
    assert commands[-1][1] == 0.0 and all(speed == pytest.approx(0.05) for _, speed in moving)
    assert all(turn == 0.0 for *_, turn in commands)
    return len(moving)


def test_a_base_that_stops_by_itself_is_sound(wire):
    found, wrong, commands = measured(wire)
    assert wrong == [] and found.timeout > 0.2 and found.fastest == pytest.approx(0.05)
    assert 1 <= crawled(commands) <= 11


@of_all([("base-timeout-none", dict(timeout=math.inf)), ("base-timeout-long", dict(timeout=1.5)),
         ("base-backwards", dict(backwards=True)),
         ("base-still", dict(changes={"odom": [put(twist__twist__linear__x=0.0)]}))])
def test_a_base_with_a_fault_is_named_and_ends_with_zeros(case, wire):
    wanted, how = case
    _, wrong, commands = measured(wire, **how)
    assert wrong == [wanted]
    crawled(commands)


def test_it_is_not_measured_where_the_robot_moves_or_another_commands_it(wire):
    heard, _ = look(wire, seconds=1.0)
    assert base_timeout.refusal(heard) == "the robot moves"
    heard, _ = look(wire, turning=0.0, seconds=1.0, beside=[ends("publisher", COMMAND, STAMPED, FEATURE)])
    assert "/other publishes /cmd_vel" in base_timeout.refusal(heard)
    heard, _ = look(wire, turning=0.0, seconds=1.0, changes={"scan": [at(slice(80, 100), 0.4)]})
    assert "must be free" in base_timeout.refusal(heard)
    assert "odometry" in base_timeout.refusal(look(wire, without=["odom"], seconds=1.0)[0])


@pytest.mark.parametrize(("shared", "sideways", "code"), [
    ({"turning_radius": 0.5}, 0.0, "base-turns"), ({"turning_radius": 0.5}, None, "base-limits"),
    ({}, 0.2, "base-sideways"), ({"max_lateral": 0.3}, 0.2, "")])
def test_what_a_base_cannot_do_and_does_is_told(shared, sideways, code, wire):
    sim = load_robot(SIM)
    robot = replace(sim, shared={**sim.shared, **shared})
    _, found = look(wire, robot, turning=0.0 if sideways is None else 0.3, changes={
        "odom": [put(twist__twist__linear__y=sideways or 0.0)]})
    found = [one for one in found if one.code.startswith("base-")]
    assert codes(found) == [code] * bool(code), found


def asked(wire, environment, answer):
    """Starts the verb as a process that is asked to measure; it and the robot."""
    _, session, domain = wire
    fake = FakeRobot(session, load_robot(SIM), domain, turning=0.0, timeout=math.inf)
    process = subprocess.Popen([sys.executable, "-m", "brain", "doctor", "--robot", SIM, "--measure-timeout", "--json"],
                               env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    process.stdin.write(answer)
    process.stdin.flush()
    return process, fake


def test_without_a_yes_nothing_is_driven(wire, environment):
    process, fake = asked(wire, environment, "y\n")
    with fake:
        told, said = process.communicate(timeout=PATIENCE)
    assert fake.commands == [] and "Write yes to drive" in said
    assert any("nobody answered with yes" in one for one in json.loads(told)["unjudged"])


def test_ctrl_c_while_it_drives_sends_zeros(wire, environment):
    process, fake = asked(wire, environment, "yes\n")
    with fake:
        while not fake.commands:
            assert process.poll() is None, process.communicate()
            threading.Event().wait(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        commands = list(fake.commands)
    assert process.returncode == 130 and "zeros were sent" in said
    crawled(commands)

# SPDX-License-Identifier: Apache-2.0
"""Rights from the graph, the SROS2 policy, and the folder of keys; what a router makes of them is tested elsewhere."""
import json
import os
import stat
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
import zenoh
from typer.testing import CliRunner

from brain.cli import app
from brain_security.access import access_control
from brain_security.policy import policy_xml
from brain_security.rights import READING, RightsError, rights_of
from brain_runtime.graph.inspect_graph import inspect_graph
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_wire import names
from brain_wire.credentials import read_credentials

EYE = ResolvedRegion("eye", "m:Eye", publishes=("eye/features",), hears=("image", "goal/text"))
STEM = ResolvedRegion("brainstem", "m:Stem", publishes=("cmd_vel",), hears=("eye/features", "estop"))


@pytest.fixture(scope="module")
def shipped():
    """The shipped brain with its world, in the namespace /r1."""
    return inspect_graph("brain", "sim", None, namespace="r1")


@pytest.fixture
def brain(monkeypatch, tmp_path):
    """Runs the command in this process, in a folder of the test's own."""
    monkeypatch.setenv("ROS_DOMAIN_ID", "88")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def write_graph(folder: Path, *regions: str) -> Path:
    """A graph of regions that each publish one topic of their own."""
    (folder / "tiny_regions.py").write_text(
        "from brain_runtime import Out, Region\n" + "".join(
            f"class {name.title()}(Region):\n    said = Out('{name}/said', 'std_msgs/msg/String')\n"
            for name in regions))
    path = folder / "tiny.graph.yaml"
    path.write_text("name: tiny\nregions:\n" + "".join(f"  {n}: tiny_regions:{n.title()}\n" for n in regions))
    return path


# -- rights -----------------------------------------------------------------------------------------------------------

def test_every_port_of_the_shipped_graph_is_a_right_of_its_region_and_of_no_other(shipped):
    found = {r.node: r for r in rights_of(shipped)}
    common = {"/r1/brain/heartbeat", "/diagnostics", "/rosout", "/parameter_events"}
    for spec in shipped.regions:
        cls, own = spec.load(), found[spec.name]
        assert own.publishes == {f"/r1/{p.topic}" for p in cls.would_publish(spec.parameters).values()} | common | {
            f"/r1/{spec.name}/transition_event"}
        assert own.hears >= {f"/r1/{spec.remap.get(p.topic, p.topic)}" for p in cls.inputs().values()}
        assert f"/r1/{spec.name}/set_parameters" in own.serves and not own.calls


def test_only_the_brainstem_moves_the_robot(shipped):
    alone = replace(shipped, regions=tuple(r for r in shipped.regions if not r.device))
    found = rights_of(shipped, maintainers=["ann"]) + rights_of(alone)
    assert {r.node for r in found if "/r1/cmd_vel" in r.topics_out()} == {"brainstem"}
    assert {r.node for r in found if "/r1/motor/command" in r.topics_out()} == {"motor"}


def test_two_regions_that_move_the_robot_are_refused():
    with pytest.raises(RightsError, match="eye and brainstem publish cmd_vel; only one"):
        rights_of(Resolved("g", (replace(EYE, publishes=("cmd_vel",)), STEM)))


@pytest.mark.parametrize("name", ["robot", "router", "ca", "operator", "edge"])
def test_names_that_are_kept_are_refused(name):
    with pytest.raises(RightsError, match=name):
        rights_of(Resolved("g", (replace(EYE, name=name),)), devices=[])


def test_what_people_may_do(shipped):
    found = {r.node: r for r in rights_of(replace(shipped, namespace="/"), maintainers=["ann"])}
    operator, maintainer = found["operator"], found["ann"]
    assert operator.publishes == {"/goal/text", "/estop", "/estop/release", "/teleop/cmd_vel", "/teleop/release",
                                  "/sim/episode", "/sim/mark", "/sim/said"}
    assert {"/brain/heartbeat", "/camera/image_raw", "/goal/status"} <= operator.hears
    assert "/pfc/get_parameters" in operator.calls and "/pfc/set_parameters" not in operator.calls
    assert operator.commands == {"/seek"} == found["goals"].executes
    assert maintainer.calls == operator.calls | {f"/{s.name}/{c}" for s in shipped.regions for c in (
        "set_parameters", "set_parameters_atomically", "change_state")}


def test_what_a_robots_edge_may_do(shipped):
    found = {r.node: r for r in rights_of(shipped, maintainers=["ann"], devices=["battery", "/gas/left"])}
    edge, devices = found["edge"], {"/r1/battery", "/gas/left", "/r1/devices/*/*"}
    assert edge.calls == found["ann"].calls and edge.commands == found["ann"].commands
    assert edge.publishes == found["ann"].publishes | devices | {"/r1/sensor/features"}
    assert devices <= edge.hears and devices <= found["operator"].hears
    assert not devices & (found["operator"].publishes | found["ann"].publishes)
    assert "edge" not in {r.node for r in rights_of(shipped)}
    joint = replace(shipped, regions=(*shipped.regions, replace(EYE, hears=("vision/second",))))
    assert "/r1/vision/second" in rights_of(joint, devices=[])[-1].publishes


@pytest.mark.parametrize("topic", ["cmd_vel", "estop/release", "brain/heartbeat", "/tf", "vision/objects",
                                   "/r1/goal/text"])
def test_a_device_gets_none_of_the_brains_topics(shipped, topic):
    with pytest.raises(RightsError, match=f"{topic.strip('/')} is a topic of the brain's own, not of a device"):
        rights_of(shipped, devices=["battery", topic])


@pytest.mark.parametrize("topic", ["odom", "scan", "camera/image_raw", "imu"])
def test_a_device_is_no_sensor_of_a_robot_without_a_world_either(shipped, topic):
    real = replace(shipped, regions=tuple(region for region in shipped.regions if not region.device))
    with pytest.raises(RightsError, match=f"{topic} is a topic of the brain's own, not of a device"):
        rights_of(real, devices=[topic])


DEVICES = """
apiVersion: fleet.brain/v1
kind: DeviceModel
metadata: {name: plant}
spec: {properties: {heat: {type: float}, lamp: {type: boolean, access: ReadWrite}}}
---
apiVersion: fleet.brain/v1
kind: Device
metadata: {name: hot-plant}
spec:
  model: plant
  protocol: ros-topic
  properties:
    heat: {visitor: {topic: plant/raw, type: std_msgs/msg/Float64}, topic: {}}
    lamp:
      visitor: {topic: lamp/is, type: std_msgs/msg/Bool, command: {topic: lamp/set, type: std_msgs/msg/Bool}}
      topic: {name: %s}
"""


def test_a_device_has_rights_for_the_topics_of_its_model_only(shipped, tmp_path):
    rights_module = pytest.importorskip("brain_edge.devices.rights")
    path = tmp_path / "plant.yaml"
    path.write_text(DEVICES % "lamp/shown")
    regions = rights_module.device_regions(path, "r1")
    found = {r.node: r for r in rights_of(shipped, devices=[], device_regions=regions)}
    own, link = found["device_hot_plant"], found["device_hot_plant_link"]
    common = {"/r1/brain/heartbeat", "/diagnostics", "/rosout", "/parameter_events"}
    assert own.publishes - common == {"/r1/devices/hot_plant/heat", "/r1/lamp/shown",
                                      "/r1/device_hot_plant/transition_event"}
    assert own.hears == {"/clock", "/parameter_events"} and not own.calls and not own.any_node
    assert link.publishes - common == {"/r1/lamp/set", "/r1/device_hot_plant_link/transition_event"}
    assert link.hears == own.hears | {"/r1/plant/raw", "/r1/lamp/is"}
    assert "/r1/device_hot_plant/set_parameters" in found["edge"].calls
    assert "/r1/devices/hot_plant/heat" in found["operator"].hears
    path.write_text(DEVICES % "pfc/control")    # the brain's own, as everybody knows
    with pytest.raises(ValueError, match="the brain's own"):
        rights_module.device_regions(path, "r1")
    path.write_text(DEVICES % "objects")        # or as only a robot's profile says
    renamed = replace(shipped, regions=tuple(replace(r, publishes=("objects",)) if r.name == "vision" else r
                                             for r in shipped.regions))
    with pytest.raises(RightsError, match="/r1/objects is a topic of the brain's own"):
        rights_of(renamed, device_regions=rights_module.device_regions(path, "r1"))


def test_without_a_world_the_robots_drivers_feed_what_nobody_else_does():
    found = {r.node: r for r in rights_of(Resolved("g", (EYE, STEM), namespace="/r1"))}
    assert found["robot"].name == "/r1/robot"
    assert {"/r1/image", "/r1/estop", "/tf"} <= found["robot"].publishes
    assert not {"/r1/goal/text", "/r1/estop/release", "/r1/cmd_vel", "/r1/eye/features"} & found["robot"].publishes
    assert "/r1/cmd_vel" in found["robot"].hears and "/r1/eye/features" not in found["robot"].hears


def test_remapped_topics_are_rights_under_their_new_names(brain, tmp_path):
    path = write_graph(tmp_path, "eye")
    path.write_text("regions:\n  eye:\n    class: tiny_regions:Eye\n"
                    "    remap: {eye/said: /left/said, brain/heartbeat: hb}\n")
    (eye, *_) = rights_of(inspect_graph(path, namespace="r1"))
    assert {"/left/said", "/r1/hb"} <= eye.publishes and not {"/r1/eye/said", "/r1/brain/heartbeat"} & eye.publishes


def test_a_robots_own_names_of_topics_are_the_rights():
    found = rights_of(inspect_graph("brain", "none", "diff_drive_controller", namespace="/r1"))
    command = "/r1/diff_drive_controller/cmd_vel"
    assert [r.node for r in found if command in r.topics_out()] == ["brainstem"]
    assert [r.node for r in found if command in r.topics_in()] == ["operator", "robot"]
    assert not [r.node for r in found if "/r1/cmd_vel" in r.topics_out()]
    twice = Resolved("g", tuple(replace(region, publishes=("base/cmd_vel",), remap={"cmd_vel": "base/cmd_vel"})
                                for region in (EYE, STEM)))
    with pytest.raises(RightsError, match="eye and brainstem publish cmd_vel"):
        rights_of(twice)


# -- the policy -------------------------------------------------------------------------------------------------------

# What sros2's schema 0.2.0 allows: children and attributes by element; text stands in the last three alone.
SCHEMA = {
    "policy": ({"enclaves"}, {"version"}), "enclaves": ({"enclave"}, set()), "enclave": ({"profiles"}, {"path"}),
    "profiles": ({"profile"}, set()), "profile": ({"topics", "services", "actions"}, {"ns", "node"}),
    "topics": ({"topic"}, {"publish", "subscribe"}), "services": ({"service"}, {"reply", "request"}),
    "actions": ({"action"}, {"execute", "call"}),
    "topic": (set(), set()), "service": (set(), set()), "action": (set(), set())}
REQUIRED = {"policy": {"version"}, "enclave": {"path"}, "profile": {"ns", "node"}}


def check_schema(element):
    children, attributes = SCHEMA[element.tag]
    assert {c.tag for c in element} <= children and set(element.attrib) <= attributes
    assert set(element.attrib) >= REQUIRED.get(element.tag, set())
    assert not children or len(element) or element.tag == "profile", f"{element.tag} must not be empty"
    assert bool((element.text or "").strip()) == (not children)
    if element.tag in ("topics", "services", "actions"):
        assert list(element.attrib.values()) == ["ALLOW"]
    for child in element:
        check_schema(child)


@pytest.mark.parametrize("single", [False, True])
def test_the_policy_has_sros2s_structure_and_covers_every_port(shipped, single):
    root = ElementTree.fromstring(policy_xml(rights_of(shipped), single).encode())
    assert root.tag == "policy" and root.get("version") == "0.2.0"
    check_schema(root)
    paths = [e.get("path") for e in root.iter("enclave")]
    assert paths == ["/"] if single else paths == [f"/r1/{s.name}" for s in shipped.regions] + ["/r1/operator"]
    for spec in shipped.regions:
        (profile,) = root.findall(f".//profile[@ns='/r1'][@node='{spec.name}']")
        for ports, qualifier in ((spec.load().outputs(), "publish"), (spec.load().inputs(), "subscribe")):
            named = {t.text for t in profile.findall(f"topics[@{qualifier}='ALLOW']/topic")}
            assert {f"/r1/{spec.remap.get(p.topic, p.topic)}" for p in ports.values()} <= named
    drivers = [p.get("node") for p in root.iter("profile")
               if "/r1/cmd_vel" in {t.text for t in p.findall("topics[@publish]/topic")}]
    assert drivers == ["brainstem"]
    (goals,) = root.findall(".//profile[@node='goals']")
    assert [a.text for a in goals.findall("actions[@execute='ALLOW']/action")] == ["/r1/seek"]
    assert "/r1/seek/_action/send_goal" in {s.text for s in goals.findall("services[@reply]/service")}


def test_the_policy_command_prints_xml_alone(brain):
    result = brain("policy", "--namespace", "r1")
    root = ElementTree.fromstring(result.stdout.encode())
    check_schema(root)
    assert {p.get("node") for p in root.iter("profile")} == {"vision", "language", "place", "pfc", "goals", "motor",
                                                             "introspection", "brainstem", "operator", "robot"}


# -- the folder -------------------------------------------------------------------------------------------------------

def test_keys_are_the_owners_alone_and_configurations_load(brain, tmp_path):
    old = os.umask(0)
    try:
        result = brain("keys", "k", "--graph", write_graph(tmp_path, "eye", "ear"), "--world", "none")
    finally:
        os.umask(old)
    assert result.exit_code == 0, result.output
    assert "made: ca, router, eye, ear, operator" in result.output
    folder = tmp_path / "k"
    mode = lambda path: stat.S_IMODE(path.stat().st_mode)  # noqa: E731
    assert mode(folder) == 0o700
    assert {p.name: mode(p) for p in folder.iterdir() if p.suffix in (".key", ".json5") and mode(p) != 0o600} == {}
    assert len(list(folder.glob("*.key"))) == 5
    for path in folder.glob("*.json5"):
        zenoh.Config.from_file(str(path))
    eye = read_credentials(folder / "eye.json5")
    assert (eye.name, eye.domain, eye.namespace) == ("/eye", 88, "/") and "/eye/said" in eye.publishes


def test_again_it_adds_what_is_new_and_leaves_the_rest(brain, tmp_path):
    folder = tmp_path / "k"
    assert brain("keys", "k", "--graph", write_graph(tmp_path, "eye"), "--world", "none").exit_code == 0
    before = {p: p.read_bytes() for p in folder.iterdir() if p.suffix in (".key", ".crt")}
    result = brain("keys", "k", "--graph", write_graph(tmp_path, "eye", "ear"), "--world", "none")
    assert "made: ear\n" in result.output and "kept: ca, router, eye, operator\n" in result.output
    assert {p: p.read_bytes() for p in before} == before
    result = brain("keys", "k", "--graph", write_graph(tmp_path, "ear"), "--world", "none")
    assert "eye is not in the graph any more" in result.output and (folder / "eye.key").exists()
    assert not (folder / "eye.json5").exists() and "/eye" not in (folder / "router.json5").read_text()
    result = brain("keys", "k", "--graph", write_graph(tmp_path, "ear"), "--world", "none", "--renew")
    assert result.exit_code == 0
    assert (folder / "ca.key").read_bytes() == before[folder / "ca.key"]
    assert (folder / "router.key").read_bytes() != before[folder / "router.key"]


@pytest.mark.parametrize(("arguments", "said"), [
    (("--namespace", "r1"), "router.crt is for /router, not for /r1/router; nothing was overwritten"),
    (("--host", "robot.local"), "router.crt does not name robot.local"),
    (("--namespace", "a" * 70), "at most 64"),
    (("--host", "bad host ä", "--renew"), "is no host name"),
    (("--operator", "eye"), "eye would stand for two"),
    (("--world", "moon"), "no world 'moon'"),
])
def test_what_does_not_fit_is_named_and_nothing_is_overwritten(brain, tmp_path, arguments, said):
    graph = write_graph(tmp_path, "eye")
    assert brain("keys", "k", "--graph", graph, "--world", "none").exit_code == 0
    before = {p: p.read_bytes() for p in (tmp_path / "k").iterdir()}
    result = brain("keys", "k", "--graph", graph, "--world", "none", *arguments, *(
        ("--renew",) if arguments[0] == "--namespace" and len(arguments[1]) > 9 else ()))
    assert result.exit_code == 1 and said in result.output
    assert {p: p.read_bytes() for p in (tmp_path / "k").iterdir()} == before


def test_the_authoritys_key_may_be_kept_elsewhere(brain, tmp_path):
    assert brain("keys", "k", "--graph", write_graph(tmp_path, "eye"), "--world", "none").exit_code == 0
    key = (tmp_path / "k" / "ca.key").rename(tmp_path / "ca.key")
    assert brain("keys", "k", "--graph", tmp_path / "tiny.graph.yaml", "--world", "none").exit_code == 0
    result = brain("keys", "k", "--graph", write_graph(tmp_path, "eye", "ear"), "--world", "none")
    assert result.exit_code == 1 and "ca.key, which signs it, is not in" in result.output
    key.rename(tmp_path / "k" / "ca.key")
    assert brain("keys", "k", "--graph", tmp_path / "tiny.graph.yaml", "--world", "none").exit_code == 0


def test_a_brain_is_not_started_with_keys_that_do_not_fit(brain, tmp_path, monkeypatch):
    monkeypatch.setenv("BRAIN_SECURITY", "")
    graph = write_graph(tmp_path, "eye")
    up = ("up", graph, "--world", "none", "--secure", "k", "--run-dir", tmp_path / "run", "--router")
    assert "k is no folder" in brain(*up, "tls/localhost:1").output.replace("\n", "")
    assert brain("keys", "k", "--graph", graph, "--world", "none").exit_code == 0
    assert "is for domain 88 and namespace /, not for domain 88 and namespace /r1" in brain(
        *up, "tls/localhost:1", "--namespace", "r1").output
    before = dict(os.environ)
    assert "listens by TLS only" in brain(*up, "tls/localhost:1", "--listen", "tcp/0.0.0.0:1").output
    assert dict(os.environ) == before   # how its regions are linked is for them alone
    assert "--listen tls/0.0.0.0:7447 --config" in brain(*up, "tcp/localhost:1").output
    (tmp_path / "tiny_regions.py").write_text((tmp_path / "tiny_regions.py").read_text().replace("eye/said", "new"))
    assert "had no right to /new" in brain(*up, "tls/localhost:1").output
    write_graph(tmp_path, "eye", "ear")
    assert "no credentials for ear" in brain(*up, "tls/localhost:1").output
    assert brain("keys", "k", "--graph", graph, "--world", "none", "--days", "0.001", "--renew").exit_code == 0
    assert json.loads(zenoh.Config.from_file("k/ear.json5").get_json("metadata"))["brain"]["domain"] == 88


# -- the rules --------------------------------------------------------------------------------------------------------

def test_rules_deny_by_default_and_each_subject_is_one_certificate(shipped):
    rules = access_control(rights_of(replace(shipped, namespace="/")), 5, ["/router"])
    assert rules["enabled"] and rules["default_permission"] == "deny"
    assert all(len(s["cert_common_names"]) == 1 and set(s) == {"id", "cert_common_names"} for s in rules["subjects"])
    wide = [r["id"] for r in rules["rules"] if r["permission"] == "allow" and any(
        k.startswith(("**", "*")) for k in r["key_exprs"])]
    assert wide == ["routers"]
    put = [(r["id"], k) for r in rules["rules"] if "put" in r["messages"] and "ingress" in r["flows"]
           for k in r["key_exprs"] if r["id"] != "routers" and zenoh.KeyExpr(k).intersects(
               zenoh.KeyExpr(names.data_key(5, "/cmd_vel", "geometry_msgs/msg/TwistStamped")))]
    assert put == [("/brainstem publishes", "5/cmd_vel/*/*")]


def test_people_may_call_what_only_reads(shipped):
    rules = access_control(rights_of(replace(shipped, namespace="/")), 5, ["/router"])["rules"]
    (calls,) = [r for r in rules if r["id"] == "/operator calls"]
    assert {f"5/vision/{s}/*/*" for s in READING} <= set(calls["key_exprs"])
    assert not [k for k in calls["key_exprs"] if "set_parameters" in k or "change_state" in k]

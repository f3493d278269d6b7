# SPDX-License-Identifier: Apache-2.0
"""The code in the documentation runs as it stands."""
import importlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE = 240.0     # s; only ends a hang
ROOT = Path(__file__).resolve().parents[3]
REFERENCE = "region-reference.md"


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.S)


def write_region(folder, page="write-a-region.md"):
    """Writes the files of a page, each named in the first line of its block."""
    for code in blocks(ROOT / "docs" / page, "python"):
        name = re.match(r"# ((\w+/)?\w+\.py)\n", code)
        assert name, f"a python block of {page} must begin with the name of its file"
        (folder / name[1]).parent.mkdir(exist_ok=True)
        (folder / name[1]).write_text(code, encoding="utf-8")


def test_the_region_of_the_docs_is_40_lines_and_runs(tmp_path):
    write_region(tmp_path)
    assert len((tmp_path / "ears.py").read_text().splitlines()) <= 40
    done = subprocess.run([sys.executable, "try_ears.py"], cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "heard from [90] degrees"


@pytest.mark.slow
def test_the_task_of_the_docs_is_trained(tmp_path):
    write_region(tmp_path, "train-a-region.md")
    done = subprocess.run([sys.executable, "try_double.py"], cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0.0"


def test_the_action_of_the_docs_is_served(tmp_path, monkeypatch):
    from brain_runtime.hosts.local import LocalHost
    write_region(tmp_path, REFERENCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    host = LocalHost({"nod": importlib.import_module("nod").Nod()})
    host.advance(0.1)
    asked, other = host.ask("nod", "seek"), host.ask("nod", "seek")
    host.advance(1.0)
    assert [f.seen for f in asked.feedback] == ["nod 1", "nod 2", "nod 3"] and asked.result.reason == "nodded"
    assert other.result.reason == "nodded"


def test_the_ports_of_the_docs_do_what_their_tables_say(tmp_path, monkeypatch):
    import numpy as np
    from brain_runtime.hosts.local import LocalHost
    from brain_wire.messages import make
    write_region(tmp_path, REFERENCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    host = LocalHost({"doorbell": importlib.import_module("doorbell").Doorbell()})
    host.publish("door/press", make("std_msgs/msg/Empty"))
    host.publish("door/press", make("std_msgs/msg/Empty"))
    host.advance(0.1)
    assert host.latest("door/total").data == 2
    picture = make("sensor_msgs/msg/Image", height=1, width=1, encoding="rgb8", step=3,
                   data=np.arange(3, dtype=np.uint8))
    host.publish("camera/image_raw", picture)
    host.publish("door/press", make("std_msgs/msg/Empty"))
    host.advance(0.1)
    assert host.latest("door/picture") is None
    seen = []
    host.listen("door/picture", seen.append)
    host.publish("camera/image_raw", picture)
    host.publish("door/press", make("std_msgs/msg/Empty"))
    host.advance(0.1)
    assert [bytes(one.data) for one in seen] == [bytes(range(3))] and host.latest("door/total").data == 4


def test_the_codecs_of_the_docs_say_the_same(tmp_path, monkeypatch):
    import json
    from brain_runtime.contract import port_codecs
    from brain_runtime.hosts.local import LocalHost
    write_region(tmp_path, REFERENCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    retina = importlib.import_module("retina")
    host = LocalHost({"retina": retina.Retina(), "cortex": retina.Cortex()})
    told = []
    host.listen("cortex/agreed", told.append)
    host.advance(0.5)
    assert len(told) >= 9 and all(json.loads(bytes(one.data)) == {"same": True} for one in told)
    fired = host.latest("retina/fired")
    assert told[-1].source == "cortex" and fired.form == fired.FORM_SPARSE
    codec = importlib.import_module("backwards").Backwards("")
    assert codec.decode(codec.encode("ab")) == "ab" and codec.encode("ab") == b"ba"
    struct = pytest.importorskip("google.protobuf.struct_pb2").Struct
    host = LocalHost({"echo": importlib.import_module("protobuf_of_mine").Echo()})
    codec, sent = port_codecs.find("protobuf:google.protobuf.struct_pb2:Struct"), struct()
    sent["goal"] = "ball"
    host.publish("echo/in", codec.write(sent))
    host.advance(0.1)
    assert dict(codec.read(host.latest("echo/out"))) == {"goal": "ball", "heard": True}


def test_the_region_of_the_docs_tells_of_every_port_setting():
    from dataclasses import fields
    from brain_runtime import In, Out
    from brain_runtime.contract.inbox import Inbox
    from brain_runtime.contract.ports import Port
    text = (ROOT / "docs" / REFERENCE).read_text(encoding="utf-8")
    own = {f.name for cls in (In, Out) for f in fields(cls)} - {f.name for f in fields(Port)}
    asked = {name for name in vars(Inbox) if not name.startswith("_")}
    assert {name for name in own if f"| `{name}=" not in text} == set()
    assert {name for name in asked if f"`inbox.{name}" not in text} == set()


def test_the_region_of_the_docs_fits_into_the_graph(tmp_path, monkeypatch):
    import yaml
    from brain_runtime.graph import check_graph, parse_graph
    write_region(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = yaml.safe_load(blocks(ROOT / "docs" / "write-a-region.md", "yaml")[0])
    brain = yaml.safe_load((ROOT / "config" / "brain.graph.yaml").read_text(encoding="utf-8"))
    brain["regions"] |= entry["regions"]
    assert check_graph(parse_graph(brain, "docs", "arena")) == []


def test_the_profile_of_the_docs_fits(tmp_path):
    from brain_runtime.graph import graphs
    from brain_runtime.graph.robots import load_robot
    profile = tmp_path / "mine.yaml"
    profile.write_text(blocks(ROOT / "docs" / "new-robot.md", "yaml")[0], encoding="utf-8")
    robot, graph = load_robot(str(profile)), graphs.load("brain")
    assert robot.parameters(graph)["brainstem"]["max_linear"] == 0.1
    assert robot.on(graph).spec("brainstem").remap["cmd_vel"] == "base_controller/cmd_vel"


def test_the_fake_robot_of_the_docs_is_the_one_that_runs():
    (shown,) = blocks(ROOT / "docs" / "new-robot.md", "python")
    licence, _, code = (ROOT / "docs" / "fake_robot.py").read_text(encoding="utf-8").partition("\n")
    assert licence.startswith("# SPDX") and shown == code
    assert 20 <= len(code.splitlines()) <= 60


@pytest.mark.slow
def test_the_fake_robot_is_seen_and_moves_as_it_is_told(tmp_path):
    """As a process of its own, over a real router: all that a brain hears comes, and a command moves its odometry."""
    from brain_tests.stages import free_domain, free_port
    from brain_wire import open_node
    from brain_wire.messages import make
    from brain_wire.qos import FEATURE, SENSOR
    from brain_wire.router import Router

    types = {"scan": "sensor_msgs/msg/LaserScan", "odom": "nav_msgs/msg/Odometry",
             "camera/image_raw": "sensor_msgs/msg/Image", "camera/camera_info": "sensor_msgs/msg/CameraInfo"}
    port = free_port()
    endpoint, domain, said = f"tcp/127.0.0.1:{port}", free_domain(), tmp_path / "said.txt"
    with Router([endpoint]), open_node("tester", router=endpoint, domain=domain) as node, open(said, "wb") as out:
        heard = {topic: node.subscription(topic, kind, SENSOR) for topic, kind in types.items()}
        command = node.publisher("cmd_vel", "geometry_msgs/msg/TwistStamped", FEATURE)
        process = subprocess.Popen([sys.executable, ROOT / "docs" / "fake_robot.py"], stdout=out, stderr=out,
                                   env={**os.environ, "BRAIN_ROUTER": endpoint, "ROS_DOMAIN_ID": str(domain)})
        try:
            first = {topic: next(subscription.messages(30.0), None) for topic, subscription in heard.items()}
            assert None not in first.values(), f"{first} {said.read_text()}"
            image = first["camera/image_raw"]
            assert len(image.data) == image.height * image.step and len(first["scan"].ranges) >= 8
            assert first["camera/camera_info"].k[0] > 0
            assert all(message.header.stamp.sec > 1e9 for message in first.values())
            forward, moved, end = make("geometry_msgs/msg/TwistStamped"), 0.0, time.monotonic() + PATIENCE
            forward.twist.linear.x = 0.5
            while moved < 0.1 and time.monotonic() < end:
                command.publish(forward)
                moved = max((m.pose.pose.position.x for m in heard["odom"].messages(0.1)), default=moved)
            assert moved >= 0.1, said.read_text()
            assert "cmd_vel: +0.50 m/s, +0.00 rad/s" in said.read_text()
            # the base's own timeout: it stands when commands cease
            assert any(m.twist.twist.linear.x == 0.0 for m in heard["odom"].messages(20.0)), "it drives on"
            assert process.poll() is None, said.read_text()
        finally:
            process.kill()
            process.wait()

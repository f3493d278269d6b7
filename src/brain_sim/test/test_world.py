# SPDX-License-Identifier: Apache-2.0
"""World and camera as regions on the lockstep host, fed and read by topics only."""

import json
import math

import numpy as np
import pytest

from brain_runtime.hosts.local import LocalHost
from brain_sim import robot
from brain_sim.camera import RayCamera
from brain_sim.camera_region import Camera, planar_pose
from brain_sim.controls import Oracle
from brain_sim.suite import episodes
from brain_sim.world import World
from brain_wire.messages import make, time_seconds
from brain_wire.parameters import ParameterError


def text(value: str):
    return make("std_msgs/msg/String", data=value)


def twist(v: float, w: float):
    message = make("geometry_msgs/msg/TwistStamped")
    message.twist.linear.x, message.twist.angular.z = v, w
    return message


def verdict(host: LocalHost) -> dict:
    return json.loads(host.latest("sim/verdict").data)


def start(**parameters) -> LocalHost:
    regions = {"world": World(), "camera": Camera()}
    host = LocalHost(regions, parameters={"world": parameters})
    host.advance(0.02)
    return host


def test_rates_and_frames():
    host, count = start(seed=2), {}
    topics = ("scan", "imu", "odom", "sim/ground_truth", "camera/image_raw", "camera/camera_info")
    for topic in topics:
        host.listen(topic, lambda m, topic=topic: count.setdefault(topic, []).append(m))
    host.advance(2.0)
    rates = {t: len(count[t]) / 2.0 for t in topics}
    assert rates == pytest.approx({"scan": 10, "imu": 100, "odom": 50, "sim/ground_truth": 100,
                                   "camera/image_raw": 20, "camera/camera_info": 20}, abs=1)
    stamps = [time_seconds(m.header.stamp) for m in count["scan"]]
    assert np.diff(stamps) == pytest.approx(0.1, abs=1e-6)
    assert count["odom"][0].header.frame_id == "odom" and count["odom"][0].child_frame_id == "base_link"
    scan = count["scan"][0]
    assert len(scan.ranges) == 180 and scan.angle_min == pytest.approx(-math.pi)
    assert scan.angle_min + 179 * scan.angle_increment == pytest.approx(scan.angle_max)


def test_picture_is_of_the_pose_it_is_stamped_with():
    host = start(seed=4)
    truth = {}
    host.listen("sim/ground_truth", lambda m: truth.__setitem__(time_seconds(m.header.stamp), planar_pose(m)))
    pictures = []
    host.listen("camera/image_raw", pictures.append)
    host.stepper("camera").region.on_parameter("noise", False)
    for _ in range(20):
        host.publish("cmd_vel", twist(0.2, 1.0))
        host.advance(0.1)
    camera = RayCamera(json.loads(host.latest("sim/world").data)["xml"])
    assert len(pictures) > 30
    for image in pictures[5::7]:
        expected = camera.render(*truth[time_seconds(image.header.stamp)])
        assert image.encoding == "rgb8" and image.step == 3 * image.width
        got = image.data.reshape(image.height, image.width, 3)
        # The pose crossed the wire as a quaternion: a pixel at an edge may fall to the other side.
        assert (got != expected).any(axis=2).mean() < 0.01


def test_camera_info_is_the_cameras():
    host = start()
    host.advance(0.2)
    info = host.latest("camera/camera_info")
    assert (info.width, info.height) == (96, 64)
    assert info.k[0] == pytest.approx(48.0) and info.k[2] == 47.5 and info.k[5] == 31.5
    assert 2 * math.atan(96 / 2 / info.k[0]) == pytest.approx(robot.CAMERA_HFOV)


@pytest.mark.parametrize("stamped", [True, False])
def test_the_base_takes_the_type_it_is_told_to_take(stamped):
    host = start(stamped=stamped)
    turn = twist(0.0, 1.2) if stamped else twist(0.0, 1.2).twist
    for _ in range(10):
        host.publish("cmd_vel", turn)
        host.advance(0.05)
    assert host.latest("odom").twist.twist.angular.z == pytest.approx(1.2, abs=0.1)


def test_base_stops_when_commands_cease_and_the_world_says_when():
    host = start(request='{"split": "train", "seed": 0}')
    for _ in range(20):
        host.publish("cmd_vel", twist(0.0, 1.2))
        host.advance(0.05)
    host.publish("sim/mark", text("brainstem killed"))
    host.advance(2.0)
    invariants = verdict(host)["invariants"]
    assert invariants["violations"] == 0
    stops = {s["trigger"]: s["standstill_after"] for s in invariants["stops"]}
    assert 0.5 < stops["command timeout"] < 0.5 + 1.2 / 4.0 + 0.05
    assert stops["brainstem killed"] <= stops["command timeout"]


def test_nan_and_absurd_commands_do_no_harm():
    host = start(seed=1)
    before = planar_pose(host.latest("sim/ground_truth"))
    for bad in ((math.nan, 0.0), (0.0, math.inf), (math.nan, math.nan)):
        host.publish("cmd_vel", twist(*bad))
        host.advance(0.1)
    assert planar_pose(host.latest("sim/ground_truth")) == before
    host.publish("cmd_vel", twist(0.0, 1e30))
    host.advance(0.6)
    report = verdict(host)["invariants"]
    assert report["violations"] == 0 and report["max_turn"] <= robot.MAX_TURN * 1.001


@pytest.mark.parametrize("request_, says", [
    ("{", "Expecting"), ("[1]", "must be an object"), ('{"split": "vall"}', "'vall' is unknown"),
    ('{"split": "val", "seed": "x"}', "whole number"), ('{"split": "val", "sead": 1}', "unknown field sead"),
    ('{"split": "val", "goals": [{"target": ["red", "cone"], "text": "x"}]}', "cone"),
    ('{"split": "val", "goals": [{"target": ["red", "box"]}]}', "'text' is missing"),
    ('{"split": "val", "goals": 3}', "int"), ('{"split": "val", "low_obstacles": 99}', "0 to 4"),
    ('{"kind": "go"}', "missing"), ("[" * 100_000, "recursion")])
def test_bad_requests_are_refused_and_the_room_stays(request_, says):
    host = start(seed=3)
    before = host.latest("sim/world").data
    host.publish("sim/episode", text(request_))
    host.advance(0.1)
    assert says in verdict(host)["error"] and host.latest("sim/world").data == before
    host.publish("sim/episode", text('{"split": "val", "seed": 4}'))
    host.advance(0.1)
    assert verdict(host)["error"] == "" and host.latest("sim/world").data != before


def test_bad_request_parameter_is_named():
    with pytest.raises(ParameterError, match="request of world"):
        start(request='{"split": "vall"}')


def test_camera_ignores_what_is_no_room_and_no_pose(caplog):
    host = start(seed=3)
    host.advance(0.2)
    camera = host.stepper("camera").region.camera
    for junk in ("", "{}", '{"xml": "<mujoco>"}', '{"xml": 3}', "[" * 100_000):
        host.publish("sim/world", text(junk))
        host.advance(0.06)
    assert host.stepper("camera").region.camera is camera and "only the world may publish" in caplog.text
    host.kill("world")
    pose = make("nav_msgs/msg/Odometry")
    pose.pose.pose.position.x = math.nan
    host.publish("sim/ground_truth", pose)
    pictures = []
    host.listen("camera/image_raw", pictures.append)
    host.advance(0.3)
    assert pictures == []


def test_camera_falls_silent_without_poses_and_comes_back():
    host = start(seed=3)
    host.advance(0.2)
    host.kill("world")
    pictures = []
    host.listen("camera/image_raw", pictures.append)
    host.advance(2.0)
    assert len(pictures) <= 11
    host.join("world", World())
    host.advance(0.5)
    assert len(pictures) >= 18


def run_oracle(host: LocalHost, episode, seconds: float = 60.0) -> dict:
    """Drive by topics as a brain would, with the oracle's commands."""
    world = host.stepper("world").region
    host.publish("sim/episode", text(episode.to_json()))
    host.advance(0.05)
    oracle = Oracle(episode, world.simulation)
    script, begin = list(episode.script), host.now
    while host.now - begin < seconds:
        while script and host.now - begin >= script[0][0] - 1e-6:
            said = script.pop(0)[1]
            host.publish("goal/text", text(said))
            state = oracle.said(said)
            if state is not None:
                host.publish("goal/status", make("brain_interfaces/msg/GoalStatus", state=state, text=said))
        v, w = oracle.command()
        host.publish("cmd_vel", twist(v, w))
        host.advance(0.05)
        if verdict(host)["verdict"]:
            break
    return verdict(host)


@pytest.mark.parametrize("kind", ["go", "avoid", "stop", "absent", "nonsense"])
def test_episodes_are_judged_over_topics(kind):
    episode = next(e for e in episodes("train", 40, 3) if e.kind == kind)
    host = LocalHost({"world": World()})
    report = run_oracle(host, episode)
    assert report["verdict"]["outcome"] == "success" and report["verdict"]["id"] == episode.id
    assert report["contacts"] == [] and report["invariants"]["violations"] == 0
    assert len(report["track"]) > 5


def test_a_second_goal_is_judged_in_the_same_room_without_a_reset():
    first, second = "go to the red ball", "青い箱へ行って"
    request = {"split": "train", "seed": 5, "goals": [
        {"text": first, "target": ["red", "ball"]}, {"text": second, "target": ["blue", "box"]}]}
    host = LocalHost({"world": World()}, parameters={"world": {"request": json.dumps(request)}})
    host.advance(0.05)
    world = host.stepper("world").region
    names = {o.kind: o for o in world.simulation.room.objects}
    from brain_sim.controls import _Visit
    from brain_sim.planner import Planner
    for n, (said, kind) in enumerate(((first, ("red", "ball")), (second, ("blue", "box")))):
        host.publish("goal/text", text(said))
        host.advance(0.05)
        assert verdict(host)["judging"] == said
        visit = _Visit(Planner(world.simulation.room), world.simulation, names[kind], None)
        for _ in range(1200):
            host.publish("cmd_vel", twist(*(visit.command(world.simulation) or (0.0, 0.0))))
            host.advance(0.05)
            if len(verdict(host)["verdicts"]) > n:
                break
        assert [v["outcome"] for v in verdict(host)["verdicts"]] == ["success"] * (n + 1)
    assert verdict(host)["reset"] == 1 and verdict(host)["verdict"]["sentence"] == second


def test_two_lockstep_runs_are_the_same_to_the_bit():
    def run() -> list[bytes]:
        from brain_wire.messages import encode
        host, out = start(seed=6), []
        for topic in ("scan", "imu", "odom", "camera/image_raw", "sim/ground_truth"):
            host.listen(topic, lambda m: out.append(bytes(encode(m))))
        rng = np.random.default_rng(1)
        for _ in range(40):
            host.publish("cmd_vel", twist(*rng.uniform(-1, 1, 2)))
            host.advance(0.05)
        return out

    first = run()
    assert len(first) > 300 and first == run()


def test_a_frozen_world_catches_up_one_second_at_most():
    world = World("world")
    world.configure({})
    host = LocalHost({})
    host.join("world", world)
    host.advance(0.1)
    from brain_runtime.contract.region import Inbox
    world.step(Inbox({}), {}, 5.0, np.random.default_rng(0))
    assert world.simulation.time == pytest.approx(1.1, abs=0.02)
    assert world.report()["lost"] == pytest.approx(4.0)

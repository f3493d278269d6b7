# SPDX-License-Identifier: Apache-2.0
"""``brain robot new``: a profile by what a fake robot on a real wire tells, by options, and by a person's answers."""
import math
import os
import subprocess
import sys

import pytest

from brain_observe.doctor.heard import DEVICES, Heard
from brain_observe.new_robot import proposals
from brain_runtime.graph import graphs
from brain_runtime.graph.robots import Robot, load_robot
from brain_tests.cases import of_all
from brain_tests.fake_robot import FakeRobot
from brain_tests.in_process import brain
from brain_wire import messages, names, open_session
from brain_wire.router import Router, free_port

DOMAIN = 78
HIS = {"scan": "front/scan", "odom": "base/odom", "camera/image_raw": "eye/color/image_raw",
       "camera/camera_info": "eye/color/camera_info", "cmd_vel": "base/cmd_vel"}
SHARED = {"radius": 0.25, "lidar_x": 0.1, "lidar_y": -0.05, "lidar_yaw": 1.5, "camera_x": 0.2, "camera_height": 0.4,
          "camera_yaw": 0.1, "field_of_view": 1.2, "stamped": False}


@pytest.fixture(scope="module")
def wire():
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]), open_session(endpoint, patience=10) as session:
        yield endpoint, session


@pytest.fixture
def environment(tmp_path, wire):
    return {"ROS_DOMAIN_ID": str(DOMAIN), "BRAIN_ROUTER": wire[0], "XDG_STATE_HOME": str(tmp_path),
            "RMW_IMPLEMENTATION": ""}


@pytest.fixture
def robot(wire, tmp_path):
    """A fake robot whose topics and mounts are no default's."""
    with FakeRobot(wire[1], Robot("his", tmp_path, topics=HIS, shared=SHARED), DOMAIN):
        yield


def test_a_running_robots_profile_is_written_unasked(robot, environment, tmp_path):
    file = tmp_path / "mine.yaml"
    done = brain("robot", "new", str(file), "--yes", "--radius", "0.25", "--command-timeout", "0.4", "--description",
                 "mine: a 'robot' # of ours", environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    written = load_robot(str(file))
    assert written.topics == HIS and written.command_timeout == 0.4
    assert written.description == "mine: a 'robot' # of ours"
    for name, value in SHARED.items():
        assert written.shared[name] == (pytest.approx(value, abs=0.01) if value is not False else False), name
    assert written.shared["base_frame"] == "base_link" and written.shared["max_linear"] == 0.1
    assert 5.0 < written.kit["lidar"]["rate"] < 12.0 and 10.0 < written.kit["base"]["odom_rate"] < 24.0
    assert written.kit["lidar"]["beams"] == 180 and written.kit["lidar"]["frame"] == "base_scan"
    assert (written.kit["camera"]["width"], written.kit["camera"]["height_px"]) == (96, 64)
    assert written.parameters(graphs.load("brain"))["brainstem"]["max_reverse"] == 0.0
    # and the doctor finds nothing wrong with it
    told = brain("doctor", "--robot", str(file), environment=environment)
    assert told.returncode == 0 and "nothing is wrong" in told.stdout, told.stdout + told.stderr


def answers(file, text, environment, *more):
    return subprocess.run([sys.executable, "-m", "brain", "robot", "new", str(file), *more], input=text, text=True,
                          capture_output=True, env={**os.environ, **environment}, timeout=240)


def test_a_person_is_asked_and_may_take_what_is_proposed(robot, environment, tmp_path):
    file = tmp_path / "asked.yaml"
    # topics, frame: as proposed; a radius that is none, one that is too large, one that is right; then all the rest
    done = answers(file, "\n" * 6 + "wide\n9\n0.35\n" + "\n" * 20, environment)
    assert done.returncode == 0, done.stderr
    assert "'wide' is none" in done.stderr and "9 must be between 0.02 and 2" in done.stderr
    written = load_robot(str(file))
    assert written.topics == HIS and written.shared["radius"] == 0.35 and written.shared["stamped"] is False
    assert "command_timeout" in done.stdout and written.command_timeout is None     # nobody measured it


def test_without_an_answer_nothing_is_written(environment, tmp_path):
    done = answers(tmp_path / "none.yaml", "\n\n", environment, "--offline")
    assert done.returncode == 2 and "nobody answers; give --" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_not_replaced_unasked(environment, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("description: old\n", encoding="utf-8")
    done = brain("robot", "new", str(file), "--offline", "--yes", environment=environment)
    assert done.returncode == 2 and "is there already; --overwrite replaces it" in done.stderr
    done = answers(file, "no\n", environment, "--offline")
    assert done.returncode == 1 and file.read_text(encoding="utf-8") == "description: old\n"
    done = answers(file, "yes\n" + "\n" * 40, environment, "--offline")
    assert done.returncode == 0 and load_robot(str(file)).description == "my robot", done.stderr
    done = brain("robot", "new", str(file), "--offline", "--yes", "--overwrite", "--radius", "0.5",
                 environment=environment)
    assert done.returncode == 0 and load_robot(str(file)).shared["radius"] == 0.5


def test_without_a_router_it_says_what_to_do(environment, tmp_path):
    done = brain("robot", "new", str(tmp_path / "a.yaml"), "--yes", environment={
        **environment, "BRAIN_ROUTER": f"tcp/127.0.0.1:{free_port()}"})
    assert done.returncode == 1 and "--offline" in done.stderr and not (tmp_path / "a.yaml").exists()


def test_what_does_not_fit_is_named_and_leaves_no_file(environment, tmp_path):
    done = brain("robot", "new", str(tmp_path / "a.yaml"), "--offline", "--yes", "--cmd-vel", "no topic",
                 environment=environment)
    assert done.returncode == 1 and "no topic" in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []
    assert brain("robot", "new", str(tmp_path / "a.txt"), "--yes", environment=environment).returncode == 2


def endpoint(topic, kind, type_name):
    return names.Endpoint(0, "a", 1, 2, kind, "/", "driver", topic, messages.dds_type(type_name), "h")


CAMERAS = [("/cam/depth/image_raw", "/cam/color/image_raw"), ("/left/image_raw", "/image_raw"),
           ("/stereo/image", "/oakd/rgb/preview/image_raw")]


@of_all(CAMERAS)
def test_the_picture_in_color_is_proposed_with_its_own_camera_info(case):
    other, wanted = case
    heard = Heard(load_robot("sim"))
    for topic in (other, wanted):
        heard.endpoints.append(endpoint(topic, names.PUBLISHER, DEVICES["camera/image_raw"].type))
        heard.endpoints.append(endpoint(topic.rpartition("/")[0] + "/camera_info", names.PUBLISHER,
                                        DEVICES["camera/camera_info"].type))
    found = proposals.topics(heard)
    assert found["camera/image_raw"][0] == wanted.lstrip("/")
    assert found["camera/camera_info"][0] == f"{wanted.rpartition('/')[0]}/camera_info".lstrip("/")


def test_the_base_is_proposed_before_what_only_smooths_or_muxes():
    heard = Heard(load_robot("sim"))
    for topic, kind in (("/cmd_vel_nav", "Twist"), ("/joy_teleop/cmd_vel", "TwistStamped"),
                        ("/base/cmd_vel", "TwistStamped")):
        heard.endpoints.append(endpoint(topic, names.SUBSCRIPTION, f"geometry_msgs/msg/{kind}"))
    assert proposals.topics(heard)["cmd_vel"][0] == "base/cmd_vel"
    assert proposals.stamped(heard, "base/cmd_vel") is True and proposals.stamped(heard, "cmd_vel_nav") is False
    assert proposals.stamped(heard, "nowhere") is None and math.isnan(proposals.rate([]))

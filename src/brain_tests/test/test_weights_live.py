# SPDX-License-Identifier: Apache-2.0
"""Weights of a region that runs: read anew between two steps, on every host; those that do not fit are refused."""
import importlib.util
import math

import numpy as np
import pytest

from brain_regions.motor import weights
from brain_runtime import FEATURE, SENSOR, STREAM
from brain_tests.stage_of import make_stage
from brain_wire import messages

ROS = [pytest.param("ros", marks=pytest.mark.colcon)] if importlib.util.find_spec("rclpy") else []
HOSTS = ["local", "zenoh", *ROS]


@pytest.fixture(params=HOSTS)
def stage(request, tmp_path):
    made = make_stage(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def still(tmp_path):
    """A weight file whose network answers nothing, so that the robot stands."""
    tensors = dict(weights.load().tensors)
    tensors["readout"] = np.zeros_like(tensors["readout"])
    path = tmp_path / "still.safetensors"
    weights.save(path, tensors, {}, {}, ann=False)
    return path


def drive(stage, heard):
    """Speed (m/s) that motor commands when it is told to drive ahead in an empty room, after half a second."""
    scan = messages.make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi, range_min=0.1,
                         angle_increment=math.pi / 90, range_max=10.0, ranges=np.full(180, 3.0, np.float32))
    control = messages.make("brain_interfaces/msg/Control", mode=1, heading=0.0, speed=1.0, bearing=math.nan,
                            distance=math.nan)
    for _ in range(10):
        stage.say("scan", scan, SENSOR)
        stage.say("pfc/control", control, FEATURE)
        stage.pause(0.05)
    return heard[-1].twist.linear.x if heard else 0.0


def test_weights_are_read_anew_while_it_runs_and_wrong_ones_are_refused(stage, still, tmp_path):
    heard = stage.hear("motor/command", "brain_interfaces/msg/MotorCommand", FEATURE)
    stage.start("brain_regions.motor:Motor")
    beats = stage.hear("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
    stage.until(lambda: drive(stage, heard) > 0.4)
    assert beats[-1].weights == weights.load().digest
    assert stage.change(weights=str(still)) == ""
    stage.until(lambda: drive(stage, heard) == 0.0)
    stage.until(lambda: beats[-1].weights == weights.load(still).digest)
    assert stage.change(weights="motor") == ""
    stage.until(lambda: drive(stage, heard) > 0.4)
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes(still.read_bytes()[:1000])
    for wrong, why in ((tmp_path / "none.safetensors", "are missing"), (torn, "is torn or none"),
                       ("motor_ann", "does not fit"), ("other", "there are motor, motor_ann")):
        refused = stage.change(weights=str(wrong))
        assert why in refused and "\n" not in refused and refused.startswith("mirror keeps the weights that it has")
    refused = stage.change(device="cuda")
    assert "computes on cpu alone" in refused and "set device to cpu" in refused
    assert "must be one of cpu, cuda" in stage.change(device="tpu")
    stage.until(lambda: drive(stage, heard) > 0.4)


def test_weights_at_the_start(stage, still):
    heard = stage.hear("motor/command", "brain_interfaces/msg/MotorCommand", FEATURE)
    stage.start("brain_regions.motor:Motor", weights=str(still))
    stage.until(lambda: drive(stage, heard) == 0.0 and heard)
    assert stage.change(weights="") == ""
    stage.until(lambda: drive(stage, heard) > 0.4)


def test_membranes_go_on_when_weights_are_read_anew(tmp_path):
    # the same weights in a file with other bytes
    weights.save(tmp_path / "same.safetensors", weights.load().tensors, {"note": "another file"}, {}, ann=False)
    ways = []
    for name, anew in (("once", False), ("anew", True)):
        stage = make_stage("local", tmp_path / name)
        try:
            commands, spikes = (stage.hear(topic, f"brain_interfaces/msg/{kind}", quality) for topic, kind, quality in (
                ("motor/command", "MotorCommand", FEATURE), ("brain/spikes", "SpikeTrain", STREAM)))
            stage.start("brain_regions.motor:Motor")
            drive(stage, commands)
            before = len(spikes)
            if anew:
                assert stage.change(weights=str(tmp_path / "same.safetensors")) == ""
            drive(stage, commands)
            ways.append(([(c.twist.linear.x, c.twist.angular.z) for c in commands],
                         [(s.neuron.tolist(), s.bin.tolist()) for s in spikes]))
        finally:
            stage.close()
    assert ways[0] == ways[1] and len(ways[0][1]) > before > 0
    assert any(neurons for neurons, _ in ways[0][1][before:])

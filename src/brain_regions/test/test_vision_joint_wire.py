# SPDX-License-Identifier: Apache-2.0
"""Two processes over a real router: a vision that asks, and one that answers, is killed, and comes back."""
from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from brain_regions.vision import weights
from brain_wire import Node, open_node
from brain_wire.messages import make, time_message
from brain_wire.router import Router, free_port

pytestmark = pytest.mark.slow

PATIENCE = 240.0    # s; only against waiting for ever
LOOK = 2.0          # s for what is told of a picture; none before vision is there, or when it was lost
LAST = 6            # pictures
DETECTED = "brain_interfaces/msg/DetectedObjects"


class Pair:
    """Both processes, and a camera before them."""

    def __init__(self, folder: Path, endpoint: str, domain: int, node: Node) -> None:
        self.folder, self.endpoint, self.domain = folder, endpoint, domain
        self.processes: dict[str, subprocess.Popen] = {}
        self.camera = node.publisher("camera/image_raw", "sensor_msgs/msg/Image")
        self.objects = node.subscription("vision/objects", DETECTED)
        self.told: list = []
        self.seen = 0

    def start(self, name: str, of: str, **parameters: float) -> None:
        values = [word for key, value in parameters.items() for word in ("-p", f"{key}:={value}")]
        environment = {**os.environ, "ROS_DOMAIN_ID": str(self.domain),
                       "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "brain_runtime.process", "--class", f"brain_regions.vision.{of}", "--name", name,
                 "--router", self.endpoint, "--ros-args", *values], env=environment, stdout=log, stderr=log)

    def see_until(self, condition) -> None:
        """Pictures, one when what was told of the one before is there, until what was told of the last is so."""
        end = time.monotonic() + PATIENCE
        while not (len(self.told) >= LAST and condition(self.told[-LAST:])):
            assert time.monotonic() < end, "\n".join(path.read_text() for path in self.folder.glob("*.log"))
            self.seen += 1
            header = make("std_msgs/msg/Header", stamp=time_message(float(self.seen)))
            self.camera.publish(make("sensor_msgs/msg/Image", header=header, height=64, width=96, encoding="rgb8",
                                     step=288, data=weights.patches().reshape(-1)))
            came = len(self.told)
            look = min(time.monotonic() + LOOK, end)
            while len(self.told) == came and time.monotonic() < look:
                self.told += self.objects.messages(timeout=0.1)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def pair(tmp_path: Path):
    port = free_port()
    endpoint, domain = f"tcp/127.0.0.1:{port}", port % 200
    with Router([endpoint]), open_node("tester", domain=domain, router=endpoint, patience=30) as node:
        made = Pair(tmp_path, endpoint, domain, node)
        try:
            yield made
        finally:
            made.close()


def answered(told: list) -> bool:
    return sum(bool(message.objects) for message in told) > LAST // 2   # its own network tells nothing: confidence=1


def alone(told: list) -> bool:
    return not any(message.objects for message in told)


def test_a_helper_that_is_killed_and_comes_back_costs_no_picture_its_place(pair: Pair) -> None:
    pair.start("vision", "joint:JointVision", confidence=1.0, doubt=0.0, carry=0.0, share=1.0, most_rate=100.0,
               deadline=0.5, probe=0.2)
    pair.see_until(alone)
    pair.start("second", "second:SecondVision", confidence=0.0)
    pair.see_until(answered)
    pair.processes["second"].kill()
    pair.see_until(alone)
    pair.start("second", "second:SecondVision", confidence=0.0)
    pair.see_until(answered)
    stamps = [(m.header.stamp.sec, m.header.stamp.nanosec) for m in pair.told]
    assert stamps == sorted(set(stamps))
    log = (pair.folder / "vision.log").read_text()
    assert "nobody answers in time" in log and "Traceback" not in log

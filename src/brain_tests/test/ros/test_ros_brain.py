# SPDX-License-Identifier: Apache-2.0
"""A whole brain on rclpy, each node as launch starts it, drives its robot to what it is told."""

from __future__ import annotations

import pytest

from brain_eval.ros_realtime import command, run_many
from brain_runtime.graph.launching import launched
from brain_sim.suite import episodes


def test_an_episode_is_reached() -> None:
    ((index, result),) = run_many(episodes("val", 1, 1))
    assert index == 0 and result["success"], result
    assert result["restarts"] == [] and result["spikes"] > 1000 and result["latency"]["n"] > 20


def test_the_command_lines_are_launchs(tmp_path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("/**/brainstem:\n  ros__parameters:\n    radius: 0.2\n")
    (brainstem,) = launched(robot="turtlebot3_burger", only=["brainstem"], params=str(mine), log_level="debug",
                            state_dir="/var/lib/brain")
    line = command(brainstem)
    assert line[line.index("--params-file") + 1] == str(mine)
    assert {"critical:=[pfc, motor]", "use_sim_time:=false", "__node:=brainstem", "debug"} <= set(line)
    assert "/var/lib/brain" in line


def test_what_cannot_be_had_on_ros_says_so() -> None:
    with pytest.raises(ValueError, match="leave --jobs at 1"):
        next(run_many([], jobs=2))
    with pytest.raises(ValueError, match="blind is not made for ROS 2"):
        next(run_many(episodes("val", 1, 1), "blind"))

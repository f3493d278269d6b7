# SPDX-License-Identifier: Apache-2.0
"""Private names of rclpy: the installed release has all of them, and one that lacks one is refused in a line."""
from __future__ import annotations

import pytest

from brain_runtime import rclpy_private
from brain_wire.private_names import PrivateNameMissing


@pytest.mark.colcon
def test_the_release_has_each_name():
    pytest.importorskip("rclpy")
    for name in rclpy_private.NAMES:
        assert issubclass(getattr(rclpy_private, name), Exception)


def test_a_release_without_a_name_is_refused_in_a_line_that_says_which(monkeypatch):
    monkeypatch.setitem(rclpy_private.NAMES, "RCLError", ("rclpy._rclpy_pybind11", "NoSuchError"))
    with pytest.raises(PrivateNameMissing, match=r"rclpy .*has no rclpy._rclpy_pybind11.NoSuchError, a private name "
                                                 r"that is used here; install a distribution of ROS 2"):
        print(rclpy_private.RCLError)
    with pytest.raises(AttributeError):
        print(rclpy_private.nothing)

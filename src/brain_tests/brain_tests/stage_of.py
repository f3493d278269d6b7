# SPDX-License-Identifier: Apache-2.0
"""The stage of a host by its name; see :mod:`brain_tests.stages`."""
from __future__ import annotations

from pathlib import Path

from brain_tests.stages import LocalStage, Stage, ZenohStage


def make_stage(host: str, folder: Path) -> Stage:
    """The stage of ``local``, ``zenoh`` or ``ros``, which keeps its logs in ``folder``."""
    if host == "ros":
        from brain_tests.ros_stage import RosStage  # which needs rclpy
        return RosStage(folder)
    return {"local": LocalStage, "zenoh": ZenohStage}[host](folder)

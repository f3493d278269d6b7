# SPDX-License-Identifier: Apache-2.0
"""The stage of a host by its name; see :mod:`brain_tests.stages`."""
from __future__ import annotations

from pathlib import Path

from brain_tests.stages import LocalStage, Stage, ZenohStage

NOT_ON_A_STATIC_GROUP = {
    "test_latched_topics_reach_who_comes_late_both_ways": "nobody comes late",
    "test_what_is_latched_triggers_a_step_of_who_comes_late": "nobody comes late",
    "test_volatile_topics_do_not": "nobody comes late",
    "test_state_comes_back_after_a_death_without_a_word": "a rank that dies takes all others with it, and no state is "
                                                          "kept",
    "test_whoever_does_not_latch_is_heard_on_a_latched_topic_and_each_publication_counts_once": "nobody comes late",
    "test_a_latched_publication_counts_once": "nobody comes late"}
"""What of the conformance suite cannot be, and why."""


def make_stage(host: str, folder: Path) -> Stage:
    """The stage of ``local``, ``zenoh``, ``torch`` or ``ros``, which keeps its logs in ``folder``."""
    if host == "ros":
        from brain_tests.ros_stage import RosStage  # which needs rclpy
        return RosStage(folder)
    if host == "torch":
        from brain_tests.torch_stage import TorchStage  # which needs torch
        return TorchStage(folder)
    return {"local": LocalStage, "zenoh": ZenohStage}[host](folder)

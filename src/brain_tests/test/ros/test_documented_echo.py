# SPDX-License-Identifier: Apache-2.0
"""The QoS of the documentation's `ros2 topic` lines, as ros2cli makes it of their flags, hears what was said before."""

from __future__ import annotations

import os
import re
import shlex
import time
from pathlib import Path

import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import (DurabilityPolicy, QoSDurabilityPolicy, QoSPresetProfiles, QoSProfile, QoSReliabilityPolicy,
                       ReliabilityPolicy)
from std_msgs.msg import String

from brain_tests.stages import free_domain

ROOT = Path(os.path.realpath(__file__)).parents[4]
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def documented(verb: str) -> list[tuple[str, list[str]]]:
    """File and words of each `ros2 topic VERB` in the documentation that asks for what is latched."""
    found = []
    for path in sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]):
        for line in re.findall(rf"^ros2 topic {verb} .*transient_local.*$", path.read_text(encoding="utf-8"), re.M):
            found.append((path.name, shlex.split(line, comments=True)))
    return found


def quality(words: list[str], preset: str) -> QoSProfile:
    """What ros2cli makes of the flags: they are laid over a preset, which for `echo` is that of sensors."""
    shared = QoSPresetProfiles.get_from_short_key(preset)   # by all in this process
    profile = QoSProfile(history=shared.history, depth=shared.depth, reliability=shared.reliability,
                         durability=shared.durability)
    for flag, value in zip(words, words[1:], strict=False):
        if flag == "--qos-reliability":
            profile.reliability = QoSReliabilityPolicy.get_from_short_key(value)
        if flag == "--qos-durability":
            profile.durability = QoSDurabilityPolicy.get_from_short_key(value)
    return profile


def hears(folder: Path, profile: QoSProfile) -> bool:
    """Whether a subscription that comes late hears what a latched publisher said before."""
    context = Context()
    rclpy.init(context=context, domain_id=free_domain())
    node, executor = Node("tester", context=context), SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        node.create_publisher(String, "status", LATCHED).publish(String(data="before"))
        heard: list[String] = []
        node.create_subscription(String, "status", heard.append, profile)
        end = time.monotonic() + 2.0
        while not heard and time.monotonic() < end:
            executor.spin_once(0.1)
        return bool(heard)
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()


def reaches(words: list[str]) -> bool:
    """Whether what is published once reaches a latched input that is found later than another subscriber is."""
    option = dict(zip(words, words[1:], strict=False))
    assert "--once" in words and "-w" not in words
    context, others = Context(), Context()
    for one in (context, others):
        rclpy.init(context=one, domain_id=free_domain() if one is context else context.get_domain_id())
    node, executor = Node("brain", context=others), SingleThreadedExecutor(context=others)
    executor.add_node(node)
    publishing = Node("pub", context=context)
    try:
        node.create_subscription(String, "said", lambda message: None, 10)      # a recorder
        publisher = publishing.create_publisher(String, "said", quality(words, "default"))
        while not publisher.get_subscription_count():   # this and what follows is what ros2cli does
            time.sleep(0.05)
        publisher.publish(String(data="go"))
        now = time.monotonic()
        finds, leaves = now + 1.0, now + float(option.get("--keep-alive", 0.1))
        heard: list[String] = []
        steps = [(finds, lambda: node.create_subscription(String, "said", heard.append, LATCHED)),  # a brain
                 (leaves, lambda: publishing.destroy_publisher(publisher)), (finds + 1.0, bool)]
        for at, step in sorted(steps, key=lambda pair: pair[0]):
            while time.monotonic() < at and not heard:
                executor.spin_once(0.1)
            step()
        return bool(heard)
    finally:
        executor.shutdown()
        node.destroy_node()
        publishing.destroy_node()
        context.try_shutdown()
        others.try_shutdown()


@pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not installed")
def test_each_documented_pub_is_heard_beside_a_recorder() -> None:
    pages = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("README*.md")])
    lines = [(path.name, shlex.split(line, comments=True)) for path in pages for line in re.findall(
        r"^ros2 topic pub --once .*$", path.read_text(encoding="utf-8"), re.M)]
    assert {words[-3] for _, words in lines} == {"/goal/text", "/estop"}
    ways = {tuple(words[:words.index(words[-3])]): f"{place}: {' '.join(words)}" for place, words in lines}
    for words, line in ways.items():
        assert reaches(list(words)), line
    assert not reaches(["--once", "--qos-durability", "transient_local"])   # or nothing is proved


@pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not installed")
def test_each_documented_echo_of_what_is_latched_hears_it(tmp_path: Path) -> None:
    lines = documented("echo")
    assert len(lines) >= 2
    for place, words in lines:
        assert hears(tmp_path, quality(words, "sensor_data")), f"{place}: {' '.join(words)}"
    for place, words in documented("pub"):
        profile = quality(words, "default")
        assert profile.reliability == ReliabilityPolicy.RELIABLE, f"{place}: {' '.join(words)}"
        assert profile.durability == DurabilityPolicy.TRANSIENT_LOCAL

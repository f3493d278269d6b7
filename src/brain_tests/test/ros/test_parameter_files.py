# SPDX-License-Identifier: Apache-2.0
"""Our reading of ``--ros-args`` beside rclpy's: of the same files, patterns and ``-p``, the same parameters."""
from __future__ import annotations

import random
from pathlib import Path

import pytest
import rclpy
import yaml
from rclpy.context import Context
from rclpy.node import Node

from brain_runtime.hosts import ros_args

PATTERNS = ["/**", "/r/pfc", "/r/*", "/**/pfc", "/*/pfc", "/other", "/r/other", "/**/other"]


def rclpys(arguments: list[str]) -> dict:
    """Parameters that rclpy would give the node /r/pfc."""
    context = Context()
    rclpy.init(args=["test", "--ros-args", *arguments], context=context)
    try:
        node = Node("pfc", namespace="/r", context=context, enable_rosout=False, start_parameter_services=False)
        try:
            return {name: parameter.value for name, parameter in node._parameter_overrides.items()}
        finally:
            node.destroy_node()
    finally:
        context.try_shutdown()


@pytest.mark.parametrize("seed", range(12))
def test_the_same_parameters_in_the_same_order(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    arguments = []
    for number in range(draw.randrange(1, 4)):
        if draw.random() < 0.3:
            arguments += ["-p", f"{draw.choice('abc')}:={draw.randrange(100)}"]
        content = {pattern: {"ros__parameters": {name: draw.randrange(100) for name in draw.sample("abc", 2)}}
                   for pattern in draw.sample(PATTERNS, draw.randrange(1, 5))}
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        arguments += ["--params-file", str(file)]
    ours, _ = ros_args.parse(["--ros-args", *arguments])
    assert ours.parameters("pfc", "/r") == rclpys(arguments)


def test_what_stands_without_quotes_is_what_it_is_to_ros(tmp_path: Path) -> None:
    texts = ("y n Y yes No on off OFF tRue true 010 08 0x10 -0x1F 0o17 0b11 1_000 1_0.5 1e3 1. +1 .5 010.5 1:30 .inf "
             "-.INF +.inf inf infinity ~ null 2001-01-01 1e400 1,000 = !!str&y 'y' 9223372036854775807 "
             "9223372036854775808 12:30:45 [y,&n] ['1',&a] [1,&2] [0.5,&1.]").split()
    file = tmp_path / "plain.yaml"
    file.write_text("/r/pfc:\n  ros__parameters:\n" + "".join(
        f"    a{number}: {text.replace('&', ' ')}\n" for number, text in enumerate(texts)))
    ours, _ = ros_args.parse(["--ros-args", "--params-file", str(file)])
    mine, theirs = ours.parameters("pfc", "/r"), rclpys(["--params-file", str(file)])
    wrong = [f"{text}: {mine[name]!r}, to rclpy {theirs[name]!r}" for name, text in zip(theirs, texts, strict=True)
             for value in [theirs[name]] for value in [list(value) if hasattr(value, "itemsize") else value]
             if mine[name] != value or type(mine[name]) is not type(value)]
    assert not wrong and len(mine) == len(texts), "\n".join(wrong)
    for text in ("[1, 2.5]", "[1, true]", "[a, 1]"):
        with pytest.raises(ros_args.RosArgsError, match="one kind"):
            ros_args.parse(["--ros-args", "-p", f"a:={text}"])


def test_nested_names_lists_and_kinds(tmp_path: Path) -> None:
    file = tmp_path / "kinds.yaml"
    file.write_text("/r:\n  pfc:\n    ros__parameters:\n      outer:\n        inner: 1.5\n      texts: ['a', 'true']\n"
                    "      numbers: [1.0, 2.5]\n      flags: [true, false]\n      text: '5'\n")
    ours, _ = ros_args.parse(["--ros-args", "--params-file", str(file)])
    theirs = rclpys(["--params-file", str(file)])
    assert ours.parameters("pfc", "/r") == {name: list(v) if name in ("texts", "numbers", "flags") else v
                                            for name, v in theirs.items()}

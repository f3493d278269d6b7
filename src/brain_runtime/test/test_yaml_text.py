# SPDX-License-Identifier: Apache-2.0
"""YAML that people wrote: numbers as ROS 2 takes them. What must not be read is fuzzed in brain_tests."""
import math

import pytest

from brain_runtime import yaml_text
from brain_runtime.hosts import ros_args


@pytest.mark.parametrize(("text", "value"), [
    ("5.0e6", 5.0e6), ("5.0e+6", 5.0e6), ("1e5", 1e5), ("-1E-3", -1e-3), (".5e1", 5.0), ("2.e2", 200.0), ("0.5", 0.5),
    (".inf", math.inf), ("7", 7), ("0x10", 16), ("1e", "1e"), ("e5", "e5"), ("1e5m", "1e5m"), ("'1e5'", "1e5")])
def test_numbers(text, value):
    found = yaml_text.parse(f"a: {text}")["a"]
    assert found == value and type(found) is type(value)


def test_a_list_that_launch_wrote_is_a_list_of_a_parameter_and_of_nothing_else():
    text = "a: !!python/tuple\n- 0.5\n- on\n"
    assert yaml_text.parse(text, ros=True) == {"a": [0.5, True]}
    with pytest.raises(yaml_text.YamlProblem, match="python/tuple"):
        yaml_text.parse(text)


def test_a_parameter_with_an_exponent_is_a_number():
    ros, _ = ros_args.parse(["--ros-args", "-p", "energy_budget:=2e4"])
    assert ros.parameters("vision", "/") == {"energy_budget": 2e4}


def test_a_key_that_stands_twice_is_refused_and_a_merged_one_is_not():
    with pytest.raises(yaml_text.YamlProblem, match="the key 'a' stands twice in a mapping, again in line 4"):
        yaml_text.parse("regions:\n  a: x\n  b: y\n  a: z\n")
    assert yaml_text.parse("one: &one {a: 1, b: 2}\ntwo: {<<: *one, a: 3}\nthree: {<<: *one}") == {
        "one": {"a": 1, "b": 2}, "two": {"a": 3, "b": 2}, "three": {"a": 1, "b": 2}}
    bomb = "a0: &a0 {a: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 17))
    with pytest.raises(yaml_text.YamlProblem, match="more than 20000 values"):
        yaml_text.parse(bomb)

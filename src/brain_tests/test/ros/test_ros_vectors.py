# SPDX-License-Identifier: Apache-2.0
"""The wire vectors are what this ROS 2 says: its bytes, its hashes."""

import json

import pytest

from brain_runtime.share import share_directory
from brain_tests import ros_wire_vectors, wire_vectors
from brain_tests.cases import of_all
from brain_wire import services, type_descriptions

VECTORS = wire_vectors.read()


@of_all(enumerate(VECTORS["types"], 1))
def test_every_type(case: tuple[int, str]) -> None:
    number, name = case
    stored, made = VECTORS["types"][name], ros_wire_vectors.vector(name, number)
    # Where the vectors were written, not every package may have been there.
    assert {**made, "source": stored["source"]} == stored, wire_vectors.AGAIN
    assert stored["source"] == "rclpy" or not name.startswith("brain_interfaces/")


@of_all([*VECTORS["types"], type_descriptions.SERVICE])
def test_every_types_description(name: str) -> None:
    """What a region answers to get_type_description is what rosidl wrote down; default values are not known to it."""
    package, kind, leaf = name.split("/")
    try:
        folder = share_directory(package)
    except FileNotFoundError:
        pytest.skip(f"{package} is not installed")
    told = json.loads((folder / kind / f"{leaf}.json").read_text(encoding="utf-8"))["type_description_msg"]
    for one in (told["type_description"], *told["referenced_type_descriptions"]):
        for field in one["fields"]:
            field["default_value"] = ""
    if name == type_descriptions.SERVICE:
        services.service_type(name)
    assert wire_vectors.plain(type_descriptions.description(name)) == told


@of_all(VECTORS["parts"])
def test_every_part_of_an_action(name: str) -> None:
    assert ros_wire_vectors.part(name) == VECTORS["parts"][name], wire_vectors.AGAIN


def test_the_file_is_as_it_is_written() -> None:
    assert wire_vectors.FILE.read_text(encoding="utf-8") == ros_wire_vectors.text(VECTORS)

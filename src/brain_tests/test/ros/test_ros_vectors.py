# SPDX-License-Identifier: Apache-2.0
"""The wire vectors are what this ROS 2 says: its bytes, its hashes."""

import pytest

from brain_tests import ros_wire_vectors, wire_vectors

VECTORS = wire_vectors.read()


@pytest.mark.parametrize("number, name", list(enumerate(VECTORS["types"], 1)))
def test_a_type(number: int, name: str) -> None:
    stored, made = VECTORS["types"][name], ros_wire_vectors.vector(name, number)
    # Where the vectors were written, not every package may have been there.
    assert {**made, "source": stored["source"]} == stored, wire_vectors.AGAIN
    assert stored["source"] == "rclpy" or not name.startswith("brain_interfaces/")


@pytest.mark.parametrize("name", VECTORS["parts"])
def test_a_part_of_an_action(name: str) -> None:
    assert ros_wire_vectors.part(name) == VECTORS["parts"][name], wire_vectors.AGAIN


def test_the_file_is_as_it_is_written() -> None:
    assert wire_vectors.FILE.read_text(encoding="utf-8") == ros_wire_vectors.text(VECTORS)

# SPDX-License-Identifier: Apache-2.0
"""Our dataclasses and rosidl's classes: the same type hashes, the same CDR bytes, the same constants.

Every message of brain_interfaces and every standard one that the brain uses, filled at random up to its bounds.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message

from brain_runtime import interfaces
from brain_runtime.share import share_directory
from brain_wire import messages, services

OURS = sorted(f"brain_interfaces/msg/{file.stem}" for file in (interfaces.definitions() / "msg").glob("*.msg"))
STANDARD = [
    "builtin_interfaces/msg/Time",
    "geometry_msgs/msg/Twist",
    "geometry_msgs/msg/TwistStamped",
    "nav_msgs/msg/Odometry",
    "rcl_interfaces/msg/Log",
    "sensor_msgs/msg/CameraInfo",
    "sensor_msgs/msg/Image",
    "sensor_msgs/msg/Imu",
    "sensor_msgs/msg/LaserScan",
    "std_msgs/msg/Bool",
    "std_msgs/msg/Header",
    "std_msgs/msg/String",
    "tf2_msgs/msg/TFMessage",
    "visualization_msgs/msg/MarkerArray",
]
WORDS = ["", "base_link", "青い箱", "r", "map/odom", "1234567"]


def rosidl_class(name: str) -> type:
    """Return the class that rosidl generated for the type, such as ``std_msgs/msg/String``."""
    package, kind, leaf = name.split("/")
    return getattr(importlib.import_module(f"{package}.{kind}"), leaf)


def description(name: str) -> dict:
    """Return rosidl's type description of the type, which its hash is computed from."""
    package, kind, leaf = name.split("/")
    return json.loads(Path(share_directory(package), kind, f"{leaf}.json").read_text(encoding="utf-8"))


def random_value(kind: str, draw: random.Random) -> Any:
    """Return a value of one of rosidl's Python types (``float``, ``uint8``, ``string<64>``, ``pkg/Type``, ...)."""
    if "/" in kind:
        package, leaf = kind.split("/")
        return random_message(f"{package}/msg/{leaf}", draw)
    if kind.startswith("string"):
        return draw.choice(WORDS)
    if kind == "boolean":
        return draw.random() < 0.5
    if kind in ("float", "double"):
        value = draw.choice([draw.gauss(0, 10), float("nan"), float("-inf"), 0.0])
        return float(np.float32(value)) if kind == "float" else value
    if kind == "octet":
        return bytes([draw.randrange(256)])
    bits = int(kind.removeprefix("u").removeprefix("int"))
    low, high = (0, 2**bits) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return draw.choice([low, high - 1, draw.randrange(low, high)])


def random_message(name: str, draw: random.Random) -> Any:
    """Return a message of rosidl's class, each sequence as long as its bound or of a few elements."""
    message = rosidl_class(name)()
    for field, kind in message.get_fields_and_field_types().items():
        if kind.startswith("sequence<"):
            element, _, bound = kind.removeprefix("sequence<").removesuffix(">").partition(", ")
            count = draw.choice([0, int(bound)]) if bound else draw.randrange(5)
        elif kind.endswith("]"):
            element, _, size = kind.removesuffix("]").partition("[")
            count = int(size)
        else:
            setattr(message, field, random_value(kind, draw))
            continue
        setattr(message, field, [random_value(element, draw) for _ in range(count)])
    return message


def plain(value: Any) -> Any:
    """Return a message of either kind as nested dicts, lists and numbers, so that they can be compared."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]  # with the constants and the type's name
        return {n: plain(getattr(value, n)) for n in names if not n.isupper() and n != "__msgtype__"}
    if hasattr(value, "get_fields_and_field_types"):
        return {field: plain(getattr(value, field)) for field in value.get_fields_and_field_types()}
    if isinstance(value, bytes):  # rosidl's octet
        return value[0]
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (float, np.floating)):
        return "nan" if value != value else float(value)
    if isinstance(value, np.generic):
        return value.item()
    return [plain(element) for element in value]


def has_meaning(data: bytes, index: int, name: str) -> bool:
    """Return whether the message changes with the byte at `index`; in the gaps of alignment it does not."""
    changed = bytearray(data)
    changed[index] ^= 1
    try:
        return plain(messages.decode(bytes(changed), name)) != plain(messages.decode(data, name))
    except messages.MessageError:
        return True


@pytest.mark.parametrize("name", OURS + STANDARD)
def test_type_hash_is_the_one_rosidl_generated(name: str) -> None:
    hashes = {entry["type_name"]: entry["hash_string"] for entry in description(name)["type_hashes"]}
    assert messages.type_hash(name) == hashes[name]
    for nested, expected in hashes.items():
        assert messages.type_hash(nested) == expected


@pytest.mark.parametrize("name", [*services.STANDARD, "brain_interfaces/action/Seek"])
def test_services_and_actions_have_the_hashes_that_rosidl_generated(name: str) -> None:
    services.service_type(name) if "/srv/" in name else services.action_type(name)
    hashes = {entry["type_name"]: entry["hash_string"] for entry in description(name)["type_hashes"]}
    hashes.pop(name) if "/action/" in name else None    # of the whole action, which nothing on the wire carries
    assert len(hashes) >= 4
    assert {known: messages.type_hash(known) for known in hashes} == hashes


@pytest.mark.parametrize("name", OURS + STANDARD)
def test_bytes_are_those_of_rclpy_and_both_sides_read_them(name: str) -> None:
    draw = random.Random(name)
    for _ in range(5):
        theirs = random_message(name, draw)
        their_bytes = bytes(serialize_message(theirs))
        ours = messages.decode(their_bytes, name)
        assert plain(ours) == plain(theirs)

        our_bytes = bytes(messages.encode(ours))
        assert plain(deserialize_message(our_bytes, rosidl_class(name))) == plain(theirs)
        # FastCDR leaves what it finds in the gaps of alignment and fills the end up to four bytes.
        assert len(our_bytes) <= len(their_bytes) < len(our_bytes) + 4
        different = [i for i, (a, b) in enumerate(zip(our_bytes, their_bytes)) if a != b]
        assert [i for i in different if has_meaning(our_bytes, i, name)] == []


@pytest.mark.parametrize("name", OURS)
def test_constants_are_those_of_rosidl(name: str) -> None:
    generated = rosidl_class(name)
    ours = messages.message_class(name)
    names = [word for word in vars(ours) if word.isupper()]
    # The generated metaclass has type support beside the constants, under names with an underscore in front.
    assert sorted(names) == sorted(w for w in dir(type(generated)) if w.isupper() and not w.startswith("_"))
    assert {w: getattr(ours, w) for w in names} == {w: getattr(generated, w) for w in names}


def test_there_are_messages_of_ours_to_test() -> None:
    assert "brain_interfaces/msg/Heartbeat" in OURS

# SPDX-License-Identifier: Apache-2.0
"""Writes the wire vectors from what ROS 2 itself says: ``python -m brain_tests.ros_wire_vectors``, where rclpy is.

Bytes are rclpy's, hashes those of rosidl's installed type descriptions, numbers in the QoS field rclpy's; keys, tokens
and attachments are put together here from rmw_zenoh's formats, and not by the code that is tested. Where a package is
not installed, bytes and hash are those of rosbags, and the vector says so.
"""
from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import struct
import sys
from pathlib import Path
from typing import Any, Iterator

import xxhash
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message

from brain_runtime.share import share_directory
from brain_tests import standard_types, wire_vectors

DOMAIN, NAMESPACE, NODE, TOPIC = 61, "/r1", "talker", "the/topic"
SESSION = "5b1f0c9d3e7a42688d94e1f20a6c3b7"     # 31 digits: Zenoh writes no leading zero
STAMP = 1_700_000_000_123_456_789               # ns
# As they came from rmw_zenoh_cpp (Kilted, 0.6.7), put down once; nobody can write these anew without it.
SEEN = {
    "key": ["61/r1/chatter/std_msgs::msg::dds_::String_/"
            "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"],
    "cdr": {"std_msgs/msg/String": {"values": {"data": "hello 15"}, "cdr": "000100000900000068656c6c6f20313500"}},
    "qos": {"::,10:,:,:,,": ["RELIABLE", "VOLATILE", 10], ":1:,1:,:,:,,": ["RELIABLE", "TRANSIENT_LOCAL", 1],
            ":1:,1000:,:10,0:,,": ["RELIABLE", "TRANSIENT_LOCAL", 1000],
            "::,1000:,:,:,,": ["RELIABLE", "VOLATILE", 1000]},
}
QUALITIES = (("RELIABLE", "VOLATILE", 1), ("RELIABLE", "TRANSIENT_LOCAL", 1), ("BEST_EFFORT", "VOLATILE", 5))


def rosidl_class(name: str) -> type:
    """rosidl's class of a type.

    Raises:
        ModuleNotFoundError: its package is not installed.
    """
    package, kind, leaf = name.split("/")
    action, _, part = leaf.partition("_")   # rosidl shows the parts of an action in a module of the action only
    return getattr(importlib.import_module(f"{package}.{kind}" + (f"._{action.lower()}" if part else "")), leaf)


def build(name: str, values: dict[str, Any]) -> Any:
    """A message of rosidl's class from plain values."""
    message = rosidl_class(name)()
    for field, kind in message.get_fields_and_field_types().items():
        setattr(message, field, _built(kind, values[field]))
    return message


def _built(kind: str, value: Any) -> Any:
    if isinstance(value, list):
        element = re.sub(r"^sequence<(.*?)(, \d+)?>$|\[\d+\]$", r"\1", kind)
        return [_built(element, item) for item in value]
    if "/" in kind:
        return build(kind.replace("/", "/action/" if "_" in kind.rpartition("/")[2] else "/msg/"), value)
    return bytes([value]) if kind == "octet" else float(value) if kind in ("float", "double") else value


def _bits(value: Any) -> Any:
    """A message as values that differ wherever a bit of a field differs."""
    if hasattr(value, "get_fields_and_field_types"):
        return [_bits(getattr(value, field)) for field in value.get_fields_and_field_types()]
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, (str, bytes, bool, int)):
        return value
    return [_bits(item.item() if hasattr(item, "item") else item) for item in value]


def serialized(message: Any) -> bytes:
    """rclpy's bytes with zeros wherever they mean nothing.

    FastCDR leaves what it finds in the gaps of alignment, and fills up the end, which is cut.
    """
    data, kind = bytes(serialize_message(message)), type(message)
    meant = _bits(message)

    def has_meaning(place: int) -> bool:
        for flipped in (0x01, 0x80):    # one alone may change nothing: a text's length without its last zero
            changed = bytearray(data)
            changed[place] ^= flipped
            try:
                if _bits(deserialize_message(bytes(changed), kind)) != meant:
                    return True
            except Exception:   # rclpy raises what it likes at broken bytes
                return True
        return False

    with _silence():
        places = [place for place in range(4, len(data)) if has_meaning(place)]
    found = bytearray(max([4, *places]) + 1)    # an empty message has one byte
    found[:4] = data[:4]
    for place in places:
        found[place] = data[place]
    return bytes(found)


def _described(name: str) -> tuple[bytes, str, str]:
    """Bytes, hash, and who says so."""
    values = wire_vectors.filled(name)
    try:
        message = build(name, values)
    except ModuleNotFoundError:
        store = standard_types.store()
        return bytes(store.serialize_cdr(wire_vectors.build(name, values), name)), store.hash_rihs01(name), "rosbags"
    package, kind, leaf = name.split("/")
    told = json.loads((share_directory(package) / kind / f"{leaf.partition('_')[0]}.json").read_text(encoding="utf-8"))
    (hashed,) = [entry["hash_string"] for entry in told["type_hashes"] if entry["type_name"] == name]
    return serialized(message), hashed, "rclpy"


def part(name: str) -> dict[str, Any]:
    """The vector of a part of an action, which has no topic of its own."""
    cdr, hashed, source = _described(name)
    return {"source": source, "hash": hashed, "values": wire_vectors.filled(name), "cdr": cdr.hex()}


def vector(name: str, number: int) -> dict[str, Any]:
    """The vector of a type: the ``number``th publisher of one session."""
    cdr, hashed, source = _described(name)
    package, kind, leaf = name.split("/")
    dds = f"{package}::{kind}::dds_::{leaf}_"
    reliability, durability, depth = QUALITIES[number % len(QUALITIES)]
    qos = ("" if reliability == "RELIABLE" else str(ReliabilityPolicy[reliability].value)) + ":" + (
        "" if durability == "VOLATILE" else str(DurabilityPolicy[durability].value)) + f":,{depth}:,:,:,,"
    topic = f"{NAMESPACE}/{TOPIC}"
    token = "/".join(["@ros2_lv", str(DOMAIN), SESSION, "0", str(number), "MP", "%", NAMESPACE.replace("/", "%"), NODE,
                      topic.replace("/", "%"), dds, hashed, qos])
    gid = xxhash.xxh3_128_digest(token.encode())[::-1]      # the digest has the high half and high byte first
    return {"source": source, "hash": hashed, "key": f"{DOMAIN}{topic}/{dds}/{hashed}",
            "qos": [reliability, durability, depth], "token": token, "subscription": token.replace("/MP/", "/MS/"),
            "gid": gid.hex(), "attachment": (struct.pack("<qq", number, STAMP) + b"\x10" + gid).hex(),
            "values": wire_vectors.filled(name), "cdr": cdr.hex()}


def made() -> dict[str, Any]:
    """All vectors."""
    return {"seen": SEEN, "node": f"@ros2_lv/{DOMAIN}/{SESSION}/0/0/NN/%/{NAMESPACE.replace('/', '%')}/{NODE}",
            "types": {name: vector(name, number) for number, name in enumerate(wire_vectors.types(), 1)},
            "parts": {name: part(name) for name in wire_vectors.parts()}}


def text(vectors: dict[str, Any]) -> str:
    """The file: a line for each item of a vector, so that differences can be read."""
    def items(content: dict[str, Any], indent: str) -> str:
        return ",\n".join(f"{indent}{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
                          for key, value in content.items())

    def group(name: str) -> str:
        vectors_of = (f'  "{key}": {{\n{items(vector, "   ")}\n  }}' for key, vector in vectors[name].items())
        return f' "{name}": {{\n' + ",\n".join(vectors_of) + "\n }"

    rest = {key: value for key, value in vectors.items() if key not in ("types", "parts")}
    return f'{{\n{items(rest, " ")},\n{group("types")},\n{group("parts")}\n}}\n'


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Without what FastCDR writes about broken bytes, past Python, to standard error."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


if __name__ == "__main__":
    Path(wire_vectors.FILE).write_text(text(made()), encoding="utf-8")
    print(f"wrote {wire_vectors.FILE}", file=sys.stderr)

# SPDX-License-Identifier: Apache-2.0
"""The standard interfaces as rosbags has them: what ``brain_runtime/standard_types.json`` is written from.

``python -m brain_tests.standard_types`` writes it anew, after a change of rosbags; from a checkout only.
"""
from __future__ import annotations

import json

from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from brain_runtime import interfaces
from brain_wire import definitions

EVENT_INFO = "service_msgs/msg/ServiceEventInfo"


def store() -> Typestore:
    """Rosbags' store of the standard types and ours, with hashes as rosidl computes them."""
    found = get_typestore(Stores.ROS2_KILTED)
    for path in sorted((interfaces.definitions() / "msg").glob("*.msg")):
        found.register(get_types_from_msg(path.read_text(encoding="utf-8"), f"{interfaces.PACKAGE}/msg/{path.stem}"))
    # rosidl knows no char since Jazzy and takes it for uint8, which the hashes of all services depend on.
    constants, fields = found.fielddefs[EVENT_INFO]
    found.fielddefs[EVENT_INFO] = constants, [
        (name, (Nodetype.ARRAY, ((Nodetype.BASE, ("uint8", 0)), 16)) if name == "client_gid" else definition)
        for name, definition in fields]
    return found


def text(constants: list, fields: list) -> str:
    """A definition as a ``.msg`` file has it."""
    lines = [f"{kind} {name}={value}" for name, kind, value in constants]
    return "\n".join([*lines, *(f"{_kind(definition)} {name}" for name, definition in fields
                                if name != definitions.FILLER)])


def _kind(definition: tuple) -> str:
    kind, detail = definition
    if kind == Nodetype.BASE:
        return f"{detail[0]}<={detail[1]}" if detail[1] else detail[0]
    if kind == Nodetype.NAME:
        return detail
    element, count = detail
    return f"{_kind(element)}[{'<=' if kind == Nodetype.SEQUENCE and count else ''}{count or ''}]"


def table() -> dict[str, str]:
    """Builds what the file should hold."""
    return {name: text(*parts) for name, parts in sorted(store().fielddefs.items())
            if not name.startswith(f"{interfaces.PACKAGE}/")}


if __name__ == "__main__":
    definitions.STANDARD.write_text(json.dumps(table(), indent=0) + "\n", encoding="utf-8")

# SPDX-License-Identifier: Apache-2.0
"""Messages as plain values and as YAML, as ros2cli writes them, and back."""
from __future__ import annotations

import time
from typing import Any

import numpy as np

from brain_wire.definitions import FILLER, Nodetype
from brain_wire.messages import MessageError, fields_of, make, time_message

LONGEST = 128       # elements of an array that are shown, as in ros2cli
MORE = "..."


def plain(value: Any, most: int | None = None) -> Any:
    """Converts a message, or a field of one, to dicts, lists, numbers and texts; of arrays the first ``most`` elements.

    What is left out of an array is marked by a last element ``...``.
    """
    if hasattr(value, "__msgtype__"):
        return {name: plain(one, most) for name, one in vars(value).items() if name != FILLER}
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = np.frombuffer(value, np.uint8)
    if isinstance(value, (np.ndarray, list, tuple)):
        cut = most is not None and len(value) > most
        part = value[:most] if cut else value
        found = part.tolist() if isinstance(part, np.ndarray) else [plain(one, most) for one in part]
        return [*found, MORE] if cut else found
    return value.item() if isinstance(value, np.generic) else value


def as_yaml(value: Any) -> str:
    """Writes plain values as YAML, fields in their order."""
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10 ** 9,
                          default_flow_style=None if isinstance(value, list) else False)


def field(message: Any, path: str) -> Any:
    """Finds a field by its path (``pose.position.x``, ``data[3]``).

    Raises:
        MessageError: there is none.
    """
    value = message
    for part in path.replace("[", ".[").strip(".").split("."):
        try:
            value = value[int(part[1:-1])] if part.startswith("[") else vars(value)[part]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise MessageError(f"there is no field {path!r}: {part} is not in it") from error
    return value


def filled(name: str, values: Any) -> Any:
    """A message of a type with the values of a dict, nested as its fields are; ``now`` and ``auto`` as in ros2cli.

    Raises:
        MessageError: a field that there is not, or a value that does not fit.
    """
    if name == "builtin_interfaces/msg/Time" and values == "now":
        return time_message(time.time())
    if name == "std_msgs/msg/Header" and values == "auto":
        return make(name, stamp=time_message(time.time()))
    if not isinstance(values, dict):
        raise MessageError(f"{name} needs values by field, as {{field: value}}, and not {values!r:.60}")
    kinds, given = dict(fields_of(name)), {}
    for key, value in values.items():
        kind, detail = kinds.get(str(key), (Nodetype.BASE, None))
        if kind == Nodetype.NAME:
            value = filled(detail, value)
        elif kind != Nodetype.BASE and detail[0][0] == Nodetype.NAME:
            if not isinstance(value, list):
                raise MessageError(f"{name}.{key} needs a list, and not {value!r:.60}")
            value = [filled(detail[0][1], one) for one in value]
        given[str(key)] = value
    return make(name, **given)

# SPDX-License-Identifier: Apache-2.0
"""Places within a message: ``status.cells[3].voltage``, ``temperature:0.tC``, ``StatusSNS.DS18B20-1.Temperature``."""
from __future__ import annotations

import re
from typing import Any, Mapping

_KEY, _INDEX = "[A-Za-z0-9_:-]+", r"\[[0-9]{1,6}\]"     # plugs and meters have keys as switch:0 and DS18B20-1
PATH: Mapping[str, Any] = {"type": "string", "maxLength": 200,
                           "pattern": rf"{_KEY}({_INDEX})*(\.{_KEY}({_INDEX})*)*"}


def inner(found: Any, path: str) -> Any:
    """Returns the value at a path, in plain values or in a message of ROS 2.

    Raises:
        ValueError: nothing stands there.
    """
    for step in re.findall(rf"{_KEY}|{_INDEX}", path):
        try:
            if step[0] == "[":
                found = found[int(step[1:-1])]
            elif isinstance(found, dict):
                found = found[step]
            else:
                found = vars(found)[step]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"what came has no {path}") from None
    return found

# SPDX-License-Identifier: Apache-2.0
"""Places within a message: ``status.cells[3].voltage``."""
from __future__ import annotations

import re
from typing import Any, Mapping

PATH: Mapping[str, Any] = {
    "type": "string", "maxLength": 200,
    "pattern": r"[A-Za-z_][A-Za-z0-9_]*(\[[0-9]{1,6}\])*(\.[A-Za-z_][A-Za-z0-9_]*(\[[0-9]{1,6}\])*)*"}


def inner(found: Any, path: str) -> Any:
    """Returns the value at a path, in plain values or in a message of ROS 2.

    Raises:
        ValueError: nothing stands there.
    """
    for step in re.findall(r"[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\]", path):
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

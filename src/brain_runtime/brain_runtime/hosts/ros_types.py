# SPDX-License-Identifier: Apache-2.0
"""Types of rosidl beside ours: the class of a name, and messages made into one another by their bytes."""
from __future__ import annotations

import importlib
import math
from typing import Any

from rclpy.serialization import deserialize_message, serialize_message

from brain_wire import messages


def interface(name: str) -> Any:
    """rosidl's class of a type such as ``std_msgs/msg/String``.

    Raises:
        ModuleNotFoundError: its package is not installed, or the workspace not sourced.
    """
    package, kind, leaf = name.split("/")
    return getattr(importlib.import_module(f"{package}.{kind}"), leaf)


def ours(message: Any, name: str) -> Any:
    """A message of rosidl's class as ours, of the type ``name``."""
    # what serialize_message() returns has room behind the message, for all the padding that there might have been
    return messages.decode(serialize_message(message), name, trailing=math.inf)


def theirs(message: Any, cls: type) -> Any:
    """A message of ours as one of rosidl's class ``cls``."""
    return deserialize_message(messages.encode(message), cls)

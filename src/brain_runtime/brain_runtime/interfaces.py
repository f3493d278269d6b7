# SPDX-License-Identifier: Apache-2.0
"""The interfaces of a brain: where the definitions of brain_interfaces are, and its types as classes.

Each is known by its name::

    from brain_runtime.interfaces import Control, Seek

    if control.mode == Control.MODE_SEARCH: ...
    outcome = Seek.Result.OUTCOME_REPLACED      # of an action: Goal, Result and Feedback

A definition is read when its class is first asked for, and not before: a region reads those of its own ports only.
"""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from brain_runtime.share import share_directory
from brain_wire.definitions import definition_file, register

if TYPE_CHECKING:       # made from the definitions by `python -m brain_tests.stubs`
    from brain_runtime.interface_types import *     # noqa: F401,F403

PACKAGE = "brain_interfaces"
PARTS = ("Goal", "Result", "Feedback")     # of an action


def definitions() -> Path:
    """Folder of brain_interfaces that holds ``msg/``; FileNotFoundError, with the remedy, if it is not installed."""
    return share_directory(PACKAGE)


register(PACKAGE, definitions)


if not TYPE_CHECKING:   # a type checker is to know the names that there are, and no others
    def __getattr__(name: str) -> type:
        """The class of a message or an action; FileNotFoundError if brain_interfaces is not installed."""
        if name.startswith("_") or not name[:1].isupper():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        kind = next((kind for kind in ("msg", "action") if definition_file(f"{PACKAGE}/{kind}/{name}")), None)
        if kind is None:
            raise AttributeError(f"{PACKAGE} has no type {name}; see {definitions()}")
        from brain_wire.messages import message_class   # numpy, which a command that only shows its help does not need

        full = f"{PACKAGE}/{kind}/{name}"
        if kind == "msg":
            found = message_class(full)
        else:
            found = type(name, (), {part: message_class(f"{full}_{part}") for part in PARTS})
        globals()[name] = found
        return found

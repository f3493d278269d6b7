# SPDX-License-Identifier: Apache-2.0
"""Stubs of the messages for type checkers: ``interface_types.pyi``, made from the definitions of brain_interfaces.

``python -m brain_tests.stubs`` writes it, after a change of a ``.msg`` or ``.action`` file.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np

from brain_runtime import interfaces
from brain_runtime.interfaces import PACKAGE, PARTS
from brain_wire.cdr import FORMATS
from brain_wire.definitions import Nodetype, definition_files
from brain_wire.messages import fields_of, message_class

STUB = Path(interfaces.__file__).with_name("interface_types.pyi")
WIDTH = 120
HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
# Made by `python -m brain_tests.stubs` from the definitions of brain_interfaces; a test compares.
# ruff: noqa: A002 (a field is called as it is)
from typing import ClassVar, Final, type_check_only

import numpy as np
from numpy.typing import NDArray

from brain_wire.messages import Message
'''


def stubs() -> str:
    """Text of the stub: a class for each message and action, and for what they are made of."""
    messages = [f"{PACKAGE}/msg/{path.stem}" for path in definition_files(PACKAGE, "msg")]
    actions = [f"{PACKAGE}/action/{path.stem}" for path in definition_files(PACKAGE, "action")]
    parts = {action: [f"{action}_{part}" for part in PARTS] for action in actions}
    beside = sorted(_nested([*messages, *(part for found in parts.values() for part in found)]) - set(messages))
    made = [_class(name, _leaf(name)) for name in messages]
    for action, found in parts.items():
        inner = "\n".join(_class(name, part) for name, part in zip(found, PARTS))
        indented = "\n".join(f"    {line}" if line else "" for line in inner.splitlines())
        made.append(f"class {_leaf(action)}:\n{indented}\n")
    # those of other packages are no names of brain_runtime.interfaces
    made += [f"@type_check_only\n{_class(name, _leaf(name))}" for name in beside]
    return "\n".join([HEAD, *made])


def _nested(names: list[str]) -> set[str]:
    """The types that others are made of, and what those are made of."""
    found: set[str] = set()
    for name in names:
        for _, (kind, detail) in fields_of(name):
            element = detail[0] if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE) else (kind, detail)
            if element[0] == Nodetype.NAME:
                found |= {element[1]} | _nested([element[1]])
    return found


def _class(name: str, called: str) -> str:
    """A class that begins in the first column."""
    fields = [(field, _type(definition)) for field, definition in fields_of(name)]
    members = {field for field, _ in fields}
    constants = [(constant, value) for constant, value in vars(message_class(name)).items()
                 if constant.isupper() and constant not in members and not constant.startswith("_")]
    lines = [f"class {called}(Message):", "    __msgtype__: ClassVar[str]"]
    lines += [f"    {constant}: Final = {value!r}" for constant, value in constants]
    lines += [f"    {field}: {kind}" for field, kind in fields]
    return "\n".join([*lines, *_constructor(fields)]) + "\n"


def _constructor(fields: list[tuple[str, str]]) -> list[str]:
    """``__init__``, with as many parameters in a line as fit where the class stands in another."""
    lines, begin = [], "    def __init__("
    line = begin + "self"
    for parameter in (f"{field}: {kind} = ..." for field, kind in fields):
        if len(line) + len(parameter) + len(", ") + len(") -> None: ...") > WIDTH - 4:
            lines.append(line + ",")
            line = " " * len(begin) + parameter
        else:
            line += ", " + parameter
    return [*lines, line + ") -> None: ..."]


def _type(definition: tuple) -> str:
    """Annotation of a field."""
    kind, detail = definition
    if kind == Nodetype.NAME:
        return _leaf(detail)
    if kind == Nodetype.BASE:
        base = detail[0]
        return "str" if base == "string" else "bool" if base == "bool" else "float" if "float" in base else "int"
    element = detail[0]
    if element[0] == Nodetype.NAME or element[1][0] == "string":
        return f"list[{_type(element)}]"
    return f"NDArray[np.{np.dtype(FORMATS[element[1][0]]).type.__name__}]"


def _leaf(name: str) -> str:
    return name.rpartition("/")[2]


if __name__ == "__main__":
    STUB.write_text(stubs(), encoding="utf-8")

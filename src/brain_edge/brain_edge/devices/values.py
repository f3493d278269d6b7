# SPDX-License-Identifier: Apache-2.0
"""Values of properties: whether one can be what it is said to be, and the way from the wire's numbers and back."""
from __future__ import annotations

import math
import re
from typing import Any

from brain_edge.devices.models import Device, Mapped, Property
from brain_edge.schema import WHOLE
from brain_wire.safe_text import is_text, quoted

LONGEST_NUMBER = 40     # characters of a number as text
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?")


class Misfit(ValueError):
    """A value is none that the property can have; says why, in a line.

    Attributes:
        limits: whether it is of the right type, and only beyond the limits.
    """

    def __init__(self, text: str, limits: bool = False) -> None:
        super().__init__(text)
        self.limits = limits


def fitted(known: Property, value: Any) -> Any:
    """The value, as the property has it.

    Raises:
        Misfit: wrong type, not finite, beyond a limit, too long.
    """
    if known.type == "boolean":
        if isinstance(value, bool):
            return value
        raise Misfit(f"{shown(value)} is no boolean")
    if known.type == "string":
        if not isinstance(value, str):
            raise Misfit(f"{shown(value)} is no string")
        if len(value) > known.longest:
            raise Misfit(f"a string of {len(value)} characters is more than the {known.longest} that are allowed", True)
        if not is_text(value):
            raise Misfit("it holds text that is none (half of a surrogate pair)")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Misfit(f"{shown(value)} is no number")
    if isinstance(value, float) and not math.isfinite(value):
        raise Misfit(f"{value} is no finite number")
    if known.type == "integer" and value != math.floor(value):
        raise Misfit(f"{value!r} is no whole number")
    if (isinstance(value, int) or known.type == "integer") and not -WHOLE <= value <= WHOLE:
        raise Misfit("a whole number of more than 64 bits is none that anything here has")
    if known.type == "integer":
        value = int(value)
    else:
        value = float(value)
    if not known.minimum <= value <= known.maximum:
        bound = f"less than the minimum {known.minimum:g}" if value < known.minimum else (
            f"more than the maximum {known.maximum:g}")
        raise Misfit(f"{value:g}{unit(known)} is {bound}{unit(known)}", True)
    return value


def read(mapped: Mapped, raw: Any) -> Any:
    """The value of what a driver read.

    Plugs and meters say numbers and flags as text: ``"21.5"`` is a number where the property is one, and the visitor's
    ``true_as`` and ``false_as`` are a flag's, else ON and OFF, true and false, in capitals or not.

    Raises:
        Misfit: as of :func:`fitted`.
    """
    if isinstance(raw, str) and mapped.property.number and len(raw) <= LONGEST_NUMBER and _NUMBER.fullmatch(raw):
        raw = float(raw) if mapped.scaled() or not raw.lstrip("+-").isdecimal() else int(raw)
    elif isinstance(raw, str) and mapped.property.type == "boolean":
        raw = _flag(mapped, raw)
    if mapped.scaled() and isinstance(raw, (int, float)) and not isinstance(raw, bool):
        raw = _float(raw) * mapped.scale + mapped.offset
        if mapped.property.type == "integer" and math.isfinite(raw):
            raw = float(round(raw))
    return fitted(mapped.property, raw)


def written(mapped: Mapped, value: Any) -> Any:
    """Converts a desired value to the raw value that a driver writes.

    Raises:
        Misfit: as of :func:`fitted`.
    """
    value = fitted(mapped.property, value)
    if isinstance(value, bool) and "true_as" in mapped.visitor:
        return mapped.visitor["true_as" if value else "false_as"]
    return (value - mapped.offset) / mapped.scale if mapped.scaled() else value


def _flag(mapped: Mapped, raw: str) -> Any:
    """A flag that is said in a word; the word itself, where that is none."""
    if "true_as" in mapped.visitor:
        return {mapped.visitor["true_as"]: True, mapped.visitor["false_as"]: False}.get(raw, raw)
    return {"on": True, "true": True, "off": False, "false": False}.get(raw.lower(), raw)


def same(mapped: Mapped, value: Any, other: Any) -> bool:
    """Checks whether two values are the same to a device: within half a step of its scale, or in single precision."""
    if not mapped.property.number:
        return type(value) is type(other) and value == other
    if mapped.property.type == "integer" and not mapped.scaled():
        return bool(value == other)     # 2000001 is not 2000000, whatever single precision makes of it
    step = 0.5 * abs(mapped.scale) if mapped.scale != 1.0 else 0.0
    return abs(value - other) <= max(step, 1e-6 * max(abs(value), abs(other))) * (1 + 1e-9)


def settable(device: Device, name: str, value: Any) -> Any:
    """The value that a person or the cloud wants a property of a device to have.

    Raises:
        Misfit: it cannot be set so.
    """
    if name not in device.properties:
        raise Misfit(f"{device.name} has no property {quoted(name)}")
    known = device.properties[name].property
    if not known.writable:
        raise Misfit(f"{name} of {device.name} is ReadOnly")
    try:
        return fitted(known, value)
    except Misfit as problem:
        raise Misfit(f"{name} of {device.name}: {problem}", problem.limits) from None


def unit(known: Property) -> str:
    """The unit as it stands behind a number."""
    return f" {known.unit}" if known.unit else ""


def shown(value: Any) -> str:
    """A foreign value within a message."""
    if isinstance(value, str):
        return quoted(value)
    return repr(value)[:60] if isinstance(value, (bool, int, float, type(None))) else f"a {type(value).__name__}"


def _float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf

# SPDX-License-Identifier: Apache-2.0
"""Parameters of a region: a frozen dataclass whose fields carry unit, range and description."""
from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass
from typing import Any, Mapping, NamedTuple

from brain_wire.safe_text import is_text, quoted

WHOLE = range(-2**63, 2**63)    # what ROS 2 has for whole numbers
LONGEST = 2**14                 # elements of a list, and bytes of a text
LOCAL = "set on this robot alone, by no order of a fleet"   # among the constraints of a parameter


class ParameterError(ValueError):
    """A parameter does not exist or a value does not fit; says which, and what would."""


@dataclass(frozen=True)
class NoParameters:
    """A region without parameters."""


def parameter(default: Any, description: str, *, unit: str = "", low: float | None = None, high: float | None = None,
              choices: tuple[str, ...] = (), live: bool = True, local: bool = False) -> Any:
    """Field of a region's ``Parameters``.

    Args:
        default: value where nothing is given; its type is the parameter's (bool, int, float, str, or a tuple of them).
        description: one sentence for a person.
        unit: SI unit, empty where there is none.
        low, high: range, both ends included.
        choices: the texts that are allowed.
        live: may be changed while the region runs.
        local: it names something on this robot, as the path of a file: no order of a fleet sets it.
    """
    metadata = dict(description=description, unit=unit, low=low, high=high, choices=choices, live=live, local=local)
    return dataclasses.field(default=default, metadata=metadata)


class Description(NamedTuple):
    """Description of a parameter for ROS 2.

    Attributes:
        kind: type of the value; tuple for a list.
        text: one sentence, with the unit.
        constraints: what the range does not tell.
        range: lowest and highest value, both included; None where there are none.
        read_only: it cannot be changed.
        dynamic: what its elements are is not known before there are any.
    """

    kind: type
    text: str
    constraints: str = ""
    range: tuple[float, float] | tuple[int, int] | None = None
    read_only: bool = False
    dynamic: bool = False


def describe(field: dataclasses.Field) -> Description:
    """Describes a parameter for ROS 2: its unit, range and choices, and whether it can be changed while running."""
    meta, kind = field.metadata, type(field.default)
    constraints = [f"one of {', '.join(meta['choices'])}"] if meta["choices"] else []
    if not meta["live"]:
        constraints.append("cannot be changed while the node is active")
    if meta["local"]:
        constraints.append(LOCAL)
    low, high, limits = meta["low"], meta["high"], None
    if (low is not None or high is not None) and kind is float:
        limits = -math.inf if low is None else float(low), math.inf if high is None else float(high)
    elif (low is not None or high is not None) and kind is int:
        limits = -2**63 if low is None else int(low), 2**63 - 1 if high is None else int(high)
    unit = f" ({meta['unit']})" if meta["unit"] else ""
    return Description(kind, meta["description"] + unit, "; ".join(constraints), limits, dynamic=field.default == ())


def _fit(region: str, field: dataclasses.Field, value: Any) -> Any:
    where = f"parameter {field.name} of {region}"
    wanted = type(field.default)
    if wanted is tuple:
        return _fit_list(where, typing.cast(tuple, field.default), value)
    value = _fit_one(where, wanted, value)
    low, high, unit = field.metadata["low"], field.metadata["high"], field.metadata["unit"]
    if (low is not None and value < low) or (high is not None and value > high):
        allowed = (f"between {low} and {high}" if low is not None and high is not None else
                   f"at most {high}" if low is None else f"at least {low}")
        raise ParameterError(f"{where} is {value}, but must be {allowed}{' ' + unit if unit else ''}")
    choices = field.metadata["choices"]
    if choices and value not in choices:
        raise ParameterError(f"{where} is {quoted(str(value))}, but must be one of {', '.join(choices)}")
    return value


def _fit_one(where: str, wanted: Any, value: Any) -> Any:
    """A number, a text or a truth value of the type ``wanted``."""
    if wanted is float and type(value) is int and value in WHOLE:
        value = float(value)
    if type(value) is not wanted:
        raise ParameterError(f"{where} must be of type {wanted.__name__}, but is {quoted(repr(value))} "
                             f"({type(value).__name__})")
    if wanted is float and not math.isfinite(value):
        raise ParameterError(f"{where} must be a finite number, but is {value}")
    if wanted is int and value not in WHOLE:
        raise ParameterError(f"{where} is too large: a whole number has at most 64 bits")
    if wanted is str and len(value.encode("utf-8", "surrogatepass")) > LONGEST:
        raise ParameterError(f"{where} is longer than {LONGEST} bytes")
    if wanted is str and not is_text(value):
        raise ParameterError(f"{where} is no text: {quoted(value)}")
    return value


def _fit_list(where: str, default: tuple, value: Any) -> tuple:
    """A list of one kind: that of the default's elements, or any where it has none.

    ``[""]`` is an empty one: launch has no other way to say that.
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, typing.Sequence):
        raise ParameterError(f"{where} must be a list, but is {quoted(repr(value))}")
    if len(value) == 1 and value[0] == "":
        return ()
    if len(value) > LONGEST:
        raise ParameterError(f"{where} has more than {LONGEST} elements")
    kinds = {type(item) for item in value}
    kind = type(default[0]) if default else float if kinds == {int, float} else next(iter(kinds), str)
    if kind not in (bool, int, float, str):
        raise ParameterError(f"{where} must be a list of numbers, texts or truth values, but holds {kind.__name__}")
    return tuple(_fit_one(where, kind, item) for item in value)


def check_parameters(region: str, cls: type, values: Mapping[str, Any], *, current: Any = None) -> Any:
    """An instance of the dataclass ``cls`` with ``values`` over ``current`` (or over the defaults).

    Raises:
        ParameterError: see there; with ``current``, also for a parameter that cannot be changed while running.
    """
    fields = {f.name: f for f in dataclasses.fields(cls)}
    fitted = {}
    for name, value in values.items():
        if name not in fields:
            import difflib  # only to tell a person

            near = difflib.get_close_matches(str(name)[:80], fields, 1)
            hint = f"did you mean {near[0]}?" if near else "it has " + (", ".join(fields) or "none")
            raise ParameterError(f"{region} has no parameter {str(name)[:200]}; {hint}")
        if current is not None and not fields[name].metadata["live"]:
            raise ParameterError(f"parameter {name} of {region} cannot be changed while it runs; set it at start")
        fitted[name] = _fit(region, fields[name], value)
    return dataclasses.replace(current if current is not None else cls(), **fitted)

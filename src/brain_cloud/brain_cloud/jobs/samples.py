# SPDX-License-Identifier: Apache-2.0
"""The samples of a Dataset that is a text file, a line each, and the triggers of what is done about them."""
from __future__ import annotations

import json
import math
import posixpath
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Mapping

from brain_cloud.jobs.templates import Unfit
from brain_edge.schema import FormProblem
from brain_wire.safe_text import quoted

SAMPLES = "num_of_samples"      # a trigger's metric, as Sedna names it
FORMATS = ("txt", "csv")        # a sample is a line
LARGEST = 64 * 2**20    # bytes of a list of samples
PIECE = 2**20           # bytes read at once
MESSAGES = 4096         # bytes of a termination message, as of Kubernetes
NEAR = 1e-6             # two metrics that differ by less are equal, as Sedna has it
_OPERATORS = {">": "gt", ">=": "ge", "=": "eq", "==": "eq", "!=": "ne", "<=": "le", "<": "lt"}


def read_samples(path: Path, form: str) -> tuple[str | None, list[str]]:
    """The header of a list of samples (of csv), and its samples.

    Args:
        path: of the list.
        form: ``txt`` or ``csv``.

    Raises:
        FormProblem: it is of another form, is no file, or is too long.
        OSError: it cannot be read.
    """
    if form.lower() not in FORMATS:
        raise FormProblem(f"a Dataset of the format {form!a} has no lines to count; give txt or csv")
    if not path.is_file():
        raise FormProblem(f"{path} is no file; give the list of samples, a line each")
    if path.stat().st_size > LARGEST:
        raise FormProblem(f"{path} has more than {LARGEST} bytes; divide it")
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")     # as :func:`count` has them
    if lines[-1] == "":
        del lines[-1]
    if form.lower() == "csv":
        return (lines[0], lines[1:]) if lines else (None, [])
    return None, lines


def count(path: Path, form: str) -> int:
    """Samples of a list, a line each; of csv the first line is its header. A last line without an end counts.

    Raises:
        OSError: it cannot be read.
    """
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            lines += piece.count(b"\n")
            last = piece[-1:]
    lines += last != b"\n"
    return max(lines - 1, 0) if form == "csv" else lines


def write_samples(path: Path, header: str | None, samples: list[str]) -> None:
    """Writes a list of samples, wholly or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    text = "".join(f"{one}\n" for one in ([] if header is None else [header]) + samples)
    temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
    temporary.replace(path)


def in_hours(timer: Mapping[str, str] | None, now: datetime) -> bool:
    """Tells whether a time is within a trigger's hours; past midnight where they end before they begin.

    Raises:
        Unfit: they are no times.
    """
    if not timer:
        return True
    for name in ("start", "end"):
        if not re.fullmatch("([01]?[0-9]|2[0-4]):[0-5][0-9]", str(timer[name])):
            raise Unfit("TimerUnfit", f"timer.{name} is {quoted(str(timer[name]))}, and must be as 02:00")
    time, start, end = now.strftime("%H:%M"), timer["start"].rjust(5, "0"), timer["end"].rjust(5, "0")
    return start <= time <= end if start <= end else time >= start or time <= end


def check_metric(name: str) -> None:
    """Raises Unfit where training is triggered by something that nobody counts."""
    if name != SAMPLES:
        raise Unfit("MetricUnknown", f"spec.trainSpec.trigger.condition.metric is {quoted(name)}, and training begins "
                                     f"by {SAMPLES} only")


def fires(condition: Mapping[str, Any], stats: Mapping[str, Any]) -> bool:
    """Tells whether a metric is as a trigger's condition asks; one that is not known is not.

    Raises:
        Unfit: the operator is none.
    """
    operator = _OPERATORS.get(condition["operator"], condition["operator"])
    if operator not in _OPERATORS.values():
        raise Unfit("OperatorUnknown", f"a trigger compares by {quoted(operator)}; there are {', '.join(_OPERATORS)}")
    value = metric(condition["metric"], stats)
    if value is None:
        return False
    difference = value - condition["threshold"]
    equal = abs(difference) < NEAR
    return {"gt": not equal and difference > 0, "ge": equal or difference > 0, "eq": equal, "ne": not equal,
            "le": equal or difference < 0, "lt": not equal and difference < 0}[operator]


def metric(name: str, stats: Mapping[str, Any]) -> float | None:
    """A metric's number; None: there is none. A list that has one element is that."""
    base, _, rest = name.partition("[")
    value = stats.get(base.strip())
    if rest:
        number = rest.rpartition("]")[0]
        if not isinstance(value, list) or not re.fullmatch(r"[0-9]{1,6}", number) or int(number) >= len(value):
            return None
        value = value[int(number)]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    try:
        found = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def said(message: str | bytes) -> Any:
    """Reads a termination message; None where it cannot be read."""
    try:
        return json.loads(message[:MESSAGES])
    except (ValueError, RecursionError):
        return None


def left_behind(path: Path) -> Any:
    """Reads the file of a termination message; None where there is none, or it cannot be read."""
    try:
        with path.open("rb") as file:
            return said(file.read(MESSAGES))
    except OSError:
        return None


def told_progress(told: Any) -> str:
    """Line in which an aggregator has left how far its training is; empty: it has left none."""
    found = told.get("message") if isinstance(told, dict) else None
    return found[:1000] if isinstance(found, str) else ""


def told_metrics(told: Any) -> dict[str, Any]:
    """Metrics that an evaluation has told, as a report or in its termination message; none where it told none.

    Args:
        told: numbers by name; or models, the new one first and then that which runs, each with its ``metrics``, or
            these as ``results``. Of two models ``NAME_delta`` is how much more the new one's are.
    """
    if isinstance(told, dict) and "results" in told:
        told = told["results"]
    if isinstance(told, list):
        each = [one["metrics"] if isinstance(one, dict) and isinstance(one.get("metrics"), dict) else {}
                for one in told[:2]] + [{}, {}]
        return compared(each[0], each[1])
    return dict(told) if isinstance(told, dict) else {}


def told_path(told: Any, folder: str) -> str:
    """The path below a folder that a training has told of its model; empty: none.

    Args:
        told: as of :func:`told_metrics`; the first model's ``url`` counts, within the folder.
    """
    if isinstance(told, dict):
        told = told.get("results")
    for one in told if isinstance(told, list) else ():
        url = one.get("url") if isinstance(one, dict) else None
        if isinstance(url, str) and url and "://" not in (path := url.removeprefix("file://")):
            inside = posixpath.normpath(posixpath.join(folder, path))
            if inside.startswith(f"{folder}/"):     # no worker names another's file
                return posixpath.relpath(inside, folder)
    return ""


def compared(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of a model, with ``NAME_delta``: how much more they are than another's."""
    found = dict(new)
    for name, value in new.items():
        mine, its = (one if isinstance(one, list) else [one] for one in (value, old.get(name)))
        pairs = [(metric("x", {"x": a}), metric("x", {"x": b})) for a, b in zip(mine, its)]
        if pairs and len(mine) == len(its) and all(a is not None and b is not None for a, b in pairs):
            found[f"{name}_delta"] = [a - b for a, b in pairs if a is not None and b is not None]
    return found

# SPDX-License-Identifier: Apache-2.0
"""Kinds of resources: a schema for each in this folder, and whether a robot of this version does anything about it."""
from __future__ import annotations

import difflib
from typing import Any, Mapping

from brain_edge.schema import FormProblem, check, load_schema
from brain_wire.safe_text import quoted

API_VERSION = "fleet.brain/v1"
# Those that robots of this version bring about; others, of a newer cloud, are kept on the robot for what will.
DEVICES = ("Device", "DeviceModel", "DeviceSettings")   # by brain_edge.devices
PROGRAMS = ("Job",)                                     # by brain_edge.programs, the others by state.effects
EFFECTIVE = ("Model", "Parameters", "Region", *DEVICES, *PROGRAMS)
KINDS = EFFECTIVE
WEIGHTS = "weights"     # the parameter by which regions are given models


def check_spec(kind: str, spec: Any, place: str = "spec") -> None:
    """Raises FormProblem where a resource of that kind cannot be meant so; names the field, or the kind."""
    check(spec, schema_of(kind), place)
    if kind == "Parameters" and WEIGHTS in spec["values"]:
        raise FormProblem(f"{place}.values.{WEIGHTS}: no order names a file of a robot; a region gets weights as a "
                          f"model that was tried and signed: `brain fleet models add`, then `brain fleet rollout`")


def schema_of(kind: str) -> Mapping[str, Any]:
    """The schema of a kind's ``spec``.

    Raises:
        FormProblem: there is no such kind.
    """
    if kind not in KINDS:
        near = difflib.get_close_matches(kind[:80], KINDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KINDS)}"
        raise FormProblem(f"there is no kind {quoted(kind)}; {hint}")
    return load_schema("brain_edge.state.kinds", kind)

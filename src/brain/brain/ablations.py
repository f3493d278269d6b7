# SPDX-License-Identifier: Apache-2.0
"""Ablations of an evaluation: one thing of the brain taken away or replaced, to see what hangs on it.

Each is written NAME=VALUE. NAME is a region made of a network, or ``all`` of them, and VALUE is

* ``silent``: its spikes are held back;
* ``ann``: its twin of the same size and training, with rates in place of spikes;
* ``conventional``: what stood there before it;
* ``confused``, of vision alone: in each look it takes some things for others, by chance;
* ``late``, of vision alone: it tells of fewer pictures, and 0.4 s later, as on a loaded machine;

or NAME=VALUE is one of ``qpfc=off``, ``constant``, ``linear``, ``shuffled`` (see :mod:`brain_regions.pfc.feedback`;
``constant:ALPHA`` holds alpha at another number, 0..1) and ``integration=off`` (the newest look at an object decides
what it is).
"""
from __future__ import annotations

import importlib
import math
from dataclasses import fields
from typing import Any, Sequence

from brain_regions.pfc.feedback import MODES
from brain_runtime.ablation import Ablation

INSTEAD = {
    "vision": {"ann": "brain_regions.vision.region:AnnVision", "conventional": "brain.color_vision:ColorVision",
               "confused": "brain.confused_vision:ConfusedVision", "late": "brain.late_vision:LateVision"},
    "language": {"ann": "brain_regions.language:AnnLanguage", "conventional": "brain_regions.language:GrammarLanguage"},
    "pfc": {"ann": "brain_regions.pfc:AnnPrefrontalCortex", "conventional": "brain_regions.pfc:TablePrefrontalCortex"},
    "motor": {"ann": "brain_regions.motor:AnnMotor", "conventional": "brain_regions.motor:WindowMotor"},
}
"""Class, as ``package.module:Class``, that takes the place of each network."""
PARTS = {
    **{("qpfc", mode): {"pfc": {"qpfc": mode}} for mode in MODES},
    ("integration", "off"): {"pfc": {"integrate": False}},
    ("integration", "on"): {"pfc": {"integrate": True}},
}
"""Parameters, by region, of what is not a whole region."""


def parse(options: Sequence[str]) -> Ablation:
    """What some options NAME=VALUE come to.

    Raises:
        ValueError: one is unknown, or two contradict each other; says what there is.
    """
    classes: dict[str, str] = {}
    parameters: dict[str, dict[str, Any]] = {}
    said: dict[str, str] = {}
    for option in options:
        name, _, value = option.partition("=")
        for part in INSTEAD if name == "all" else (name,):
            if said.setdefault(part, value) != value:
                raise ValueError(f"--ablate {option} contradicts {part}={said[part]}")
            if part in INSTEAD and value == "silent":
                parameters.setdefault(part, {})["silent"] = True
            elif value in INSTEAD.get(part, {}):
                classes[part] = INSTEAD[part][value]
            elif part == "qpfc" and value.startswith("constant:"):
                parameters.setdefault("pfc", {}).update(qpfc="constant", qpfc_alpha=_alpha(option))
            elif (part, value) in PARTS:
                for region, changed in PARTS[part, value].items():
                    parameters.setdefault(region, {}).update(changed)
            else:
                raise ValueError(f"there is no ablation {option!r}; there are {', '.join(names())}")
    for region, cls in classes.items():
        lacking = [name for name in parameters.get(region, {}) if name not in _parameters(cls)]
        if lacking:
            raise ValueError(f"--ablate {region}={said[region]} leaves no network of which {', '.join(lacking)} could "
                             f"be changed; take it away, or what changes {region}")
    return Ablation(classes, parameters)


def _alpha(option: str) -> float:
    try:
        alpha = float(option.partition(":")[2])
    except ValueError:
        alpha = math.nan
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"--ablate {option}: alpha is a number from 0 to 1, as in qpfc=constant:0.5")
    return alpha


def _parameters(cls: str) -> set[str]:
    """Names of the parameters of a region's class."""
    module, _, name = cls.partition(":")
    return {f.name for f in fields(getattr(importlib.import_module(module), name).Parameters)}


def names() -> list[str]:
    """All ablations, as they are written."""
    whole = [f"{part}={'|'.join(('silent', *instead))}" for part, instead in INSTEAD.items()]
    whole.append("all=silent|ann|conventional")
    parts: dict[str, list[str]] = {}
    for name, value in PARTS:
        parts.setdefault(name, []).append(value)
    parts["qpfc"].append("constant:ALPHA")
    return whole + [f"{name}={'|'.join(values)}" for name, values in parts.items()]

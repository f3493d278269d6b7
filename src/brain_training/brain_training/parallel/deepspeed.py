# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's JSON configuration as options of ours, and the names of what has no counterpart.

Read are the ZeRO section (stage, offload of the optimizer), batch sizes, accumulation, clipping and bf16; see DeepSpeed
Configuration JSON, deepspeed.ai. How many ranks there are it does not say.
"""
from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping

from brain_training.parallel.how import How
from brain_training.parallel.plan import ZERO, Plan, PlanError

AUTO = "auto"       # what others fill in; here it says nothing
OWN = {"optimizer": "the task says it", "scheduler": "the task says it", "fp16": "all is computed in float32",
       "zero_optimization.offload_optimizer.device cpu": "it is in the CPU's memory; on CUDA there is --offload all",
       "zero_optimization.offload_param": "parameters on the CPU are --offload all, on CUDA"}
"""Why some keys have no counterpart."""


def read(path: Path) -> dict[str, Any]:
    """The configuration in a file.

    Raises:
        PlanError: it cannot be read, or is none.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"cannot read --deepspeed-config {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise PlanError(f"--deepspeed-config {path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise PlanError(f"--deepspeed-config {path} is no JSON object")
    return found


class _Config:
    """Takes keys out of a configuration; what is left has no counterpart."""

    def __init__(self, path: Path, found: Mapping[str, Any]) -> None:
        self.path, self._found = path, _flat(found)

    def take(self, key: str, what: str, kind: type = int, low: float = 0) -> Any:
        """The value of a key, checked; None: there is none."""
        value = self._found.pop(key, None)
        if value is None or value == AUTO:
            return None
        good = isinstance(value, bool) if kind is bool else isinstance(value, (int, kind)) and not isinstance(
            value, bool)
        if not good or kind in (int, float) and not (math.isfinite(value) and value >= low):
            raise self.wrong(f"{key} is {json.dumps(value)}, and must be {what}")
        return value

    def text(self, key: str, known: tuple[str, ...]) -> str | None:
        """The same of a word."""
        value = self._found.pop(key, None)
        if value is None or value == AUTO:
            return None
        if value not in known:
            raise self.wrong(f"{key} is {json.dumps(value)}; there is {', '.join(known)}")
        return str(value)

    def drop(self, section: str) -> None:
        """Takes out all of a section that says nothing more."""
        for key in [key for key in self._found if key.startswith(f"{section}.")]:
            del self._found[key]

    def wrong(self, why: str) -> PlanError:
        """Makes the PlanError that says what is wrong with the file."""
        return PlanError(f"--deepspeed-config {self.path}: {why}")

    def left(self) -> list[str]:
        """One line for each key without counterpart; that of a section which is off is none."""
        off = {key.removesuffix(".enabled") for key, value in self._found.items()
               if key.endswith(".enabled") and value is False}
        lines, told = [], set()
        for key in self._found:
            section = next((name for name in OWN if key == name or key.startswith(f"{name}.")), key)
            if section in told or any(key.startswith(f"{name}.") for name in off):
                continue
            told.add(section)
            why = f": {OWN[section]}" if section in OWN else ""
            lines.append(f"{self.path}: {section} has no counterpart here, and is left out{why}")
        return lines


def _flat(found: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Values by their keys, those of sections with dots."""
    flat: dict[str, Any] = {}
    for key, value in found.items():
        flat |= _flat(value, f"{before}{key}.") if isinstance(value, dict) and value else {f"{before}{key}": value}
    return flat


def taken(how: How, path: Path, *, zero_given: bool, world: int | None) -> tuple[How, list[str]]:
    """Options with what a configuration says.

    Args:
        how: as the command line has it.
        path: of the configuration.
        zero_given: the command line says what is shared out, by ``zero=``.
        world: ranks that torchrun has started; None: it has not.

    Returns:
        The options, and a line for each key that has no counterpart.

    Raises:
        PlanError: the file is none, or contradicts what the command line has, or itself.
    """
    config = _Config(path, read(path))
    if how.plan is None and world is None:
        raise PlanError(f"--deepspeed-config {path} says how ranks share out, and not how many there are; give "
                        f"--parallel dp=2, or start them by torchrun")
    plan = how.plan or Plan(dp=world or 1)
    if plan.ps or plan.pp > 1 or plan.tp > 1:
        raise PlanError(f"--deepspeed-config is of dp and zero, and this is {plan}; leave it out")

    def agree(option: str, given: Any, key: str, value: Any) -> Any:
        if given is not None and value is not None and given != value:
            raise PlanError(f"{option} is {given}, and {key} of {path} is {value}; leave one out")
        return value if given is None else given

    stage = config.take("zero_optimization.stage", "0, 1, 2 or 3")
    if stage is not None and stage > ZERO:
        raise config.wrong(f"zero_optimization.stage is {stage}, and must be 0, 1, 2 or 3")
    zero = agree("zero of --parallel", plan.zero if zero_given else None, "zero_optimization.stage", stage) or 0
    if zero and plan.dp == 1 and how.offload != "all":
        raise config.wrong(f"zero_optimization.stage {zero} shares out among the ranks of dp, which is 1; give "
                           f"--parallel dp=2 or more, or for one GPU --offload all")
    batch = config.take("train_batch_size", "a whole number, 1 or more", low=1)
    micro = config.take("train_micro_batch_size_per_gpu", "a whole number, 1 or more", low=1)
    steps = config.take("gradient_accumulation_steps", "a whole number, 1 or more", low=1)
    if micro is not None and batch is not None:
        parts, rest = divmod(batch, micro * plan.dp)
        if rest or steps not in (None, parts):
            raise config.wrong(f"train_batch_size {batch} is not train_micro_batch_size_per_gpu {micro} x "
                               f"gradient_accumulation_steps {steps or '?'} x {plan.dp} ranks")
        steps = parts
    elif micro is not None:
        batch = micro * (steps or how.accumulate) * plan.dp
    accumulate = agree("--accumulate", how.accumulate if how.accumulate != 1 else None, "gradient_accumulation_steps",
                       steps) or 1
    clip = config.take("gradient_clipping", "a number, 0 or more; 0 does not cut", float)
    compress = _compressed(config, zero)
    compress = agree("--compress", how.compress, "bf16, or communication_data_type,", compress)
    offload, folder = _offload(config, agree, how)
    told = replace(how, plan=replace(plan, zero=zero), accumulate=accumulate, compress=compress, offload=offload,
                   offload_folder=folder, batch=batch, clip=math.inf if clip == 0 else clip, deepspeed=path)
    return told, config.left()


def _compressed(config: _Config, zero: int) -> str | None:
    """Returns the type that gradients are sent as; bf16 with zero=2 and 3 has no counterpart."""
    if zero >= 2:
        return None
    sent = config.text("communication_data_type", ("bf16", "bfp16", "fp32"))
    enabled = config.take("bf16.enabled", "true or false", bool)
    if enabled is not None:
        config.drop("bf16")
    return "bf16" if enabled or sent in ("bf16", "bfp16") else None


def _offload(config: _Config, agree: Any, how: How) -> tuple[str | None, Path | None]:
    """Returns where the optimizer's state is kept: the value of ``--offload``, and the folder."""
    key = "zero_optimization.offload_optimizer"
    device = config.text(f"{key}.device", ("none", "cpu", "nvme"))
    place = config._found.pop(f"{key}.nvme_path", None)
    if device == "nvme" and not isinstance(place, str):
        raise config.wrong(f"{key}.device is nvme, and {key}.nvme_path names no folder")
    if device == "cpu":     # on the CPU it is there already
        config._found[f"{key}.device cpu"] = device
    offload = agree("--offload", how.offload, f"{key}.device", "optimizer" if device == "nvme" else None)
    folder = agree("--offload-folder", how.offload_folder, f"{key}.nvme_path",
                   Path(str(place)) if device == "nvme" else None)
    return offload, folder

# SPDX-License-Identifier: Apache-2.0
"""The file of one task: all that is known of it in one, so that whatever happens it is whole, the new or the old.

It is safetensors: ``weights/NAME``, ``windows``, and clips of ``memory`` and ``held`` (``images`` and the parts of
:class:`brain_training.vision_data.Labels`). The metadata has the version, what the numbers mean, a digest of the
tensors, and as JSON how good it is. Mean and covariance are not stored: they follow from the windows.
"""
from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

import numpy as np
import torch

from brain_regions.vision import weights
from brain_regions.vision.network import COLUMNS, HEIGHT, SLOTS, WIDTH
from brain_runtime.contract.snapshot import arrays_of
from brain_sim.things import COLORS, SHAPES
from brain_training.checkpoint import save_tensors
from brain_training.federated import network_of, weights_of
from brain_training.lifelong.descriptor import Descriptor
from brain_training.lifelong.memory import Reservoir
from brain_training.lifelong.pictures import HUES, NAMES
from brain_training.vision_data import UNSURE, Clips, Labels

VERSION = 1
ENDING = ".task.safetensors"
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
MOST_BYTES = 2**28      # of a file; what is larger is not opened
MOST_CLIPS = 10_000     # of a memory
_KINDS = (np.int8, np.int8, np.float32, np.float32, np.float32)


class LibraryProblem(RuntimeError):
    """A library cannot be used; names the file, why, and the remedy."""


@dataclass(frozen=True)
class Task:
    """A task that was learned.

    Attributes:
        name: of it.
        weights: of vision, by name.
        descriptor: of what its pictures look like.
        memory: clips to learn from again.
        held: clips to examine by, which nothing is learned from.
        f1: in the second half of the clips that are held; ``threshold`` is chosen in the first half.
        threshold: confidence from which on a detection counts.
        learned: how many times.
    """

    name: str
    weights: dict[str, np.ndarray]
    descriptor: Descriptor
    memory: Reservoir
    held: Reservoir
    f1: float
    threshold: float
    learned: int


def check_name(name: str) -> str:
    """A name of a task, which is one of a file too; raises LibraryProblem."""
    if not NAME.fullmatch(name):
        raise LibraryProblem(f"{name[:80]!r} is no name of a task; take small letters, digits and - between them, 63 "
                             f"at most, as cold-store")
    return name


def meaning() -> str:
    """Hash of what the numbers of a file mean: another network or other numbers of pictures need other files."""
    return hashlib.sha256(json.dumps([weights.network_hash(), NAMES, HUES]).encode()).hexdigest()[:16]


def write(path: Path, task: Task) -> None:
    """Writes a task's file, whole or not at all.

    Raises:
        LibraryProblem: it cannot be written.
    """
    tensors: dict[str, np.ndarray] = {f"weights/{name}": value for name, value in task.weights.items()}
    tensors["windows"] = task.descriptor.windows
    for part, kept in (("memory", task.memory), ("held", task.held)):
        clips = kept.clips
        tensors[f"{part}/images"] = clips.images
        tensors.update({f"{part}/{name}": value for name, value in clips.labels._asdict().items()})
    values = {"task": task.name, "rate": task.descriptor.rate, "f1": task.f1, "threshold": task.threshold,
              "learned": task.learned,
              **{part: {"capacity": kept.capacity, "seed": kept.seed, "seen": kept.seen}
                 for part, kept in (("memory", task.memory), ("held", task.held))}}
    try:
        save_tensors(path, {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in tensors.items()},
                     {"lifelong": str(VERSION), "meaning": meaning(), "digest": _digest(tensors),
                      "values": json.dumps(values)})
    except OSError as error:
        raise LibraryProblem(f"cannot write {path} ({error}); make room, or take another folder. What was there before "
                             f"is as it was") from error


def read(path: Path) -> Task:
    """Reads a task's file.

    Raises:
        LibraryProblem: it is torn, of another version or network, or holds what no task has.
    """
    from safetensors import SafetensorError, safe_open

    try:
        if not path.is_file():      # a pipe would be waited for
            raise LibraryProblem(f"{path} is no file, as a task's is; take it out of the library")
        if path.stat().st_size > MOST_BYTES:
            raise LibraryProblem(f"{path} has more than {MOST_BYTES} bytes, as no task has; take it out of the library")
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            tensors = arrays_of(file)
    except (SafetensorError, OSError, TypeError, KeyError) as error:
        raise LibraryProblem(f"{path} is torn or no task's file ({' '.join(str(error).split())[:150]}); put back a "
                             f"copy, or remove it and learn the task again") from error
    check_version(path, metadata.get("lifelong"))
    if metadata.get("meaning") != meaning():
        raise LibraryProblem(f"{path} was made for another network of vision, or for other numbers of pictures; remove "
                             f"it and learn the task again")
    if metadata.get("digest") != _digest(tensors):
        raise LibraryProblem(f"{path} is damaged: its contents are not those that were written; put back a copy, or "
                             f"remove it and learn the task again")
    try:
        return _task(path, json.loads(metadata["values"]), tensors)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise LibraryProblem(f"{path} holds what no task has ({' '.join(str(error).split())[:150]}); remove it and "
                             f"learn the task again") from error


def check_version(path: Path, told: Any) -> None:
    """Refuses what this software does not know; raises LibraryProblem."""
    if isinstance(told, str) and re.fullmatch(r"[1-9][0-9]{0,8}", told) and int(told) > VERSION:
        raise LibraryProblem(f"{path} is of version {told}, and this software knows versions up to {VERSION}: take the "
                             f"newer brain_training that wrote it")
    if told != str(VERSION):
        raise LibraryProblem(f"{path} does not say of which version it is; it is not of a library of tasks")


def _task(path: Path, values: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Task:
    name = path.name.removesuffix(ENDING)
    if values["task"] != name:
        raise ValueError(f"it is of the task {str(values['task'])[:80]!r}; a file is not renamed")
    found = {key.removeprefix("weights/"): value for key, value in tensors.items() if key.startswith("weights/")}
    if not all(value.dtype == np.float32 and np.isfinite(value).all() for value in found.values()):
        raise ValueError("its weights are not finite float32")
    found = weights_of(network_of(found))       # names and shapes
    f1, threshold, rate, learned = (float(values[key]) for key in ("f1", "threshold", "rate", "learned"))
    if not (0.0 <= f1 <= 1.0 and 0.0 <= threshold <= 1.0 and 0.0 < rate < 1.0 and 1.0 <= learned < 1e9):
        raise ValueError("its figures are none")
    return Task(name, found, Descriptor(tensors["windows"].astype(np.float64), rate), _kept("memory", values, tensors),
                _kept("held", values, tensors), f1, threshold, int(learned))


def _kept(part: str, values: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Reservoir:
    images = tensors[f"{part}/images"]
    labels = Labels(*(tensors[f"{part}/{name}"] for name in Labels._fields))
    if images.ndim != 5 or images.dtype != np.uint8 or images.shape[2:] != (HEIGHT, WIDTH, 3) or 0 in images.shape:
        raise ValueError(f"its pictures are {images.dtype} {images.shape}")
    if any(array.shape != (*images.shape[:2], SLOTS, COLUMNS) or array.dtype != kind or not np.isfinite(array).all()
           for array, kind in zip(labels, _KINDS)):
        raise ValueError("its labels are not those of its pictures")
    if not (labels.color.min() >= UNSURE and labels.color.max() < len(COLORS) and labels.shape.min() >= 0
            and labels.shape.max() < len(SHAPES) and (labels.distance[labels.color >= 0] > 0.0).all()):
        raise ValueError("its labels name what there is not")
    capacity, seed, seen = (int(values[part][key]) for key in ("capacity", "seed", "seen"))
    if not (capacity <= MOST_CLIPS and 0 <= seed < 2**63 and seen < 2**53):
        raise ValueError(f"it keeps {capacity} clips of {seen} by the seed {seed}")
    return Reservoir(capacity, seed, Clips(images, labels), seen)


def _digest(tensors: Mapping[str, np.ndarray]) -> str:
    found = hashlib.sha256()
    for name in sorted(tensors):
        value = np.ascontiguousarray(tensors[name])
        found.update(f"{name} {value.dtype} {value.shape}\n".encode())
        found.update(value.tobytes())
    return found.hexdigest()

# SPDX-License-Identifier: Apache-2.0
"""Two stages of incremental learning in the cloud: training that goes on, and the comparison with what is in use."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, NamedTuple

import torch

from brain_regions.vision import weights as weight_file
from brain_regions.vision.weights import WeightsError
from brain_training.definitions import vision as definition
from brain_training.federated import network_of
from brain_training.incremental import clip_list
from brain_training.incremental.comparing import (LOST, Gain, Verdict, compare, counts, judge, together)
from brain_training.incremental.learning import Course, go_on, old_clips
from brain_training.incremental.sedna_worker import WorkerProblem
from brain_training.vision import test_on
from brain_training.vision_data import Way, make_ways

BY = "brain fleet incremental"
THRESHOLD_ROOMS, PLAIN_ROOMS = 700_000, 710_000     # first seeds of val; no others of this project begin there
WAY = 16            # pictures of a way in one of these rooms
MOST_DRIVES = 5000  # that a model remembers to have learned from

Tell = Callable[[str], None]


class Settings(NamedTuple):
    """Of both stages: where labels come from, old rooms, how training goes, what may be forgotten; where clips are."""

    labels: str = "self"
    rooms: int = 20
    course: Course = Course()
    most_lost: float = LOST
    seed: int = 0
    root: Path | None = None


def train(base: Path, listed: Path, out: Path, settings: Settings, tell: Tell) -> dict[str, Any]:
    """Goes on from the weights of ``base`` with the clips of a list, and writes ``out``; returns how it was made.

    Raises:
        WorkerProblem: there is nothing to learn from, or the list cannot be read.
        WeightsError: ``base`` is no weight file of vision.
        OSError: ``out`` cannot be written.
    """
    torch.set_num_threads(1)
    start = weight_file.load(base)
    before = training_of(base)
    found = clip_list.clips_of(paths_of(listed, settings.root), tell)
    learned = [clip for clip in found if not clip_list.kept_back(clip.drive)] or found
    aside = [clip for clip in found if not any(clip is one for one in learned)]
    new, drives = clip_list.training(learned, settings.labels, settings.seed, tell)
    if new is None:
        raise WorkerProblem(f"{listed} names no clip that can be learned from; collect some with `brain fleet collect`")
    course = settings.course
    old = old_clips(round(course.steps * course.batch * course.replay), clip_list.FRAMES, settings.seed) \
        if course.replay else None
    tell(f"{len(new.images)} clips of {len(drives)} drives, {0 if old is None else len(old.images)} old ones")
    weights, told = go_on(start.tensors, new, old, course, settings.seed)
    made = network_of(weights).eval()
    ways = [way for one in clip_list.held_out(aside, settings.labels, tell).values() for way in one]
    plain = list(make_ways(max(1, settings.rooms // 2), WAY, split="val", first_seed=THRESHOLD_ROOMS))
    tally = together([test_on(made, some) for some in (plain, ways) if some])
    threshold = tally.best_threshold()
    known = _drives(before)
    training = {"split": "train", "by": BY, "base": start.digest, "labels": settings.labels, "clips": len(new.images),
                "old_clips": 0 if old is None else len(old.images), **course._asdict(), "loss": told["loss"],
                "seed": settings.seed, "drives": sorted({*known, *drives, *(clip.drive for clip in aside)}
                                                        )[-MOST_DRIVES:]}
    definition.save(out, made, training, {"threshold": threshold, "objects_of_threshold": len(tally.asked)})
    return training


def training_of(path: Path) -> dict[str, Any]:
    """Reads from a weight file's metadata how it was trained; empty where the file does not say.

    Raises:
        WeightsError: it cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            found = json.loads((file.metadata() or {}).get("training", "{}"))
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"weight file {path} is torn or none ({error})") from error
    return found if isinstance(found, dict) else {}


def _drives(training: dict[str, Any]) -> list[str]:
    """Drives that weights have learned from, as their file tells; what it holds may be anything."""
    found = training.get("drives")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _loaded(path: Path) -> tuple[Any, float]:
    """A network, and the confidence from which on it tells of things. Raises WeightsError."""
    found, loaded = definition.load(path)
    return found, weight_file.threshold(path, loaded)


def paths_of(listed: Path, root: Path | None) -> list[Path]:
    """Reads a list of clips and returns their paths. Raises WorkerProblem."""
    try:
        return clip_list.read(listed, root)
    except OSError as error:
        raise WorkerProblem(f"cannot read the list of clips {listed}: {error.strerror or error}") from error


class Compared(NamedTuple):
    """Result of an evaluation: gain in the held-out drives (None: there are none), in the old rooms, and verdict."""

    held: Gain | None
    plain: Gain
    verdict: Verdict


def evaluate(new: Path, old: Path, listed: Path, settings: Settings, tell: Tell) -> Compared:
    """Compares two weight files on the clips of a list; what either has learned from is left out.

    Raises:
        WorkerProblem: the list cannot be read.
        WeightsError: one is no weight file of vision.
    """
    torch.set_num_threads(1)
    networks = [_loaded(path) for path in (new, old)]
    seen = {drive for path in (new, old) for drive in _drives(training_of(path))}
    clips = clip_list.clips_of(paths_of(listed, settings.root), tell)
    fresh = [clip for clip in clips if clip.drive not in seen]
    if len(fresh) < len(clips):
        tell(f"{len(clips) - len(fresh)} clips are of drives that were learned from, and are left out")
    drives = list(clip_list.held_out(fresh, settings.labels, tell).values())
    plain: list[list[Way]] = [[way] for way in make_ways(settings.rooms, WAY, split="val", first_seed=PLAIN_ROOMS)]

    def gain(ways: list[list[Way]]) -> Gain:
        return compare(*(counts(network, threshold, ways) for network, threshold in networks), seed=settings.seed)

    held, rooms = gain(drives) if drives else None, gain(plain)
    return Compared(held, rooms, judge(held, rooms, settings.most_lost))

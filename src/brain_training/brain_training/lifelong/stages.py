# SPDX-License-Identifier: Apache-2.0
"""The workers of Sedna's LifelongLearningJob, by the variables that its manager, or the local runner, sets.

A line of the data set is a folder of recordings, or a look of the simulator. *train* learns each line into a copy of
the library that is deployed. *eval* tells how good the library is on the lines that were kept back, and deploys it.
*infer* tells which task some pictures belong to, writes the weights of that task for a robot, and waits until it is
started again with the next library.
"""
from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from brain_regions.vision import weights
from brain_training.federated import network_of
from brain_training.incremental.sedna_worker import WorkerProblem, report
from brain_training.lifelong.allocation import of_windows
from brain_training.lifelong.examining import examined
from brain_training.lifelong.learners import Steps
from brain_training.lifelong.learning import exported, learn
from brain_training.lifelong.library import Library, descriptors
from brain_training.lifelong.sources import source
from brain_training.lifelong.task_file import LibraryProblem

LIBRARY = "library"
INDEX = "index.pkl"     # the name by which Sedna passes on what it has deployed; it is JSON here, and no pickle
ROBOT = "vision.safetensors"
MOST_LINES = 1000
STAGES = ("train", "eval", "infer")

Tell = Callable[[str], None]


def train(how: Steps, labels: str, seed: int, tell: Tell) -> None:
    """Learns the data set of this round.

    Raises:
        LibraryProblem: a variable or the library is wrong.
        ValueError: a line is.
    """
    there = _folder("OUTPUT_URL")
    before = there.parent.parent / "deploy" / LIBRARY       # OUTPUT_URL is train/ROUND below the job's folder
    library = there / LIBRARY
    _mended(before)
    if before.is_dir():
        new = there / f"{LIBRARY}.new"
        shutil.rmtree(new, ignore_errors=True)      # of a worker that was killed
        shutil.rmtree(library, ignore_errors=True)
        shutil.copytree(before, new)
        new.rename(library)
    results = []
    for line in _lines("TRAIN_DATASET_URL"):
        found = learn(Library(library), source(line, labels, seed), how, seed)
        tell(f"{line}: {found.what}, {found.task}, F1 {found.f1:.3f}")
        results.append({"url": LIBRARY, "metrics": {"f1": [found.f1]}})
    _report("train", results, tell)


def evaluate(labels: str, seed: int, tell: Tell) -> None:
    """Examines the library on what was kept back, and deploys it.

    Raises:
        LibraryProblem: a variable or the library is wrong.
        ValueError: a line is.
    """
    trained, target = _folder("MODEL_URLS"), _folder("OUTPUT_URL")
    trained = trained if trained.name == LIBRARY else trained / LIBRARY
    tasks = Library(trained).tasks()
    if not tasks:
        raise LibraryProblem(f"{trained} has no task: nothing was trained")
    scores = {}
    for line in _lines("TEST_DATASET_URL"):
        pictures = source(line, labels, seed)
        found = of_windows(pictures.windows(), descriptors(tasks))
        used = tasks[found.task or found.nearest or next(iter(tasks))]
        scores[line] = examined(network_of(used.weights).eval(), pictures.clips()).at(used.threshold).f1
        tell(f"{line}: {found.task or 'unknown'}, F1 {scores[line]:.3f}")
    target.mkdir(parents=True, exist_ok=True)
    _mended(target / LIBRARY)
    new, old = target / f"{LIBRARY}.new", target / f"{LIBRARY}.old"
    for folder in (new, old):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(trained, new)
    if (target / LIBRARY).is_dir():
        (target / LIBRARY).rename(old)      # see _mended
    new.rename(target / LIBRARY)
    shutil.rmtree(old, ignore_errors=True)
    temporary = target / f"{INDEX}.tmp"
    temporary.write_text(json.dumps({"library": LIBRARY, "tasks": sorted(tasks), "f1": scores}))
    temporary.replace(target / INDEX)
    _report("eval", [{"url": INDEX, "metrics": {"f1": list(scores.values())}}], tell)


def infer(recordings: str, tell: Tell) -> Path | None:
    """Tells which task pictures belong to, and writes its weights; None: nothing is deployed yet, or it is unknown.

    Raises:
        LibraryProblem: a variable or the library is wrong.
        ValueError: the pictures cannot be read.
    """
    index = Path(_variable("MODEL_URLS"))
    tasks = Library(index.parent / LIBRARY).tasks()
    if not tasks:
        tell("nothing is deployed yet")
        return None
    found = of_windows(source(recordings, "self", 0).windows(), descriptors(tasks))
    if found.task is None:
        tell(f"{recordings}: unknown; the nearest is {found.nearest}")
        return None
    out = _folder("OUTPUT_URL") / "robot" / ROBOT
    weights.save(out, *exported(Library(index.parent / LIBRARY), found.task))
    tell(f"{recordings}: {found.task}; its weights are {out}")
    return out


def _mended(deployed: Path) -> None:
    """Puts back the library that an evaluation had moved away when it was killed before the next was in its place."""
    old = deployed.with_name(f"{LIBRARY}.old")
    if old.is_dir() and not deployed.exists():
        old.rename(deployed)


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise LibraryProblem(f"the variable {name} is not set; this is run by a LifelongLearningJob, as in "
                             f"docs/fleet-learning.md")
    return value


def _folder(name: str) -> Path:
    return Path(_variable(name))


def _lines(name: str) -> list[str]:
    path = _folder(name)
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise LibraryProblem(f"cannot read the data set {path} ({error}); it is a text with a folder of recordings in "
                             f"each line") from error
    found = [line for line in found if line and not line.startswith("#")]
    if len(found) > MOST_LINES:
        raise LibraryProblem(f"the data set {path} has {len(found)} lines, more than {MOST_LINES}; give fewer at once")
    return found


def _report(kind: str, results: Sequence[Mapping[str, Any]], tell: Tell) -> None:
    """Tells the manager what came of it, where there is one; what it does not hear costs nothing but its status."""
    try:
        report(kind, "completed", results, "LifelongLearningJob")
    except WorkerProblem as problem:
        tell(f"the manager was not told: {problem}")

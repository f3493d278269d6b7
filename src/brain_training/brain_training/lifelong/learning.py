# SPDX-License-Identifier: Apache-2.0
"""Learning into a library: which task it is, or a new one; then a few steps; then how good it is now."""
from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

import numpy as np

from brain_regions.vision import weights as weight_file
from brain_training.federated import network_of
from brain_training.lifelong.allocation import Allocated, of_windows
from brain_training.lifelong.descriptor import FEWEST, MOST_WINDOWS, RATE, Descriptor
from brain_training.lifelong.examining import examined
from brain_training.lifelong.learners import Steps, fit, task_seed
from brain_training.lifelong.library import Library, descriptors
from brain_training.lifelong.memory import CAPACITY, Reservoir, some
from brain_training.lifelong.sources import Source
from brain_training.lifelong.task_file import Task, check_name
from brain_training.task import stream
from brain_training.vision_data import Clips

HELD = 5                # of so many clips the last is held back, in their order in time
NEW, FURTHER, KEPT = "new", "further", "kept"


class Learned(NamedTuple):
    """Result of learning a task.

    Attributes:
        task: that was learned.
        what: ``new``, ``further``, or ``kept``: the weights that it had before were better, and stay.
        allocated: what its pictures were taken for.
        before: F1 in the same held-back clips with the weights that it began with.
        f1: F1 now.
    """

    task: str
    what: str
    allocated: Allocated | None
    before: float
    f1: float


def learn(library: Library, source: Source, how: Steps, seed: int, *, name: str | None = None,
          start: Mapping[str, np.ndarray] | None = None, rate: float = RATE,
          tell: Callable[[int, int], None] = lambda done, of: None) -> Learned:
    """Learns the pictures of one site.

    Args:
        library: that it goes into.
        source: of the pictures.
        how: recipe.
        seed: of all that is drawn.
        name: of the task, told by a person; None: that which the pictures are taken for, or a new one.
        start: weights that a new task begins with; None: the nearest task's, and the first those that ship.
        rate: of a new task's own windows that are to be taken for unknown.
        tell: called with the steps done and to do.

    Raises:
        LibraryProblem: the library cannot be used.
        ValueError: there is too little to learn from.
    """
    windows, clips = source.windows(), source.clips()
    if len(clips.images) < 2 * HELD:
        raise ValueError(f"{len(clips.images)} labelled clips are too few to learn from and to examine by; "
                         f"{2 * HELD} are needed: record more")
    with library.writing():
        tasks = library.tasks()
        allocated = of_windows(windows, descriptors(tasks)) if tasks else None
        if name is None:
            taken = None if allocated is None else allocated.task
            name = _fresh(tasks) if taken is None else taken
        check_name(name)
        known = tasks.get(name)
        begin = dict(known.weights) if known is not None else dict(start) if start is not None else (
            dict(tasks[allocated.nearest].weights) if allocated is not None and allocated.nearest else shipped())
        held = len(clips.images) - max(1, len(clips.images) // HELD)
        new, kept_back = some(clips, range(held)), some(clips, range(held, len(clips.images)))
        own = task_seed(seed, known.learned if known is not None else 0)
        described = _described(known, windows, rate, own)
        memory = known.memory if known is not None else Reservoir(CAPACITY, own)
        examples = known.held if known is not None else Reservoir(CAPACITY, own + 1)
        replayed = memory.clips if known is not None and len(memory) else None
        if replayed is not None and replayed.images.shape[1] != new.images.shape[1]:
            raise ValueError(f"the clips have {new.images.shape[1]} pictures, and those of {name} had "
                             f"{replayed.images.shape[1]}: looks of the simulator and recordings are not one task")
        found = fit(begin, new, how, own, memory=replayed, tell=tell)
        if not all(np.isfinite(value).all() for value in found.values()):
            raise ValueError("the training came to weights that are not finite; take a lower rate. The library stays "
                             "as it was")
        memory.add(new)
        examples.add(kept_back)
        before, after = score(begin, examples.clips), score(found, examples.clips)
        what = NEW if known is None else FURTHER if after[0] >= before[0] else KEPT
        weights, (f1, threshold) = (begin, before) if what == KEPT else (found, after)
        task = Task(name, weights, described, memory, examples, f1, threshold,
                    1 if known is None else known.learned + 1)
        f1_of_all = {other.name: other.f1 for other in tasks.values()} | {name: f1}
        library.put(task, {"task": name, "what": what, "before": before[0], "f1": f1_of_all})
    return Learned(name, what, allocated, before[0], f1)


def shipped() -> dict[str, np.ndarray]:
    """The weights that come with vision."""
    return dict(weight_file.load().tensors)


def score(weights: Mapping[str, np.ndarray], clips: Clips) -> tuple[float, float]:
    """F1 in every second clip, at the threshold that is best in the others; and that threshold."""
    network = network_of(weights).eval()
    count = len(clips.images)
    threshold = examined(network, some(clips, range(0, count, 2))).best_threshold()
    return examined(network, some(clips, range(1, count, 2) if count > 1 else [0])).at(threshold).f1, threshold


def status(library: Library) -> list[dict[str, Any]]:
    """Of each task: how good it is, what was forgotten, and how it is known.

    ``forgotten`` is the best F1 that the history has of it minus that of now. ``recognized`` is the share of its own
    windows that the library takes for it today: a task that looks much like a later one loses here.
    """
    tasks = library.tasks()
    known = descriptors(tasks)
    found = []
    for name, task in tasks.items():
        best = max([float(line["f1"][name]) for line in library.history if name in line["f1"]] + [task.f1])
        others = of_windows(task.descriptor.windows, known)
        each = [of_windows([window], known).task for window in task.descriptor.windows]
        found.append({"task": name, "f1": task.f1, "forgotten": best - task.f1, "learned": task.learned,
                      "clips": task.memory.seen, "windows": len(each), "recognized": each.count(name) / len(each),
                      "unknown": each.count(None) / len(each), "rate": task.descriptor.reached,
                      "ratios": others.ratios})
    return found


def exported(library: Library, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]]:
    """A task's weights, how they were made, and their held-out figures, as a weight file has them."""
    task = library.task(name)
    report = {"threshold": task.threshold, "f1": task.f1, "clips": len(task.held) // 2}
    return task.weights, {"lifelong": name, "learned": task.learned, "clips": task.memory.seen}, report


def _described(known: Task | None, windows: np.ndarray, rate: float, seed: int) -> Descriptor:
    """Makes a task's descriptor of its new windows and, where the task is known, those of before."""
    if known is not None:
        windows, rate = np.concatenate([known.descriptor.windows, windows]), known.descriptor.rate
    if len(windows) > MOST_WINDOWS:
        windows = windows[np.sort(stream("lifelong windows", seed).permutation(len(windows))[:MOST_WINDOWS])]
    if len(windows) < FEWEST:
        raise ValueError(f"{len(windows)} windows of pictures are too few to know a site by; {FEWEST} are needed: "
                         f"record for longer")
    return Descriptor(windows, rate)


def _fresh(tasks: Mapping[str, Task]) -> str:
    """A name that no task has."""
    number = len(tasks) + 1
    while f"site-{number}" in tasks:
        number += 1
    return f"site-{number}"

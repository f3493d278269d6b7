# SPDX-License-Identifier: Apache-2.0
"""Things that a robot is taught by a few pictures: a head of prototypes on the rates of vision's neurons.

What is kept are level pictures, and where the thing is in each. A head is made of them for the weights that vision
has: the mean of the neurons' rates over the columns that show the thing, in a space where what else is seen, in these
pictures and in those of :data:`SURROUNDINGS`, varies alike in all directions (a discriminant with one covariance for
all; R. A. Fisher: The Use of Multiple Measurements in Taxonomic Problems, 1936). Nothing of the network changes.
"""
from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from brain_regions.vision.decode import FLOOR, Found, outlines
from brain_regions.vision.network import (COLUMNS, DISTANCE, HEIGHT, OBJECT, RESOLUTION, ROWS, SLOTS, WIDTH, Looking,
                                          column_angles)
from brain_runtime.contract.taught import FIRST, FORMAT, MOST, NAMES, TaughtError, checked, names

SURROUNDINGS = Path(__file__).parent / "weights" / "surroundings.png"
"""Level pictures of sceneries, one below the other, that show what things are told from."""
FEWEST, MOST_PICTURES = 5, 20       # pictures of a thing
SMALLEST = 6                        # columns of the network (12 pixels of a level picture) that a thing covers
LOOKS, STEPS = 4, 6                 # at a picture, and micro-steps of each
TOGETHER = 3                        # columns between two parts of a thing at most
ROWS_OF, HEARD = (0, 1, 2), (3, 4, 5)   # layers of many rows, and of one, whose rates tell
SHRINK = 0.5                        # of the mean variance of rates in units of their spread, added to all directions
LEAST_SPREAD = 1e-3                 # of a rate: of neurons that hardly fire
QUIET = 0.95                        # share of pictures of what else is seen in which a thing is not told
APART = 0.5                         # of the score of pictures that were left out: from which on a thing is told
WIDTHS = 0.5, 0.75, 1.0, 1.5, 2.0   # of its mean width, in which a thing is looked for
ALIKE = 0.5                         # share of pictures taken for another thing, from which on two are one


class Example(NamedTuple):
    """A level picture uint8 [HEIGHT, WIDTH, 3], and the first and last column of the network that show the thing."""

    picture: np.ndarray
    first: int
    last: int


# -- the file ----------------------------------------------------------------------------------------------------------


def load(path: Path) -> dict[int, list[Example]]:
    """Examples of all things by number; none where there is no file.

    Raises:
        TaughtError: it cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    known, found = names(path), {}
    if not known:
        return {}
    try:
        with safe_open(path, framework="np") as data:
            for number in known:
                pictures, columns = data.get_tensor(f"{number}.pictures"), data.get_tensor(f"{number}.columns")
                if not (pictures.dtype == np.uint8 and pictures.shape[1:] == (HEIGHT, WIDTH, 3)
                        and FEWEST <= len(pictures) <= MOST_PICTURES and columns.shape == (len(pictures), 2)
                        and columns.min() >= 0 and columns.max() < COLUMNS and (columns[:, 0] <= columns[:, 1]).all()):
                    raise ValueError("shapes")
                found[number] = [Example(picture, int(a), int(b)) for picture, (a, b) in zip(pictures, columns)]
    except (SafetensorError, OSError, ValueError, IndexError, TypeError) as error:
        raise TaughtError(f"the file of taught things {path} is torn or of another release; take it away, and teach "
                          f"them again") from error
    return found


def keep(path: Path, name: str, examples: Sequence[Example]) -> int:
    """Adds a thing to the file, or replaces it; returns its number.

    Raises:
        TaughtError: there is no room for another thing, or the file cannot be read.
        OSError: it cannot be written.
    """
    known, found = names(path), load(path)
    numbers = {its: number for number, its in known.items()}
    free = [number for number in range(FIRST, FIRST + MOST) if number not in known]
    if name not in numbers and not free:
        raise TaughtError(f"{MOST} things are taught, and there is no room for {name}; forget one with `brain teach "
                          f"NAME --forget`")
    number = numbers.get(name) or free[0]
    _write(path, {**known, number: name}, {**found, number: list(examples)})
    return number


def forget(path: Path, name: str) -> None:
    """Takes a thing out of the file. Raises TaughtError where it is not in it, OSError where it cannot be written."""
    known, found = names(path), load(path)
    gone = [number for number, its in known.items() if its == name]
    if not gone:
        there = f"there are {', '.join(sorted(known.values()))}" if known else "nothing was"
        raise TaughtError(f"{name} was not taught; {there}")
    _write(path, {number: its for number, its in known.items() if number not in gone},
           {number: its for number, its in found.items() if number not in gone})


def _write(path: Path, known: Mapping[int, str], found: Mapping[int, Sequence[Example]]) -> None:
    from safetensors.numpy import save

    arrays = {}
    for number, examples in found.items():
        arrays[f"{number}.pictures"] = np.stack([one.picture for one in examples])
        arrays[f"{number}.columns"] = np.array([(one.first, one.last) for one in examples], np.int16)
    data = save(arrays, metadata={"format": FORMAT, NAMES: json.dumps({str(n): checked(its) for n, its in
                                                                      known.items()}, ensure_ascii=False)})
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


# -- what a network makes of them --------------------------------------------------------------------------------------


def rates(trains: Sequence[np.ndarray]) -> np.ndarray:
    """Rates of neurons, of each column: float32 [COLUMNS, rates].

    Of layers of many rows the mean and the greatest of a channel, since a thing may be at any height in the picture.

    Args:
        trains: of all layers, bool [steps, rows, columns, channels]; see :class:`.network.Looked`.
    """
    found = [trains[k].mean(0, dtype=np.float32).reshape(COLUMNS, -1) for k in HEARD]
    for k in ROWS_OF:
        each = trains[k].mean(0, dtype=np.float32)
        found += [each.mean(0), each.max(0)]
    return np.concatenate(found, 1)


def looked_at(looking: Looking, picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """:func:`rates` of a network that looks at a level picture from rest, and its answer [OUTPUTS, COLUMNS]."""
    state, seen = looking.rest(), []
    for _ in range(LOOKS):
        found = looking.look(picture, state, STEPS)
        state = found.state
        seen.append(rates(found.trains))
    return np.mean(seen[1:], 0), state["u"].T       # the first picture finds potentials at rest


def example(looking: Looking, picture: np.ndarray) -> Example | None:
    """Finds the thing in a level picture that shows it in the middle.

    It is what vision takes for some object, of whatever color and kind, nearest to the middle of what the camera sees;
    where vision sees none there, the middle itself. Of what it does not know vision may see a part alone: what covers
    half of :data:`SMALLEST` is taken with what is beside it. None: it is too small to tell.
    """
    seen = np.flatnonzero(_lit(picture))
    if not len(seen):
        return None
    middle = (seen[0] + seen[-1]) / 2
    near = [(max(first - middle, middle - last, 0.0), first, last)
            for first, last in outlines(looked_at(looking, picture)[1])]
    off, first, last = min(near, default=(math.inf, 0, 0))
    if off > COLUMNS / 8:
        return Example(picture, int(middle) - SMALLEST + 1, int(middle) + SMALLEST)
    for _, other, end in sorted(near, key=lambda run: run[1]):      # of one thing vision may see several parts
        if other - last <= TOGETHER and first - end <= TOGETHER:
            first, last = min(first, other), max(last, end)
    if last - first + 1 < SMALLEST // 2:
        return None
    more = max(SMALLEST - (last - first + 1), 0)
    first = min(max(first - more // 2, 0), COLUMNS - SMALLEST)
    return Example(picture, first, max(last, first + SMALLEST - 1))


class Head(NamedTuple):
    """Discriminant of one thing.

    Attributes:
        number: of the thing.
        weights, offset: of a column's rates: 0 for what else is seen in the mean, 1 for the thing.
        threshold: from which on it is told.
        width: columns that it covered, in the mean.
    """

    number: int
    weights: np.ndarray
    offset: float
    threshold: float
    width: float

    def best(self, seen: np.ndarray) -> tuple[float, int, int]:
        """Highest mean score of neighbouring columns of :func:`rates`, the first and the last of these."""
        total = np.concatenate(([0.0], np.cumsum(seen @ self.weights - self.offset)))
        found = (-math.inf, 0, 0)
        for share in WIDTHS:
            width = min(max(round(share * self.width), SMALLEST // 2), len(seen))
            means = (total[width:] - total[:-width]) / width
            at = int(means.argmax())
            if means[at] > found[0]:
                found = float(means[at]), at, at + width - 1
        return found


class Taught:
    """Heads of all taught things.

    Args:
        looking: the network.
        examples: of each thing by number.

    Attributes:
        heads: of each thing.
        left_out: share of a thing's pictures in which it is found by what the others tell, by number.

    Raises:
        TaughtError: the pictures that they are told from are missing.
    """

    def __init__(self, looking: Looking, examples: Mapping[int, Sequence[Example]]) -> None:
        self.heads: list[Head] = []
        self.left_out: dict[int, float] = {}
        if not examples:
            return
        shown = {number: [(looked_at(looking, one.picture)[0], one) for one in some]
                 for number, some in examples.items()}
        others = [looked_at(looking, picture)[0][_lit(picture)] for picture in surroundings()]
        # what is beside a thing in its own pictures is not it, either
        beside = [seen[_beside(one)] for some in shown.values() for seen, one in some]
        every = np.concatenate([*others, *beside])
        scale = every.std(0) + LEAST_SPREAD
        spread = np.cov(every / scale, rowvar=False)
        spread[np.diag_indices_from(spread)] += SHRINK * np.trace(spread) / len(spread)
        mean, spread = every.mean(0), spread * np.outer(scale, scale)
        for number, some in shown.items():
            its = np.stack([seen[one.first:one.last + 1].mean(0) for seen, one in some])
            width = float(np.mean([one.last - one.first + 1 for _, one in some]))
            head = _head(number, its, width, mean, spread)
            elsewhere = [*others, *(seen[_lit(one.picture)] for its_number, its_some in shown.items()
                                    if its_number != number for seen, one in its_some)]
            quiet = float(np.quantile([head.best(seen)[0] for seen in elsewhere if len(seen) >= SMALLEST], QUIET))
            # each picture by the head of the others: what is to be expected of a new one
            left = np.array([_scored(_head(number, np.delete(its, k, 0), width, mean, spread), its[k])
                             for k in range(len(its))])
            threshold = max(APART * float(np.median(left)), quiet)
            self.left_out[number] = float((left > threshold).mean())
            self.heads.append(head._replace(threshold=threshold))

    def find(self, picture: np.ndarray, seen: np.ndarray, answer: np.ndarray, height: float) -> list[Found]:
        """Things in a picture: without a color, and their numbers as shapes.

        Args:
            picture: level, uint8 [HEIGHT, WIDTH, 3].
            seen: :func:`rates`.
            answer: of the readout [OUTPUTS, COLUMNS].
            height: of the camera above the floor (m).
        """
        found, told, lit = [], answer.reshape(SLOTS, ROWS, COLUMNS)[0], np.flatnonzero(_lit(picture))
        for head in self.heads if len(lit) >= SMALLEST else ():
            score, first, last = head.best(seen[lit[0]:lit[-1] + 1])
            if score < head.threshold:
                continue
            here = slice(lit[0] + first, lit[0] + last + 1)
            sure = 1.0 / (1.0 + np.exp(-np.clip(told[OBJECT, here][0], -50.0, 50.0)))
            away = math.nan
            if sure.max() > FLOOR:      # else vision sees no object there, and does not say how far it is
                away = height * math.exp(min(max(float(np.average(told[DISTANCE, here][0], weights=sure)), -3.0), 5.0))
            beyond = (score - head.threshold) / max(1.0 - head.threshold, 0.1)
            found.append(Found(-1, head.number - 1, 0.5 + 0.5 * min(beyond, 1.0), float(column_angles()[here].mean()),
                               away, (last - first + 1) * RESOLUTION * WIDTH / COLUMNS))
        return found


def _lit(picture: np.ndarray) -> np.ndarray:
    """Columns in which the camera sees, bool [COLUMNS]."""
    return picture.any((0, 2)).reshape(COLUMNS, -1).any(1)


def _beside(one: Example) -> np.ndarray:
    """Columns that the camera sees, and that do not show the thing, bool [COLUMNS]."""
    found = _lit(one.picture)
    found[max(one.first - 2, 0):one.last + 3] = False
    return found


def _head(number: int, its: np.ndarray, width: float, mean: np.ndarray, spread: np.ndarray) -> Head:
    apart = its.mean(0) - mean
    weights = np.linalg.solve(spread, apart)
    weights /= max(float(weights @ apart), 1e-9)
    return Head(number, weights.astype(np.float32), float(weights @ mean), APART, width)


def _scored(head: Head, rates_of_it: np.ndarray) -> float:
    return float(rates_of_it @ head.weights) - head.offset


def surroundings() -> list[np.ndarray]:
    """The pictures of :data:`SURROUNDINGS`. Raises TaughtError where they are missing."""
    from PIL import Image

    try:
        with Image.open(SURROUNDINGS) as image:
            whole = np.asarray(image.convert("RGB"))
    except OSError as error:
        raise TaughtError(f"{SURROUNDINGS} is missing or torn; install the package brain_regions anew") from error
    return list(whole.reshape(-1, HEIGHT, WIDTH, 3))


def taken_for(looking: Looking, examples: Sequence[Example], others: Mapping[int, Sequence[Example]]) -> int | None:
    """Number of the taught thing that most of some pictures are taken for; None: of none."""
    shown = [looked_at(looking, one.picture)[0][one.first:one.last + 1].mean(0) for one in examples]
    for head in Taught(looking, others).heads:
        if np.mean([_scored(head, its) >= head.threshold for its in shown]) >= ALIKE:
            return head.number
    return None

# SPDX-License-Identifier: Apache-2.0
"""The fovea: a second, closer look at what vision has found, with all the pixels that the camera has for it.

A level picture shows 0.94 degrees a pixel, and a camera of 640 x 480 a tenth of that: what is small in the one has a
shape in the other. So each object that vision tells of is looked at again, as an eye turns to what it has seen from the
corner (V. Mnih, N. Heess, A. Graves, K. Kavukcuoglu: Recurrent Models of Visual Attention, NIPS 2014; here where to
look is not learned, but what vision answers). A glance is a square of its own size about where the object must be; a
small spiking network says what is in the middle of it: whether anything is, its color, its kind, and where it is in
the glance.

A camera that shows no more than a level picture has no use for it: :func:`sees_more`.
"""
from __future__ import annotations

import math
from pathlib import Path
from typing import Callable, Iterable, NamedTuple, Sequence

import numpy as np

from brain_regions.membranes import decay
from brain_regions.vision import weights
from brain_regions.vision.decode import WIDEST as FARTHEST_ASIDE, Vote, softmax, votes
from brain_regions.vision.network import (ASIDE, COLOR, DISTANCE, EXTENT, INPUTS, MICRO_STEP, OBJECT, READOUT,
                                          RESOLUTION, SHAPE, Layer, Layers, Looking, Rates, Tensors, multiplies)
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Levelled, Mount, OpticsError

SIDE = 24               # pixels of a glance's side
LAYERS = Layers((
    Layer("glance_edges", INPUTS, 24, (5, 5), (2, 2), (2, 2)),  # 24 x 12 x 12
    Layer("glance_parts", 24, 48, (3, 3), (2, 2), (1, 1)),      # 48 x  6 x  6
    Layer("glance_shapes", 48, 96, (3, 3), (2, 2), (1, 1)),     # 96 x  3 x  3
    Layer("glance_whole", 96, 128, (3, 3), (1, 1), (0, 0)),     # 128 x  1 x  1
), (SIDE, SIDE), (3,), 1)
STEPS = 6               # micro-steps of a glance, from rest
MOST = 8                # objects in a picture that are looked at,
GLANCES = 16            # and glances at all of them
FINER = 1.5             # times as many pixels as a level picture has for a thing, from which on a glance shows more
MARGIN = 2.2            # times an object's width that a glance is wide
NARROWEST, WIDEST = math.radians(2.5), math.radians(75.0)
STEEPEST = math.radians(80.0)   # that is looked up or down
UNIT = 0.25             # of a glance's side, in which places in it are told
SAME = 0.2              # of a glance's side: glances whose middles are so near, and whose sides alike, are one
ALIKE = 0.4             # of the logarithms of sides
LOOKS = 4               # at an object:
BESIDE = 0.12           # of a glance's side: what was found farther from its middle, or is of another size,
SEEN = 0.02             # and as sure as this, is looked at once more
TWICE = 0.5             # of an object's width: what is found so near it, of its color, is the same
FLATTEST = math.radians(-1.0)   # elevation of a place on the floor above which its distance cannot be told by it
STEEP, LEAST = math.radians(-8.0), 0.3  # from where on it alone tells it; and its share, beside vision's, at least


class Glance(NamedTuple):
    """A square that is looked at: azimuth and elevation of its middle, and its side (rad)."""

    azimuth: float
    elevation: float
    side: float

    @classmethod
    def at(cls, bearing: float, away: float, wide: float) -> Glance:
        """A glance at an object that stands on the floor; see :class:`.decode.Vote`."""
        return cls.over(bearing, -math.atan(math.exp(-away)), min(math.exp(wide), WIDEST))

    @classmethod
    def over(cls, azimuth: float, foot: float, width: float) -> Glance:
        """A glance at what stands at a place, by its azimuth and elevation (rad), and is about as high as wide."""
        elevation = min(max(foot + width / 2, -STEEPEST), STEEPEST)
        return cls(azimuth, elevation, min(max(MARGIN * width, NARROWEST), WIDEST))

    def directions(self, side: int = SIDE) -> np.ndarray:
        """Directions [side, side, 3] of its pixels, of any length, as :func:`.network.directions`."""
        at = (0.5 - (np.arange(side) + 0.5) / side) * 2 * math.tan(self.side / 2)
        c, s, k, r = (math.cos(self.azimuth), math.sin(self.azimuth), math.cos(self.elevation),
                      math.sin(self.elevation))
        ahead, left, up = np.array([c * k, s * k, r]), np.array([-s, c, 0.0]), np.array([-c * r, -s * r, k])
        return ahead + at[None, :, None] * left + at[:, None, None] * up

    def place(self, azimuth: float, elevation: float) -> tuple[float, float]:
        """Place of a direction (rad) in it, to the left and up from its middle, in units of :data:`UNIT` sides."""
        unit = UNIT * self.side
        return ((azimuth - self.azimuth) * math.cos(self.elevation) / unit, (elevation - self.elevation) / unit)

    def like(self, other: Glance, near: float = SAME, alike: float = ALIKE) -> bool:
        """Tells whether two glances show the same: their middles are within ``near`` of a side, and sides alike."""
        left, up = self.place(other.azimuth, other.elevation)
        return max(abs(left), abs(up)) < near / UNIT and abs(math.log(other.side / self.side)) < alike

    def answered(self, vote: Vote, answer: np.ndarray) -> tuple[Vote, Glance]:
        """Corrects what vision found by the fovea's answer [OUTPUTS]; and a glance at where it was seen."""
        answer = np.asarray(answer, np.float64)
        sure = 1.0 / (1.0 + math.exp(-min(max(float(answer[OBJECT][0]), -50.0), 50.0)))
        colors, shapes = softmax(answer[COLOR]), softmax(answer[SHAPE])
        color, unit = int(colors.argmax()), UNIT * self.side
        aside, down, wide = (min(max(float(answer[row][0]), -3.0), 3.0) for row in (ASIDE, DISTANCE, EXTENT))
        bearing = self.azimuth + aside * unit / max(math.cos(self.elevation), 0.1)
        bearing = min(max(bearing, -FARTHEST_ASIDE), FARTHEST_ASIDE)
        floor, away = self.elevation + down * unit, vote.away
        if floor < FLATTEST:
            share = min(max(floor / STEEP, LEAST), 1.0)
            away += share * (-math.log(math.tan(min(-floor, 1.5))) - away)
        wide = min(math.log(self.side) + wide, 1.0)
        found = Vote(color, sure * float(colors[color]), shapes.tolist(), bearing, away, wide)
        return found, Glance.over(bearing, floor, min(math.exp(wide), WIDEST))


class Closer(NamedTuple):
    """Result of glances at a picture.

    Attributes:
        found: objects, the surest first.
        spikes, synops: how many spikes, and the accumulates that they cause by their actual fan-out.
        glances: how many.
    """

    found: list[Vote]
    spikes: int
    synops: int
    glances: int


class Fovea:
    """The network with the weights of a file.

    Args:
        path: of the weight file.
        ann: it holds the weights of the ANN baseline.

    Attributes:
        neurons, multiplies: of the spiking network; see :class:`.network.Looking`.

    Raises:
        WeightsError: the file does not fit.
    """

    def __init__(self, path: Path = weights.FOVEA, ann: bool = False) -> None:
        self._use(weights.load(path, ann=ann, layers=LAYERS).tensors, ann)

    @classmethod
    def of(cls, tensors: Tensors, ann: bool = False) -> Fovea:
        """One of weights that are in no file yet."""
        made = cls.__new__(cls)
        made._use(tensors, ann)
        return made

    def _use(self, tensors: Tensors, ann: bool) -> None:
        self._network = (Rates if ann else Looking)(tensors, LAYERS)
        self._part = 1.0 - decay(READOUT.tau, STEPS * MICRO_STEP)     # of the readout, which begins at 0
        self.neurons = 0 if ann else self._network.neurons
        self.multiplies = multiplies(tensors, LAYERS) if ann else self._network.multiplies

    def answer(self, shown: np.ndarray, silent: bool = False) -> tuple[np.ndarray, int, int]:
        """Answer [OUTPUTS] to a glance, uint8 [SIDE, SIDE, 3]; spikes and synaptic operations that it took."""
        if isinstance(self._network, Rates):
            return self._network.answer(shown)[0], 0, 0
        looked = self._network.look(shown, self._network.rest(), STEPS, silent)
        return looked.state["u"][0] / self._part, looked.spikes, looked.synops

    def rates(self, shown: np.ndarray) -> np.ndarray:
        """Rates of the neurons of all layers but the first at a glance, uint8 [SIDE, SIDE, 3]: float32 [rates].

        Those of the second layer are averaged by fours, so that a place of the third has as many of either.
        """
        trains = self._network.look(shown, self._network.rest(), STEPS).trains
        each = [train.mean(0, dtype=np.float32) for train in trains[1:]]
        rows, columns, channels = each[0].shape
        each[0] = each[0].reshape(rows // 2, 2, columns // 2, 2, channels).mean((1, 3))
        return np.concatenate([one.ravel() for one in each])

    def votes(self, answer: np.ndarray, picture: np.ndarray, lens: Lens, mount: Mount, silent: bool = False) -> Closer:
        """Objects in what vision answered to a picture, looked at again where the camera shows more of them.

        Args:
            answer: vision's, [OUTPUTS, COLUMNS].
            picture, lens, mount, silent: see :meth:`look`.
        """
        found = votes(answer)
        return self.look(found, picture, lens, mount, silent) if sees_more(lens) else Closer(found, 0, 0, 0)

    def look(self, votes: Sequence[Vote], picture: np.ndarray, lens: Lens, mount: Mount, silent: bool = False
             ) -> Closer:
        """Looks again at what vision found.

        Args:
            votes: that.
            picture: uint8 [rows, columns, 3], of the camera.
            lens, mount: of the camera.
            silent: see :meth:`.network.Looking.look`.
        """
        spikes = synops = 0

        def ask(glance: Glance) -> np.ndarray | None:
            nonlocal spikes, synops
            try:
                shown = Levelled(lens, mount, glance.directions())(picture)
            except OpticsError:     # what is told is where the camera does not see
                return None
            answer, fired, caused = self.answer(shown, silent)
            spikes, synops = spikes + fired, synops + caused
            return answer

        found, glances = closely(votes, ask)
        return Closer(found, spikes, synops, glances)


def closely(votes: Sequence[Vote], ask: Callable[[Glance], np.ndarray | None]) -> tuple[list[Vote], int]:
    """Looks again at the surest objects, and once more where a glance was beside one, or too wide for it.

    Args:
        votes: objects that vision found.
        ask: the network's answer [OUTPUTS] to a glance; None: the camera does not see there.

    Returns:
        Objects, the surest first; and how many glances that took.
    """
    found, glances = [], 0
    for vote, glance in apart(votes):
        told = None
        for _ in range(LOOKS):
            answer = ask(glance) if glances < GLANCES else None
            if answer is None:
                break
            (told, again), glances = glance.answered(told or vote, answer), glances + 1
            if told.sure < SEEN or again.like(glance, BESIDE):
                break
            glance = again
        if told is not None:
            found.append(told)
    return once(found), glances


def once(votes: Iterable[Vote]) -> list[Vote]:
    """Objects of which each is told once, the surest first: two glances may have found one."""
    found: list[Vote] = []
    for vote in sorted(votes, key=lambda one: -one.sure):
        if not any(vote.color == other.color and abs(vote.bearing - other.bearing) < TWICE * math.exp(other.wide)
                   and abs(vote.wide - other.wide) < 1.0 for other in found):
            found.append(vote)
    return found


def sees_more(lens: Lens) -> bool:
    """Tells whether a camera shows so much more than a level picture does that a glance is worth it."""
    return lens.focal * RESOLUTION >= FINER


def apart(votes: Sequence[Vote], most: int = MOST, near: float = SAME, alike: float = ALIKE
          ) -> list[tuple[Vote, Glance]]:
    """The surest objects, and a glance at each; of those that are one to :meth:`Glance.like` the surest alone."""
    found: list[tuple[Vote, Glance]] = []
    for vote in sorted(votes, key=lambda one: -one.sure):
        glance = Glance.at(vote.bearing, vote.away, vote.wide)
        if len(found) < most and not any(other.like(glance, near, alike) for _, other in found):
            found.append((vote, glance))
    return found

# SPDX-License-Identifier: Apache-2.0
"""Examination of vision on held-back clips, by their labels: the simulator's clips and recorded ones alike.

The last picture of each clip is scored, after the network has seen those before it. Objects are what the columns'
labels say. Where they leave a column open, a thing that is found there is neither right nor wrong.
"""
from __future__ import annotations

from typing import Sequence

import numpy as np
import torch

from brain_regions.vision.decode import Found, decode
from brain_regions.vision.network import column_angles
from brain_training.definitions.vision import SpikingVision
from brain_sim.camera import SeenObject
from brain_sim.scenery import COLORS, KINDS
from brain_training.vision import STEPS
from brain_training.vision_data import CLEAR_PIXELS, UNSURE, Clips, Labels
from brain_training.vision_score import WITHIN, Tally

_ANGLES = column_angles()


def objects_of(labels: Labels) -> list[SeenObject]:
    """Lists the objects that the labels [SLOTS, COLUMNS] of one picture say it shows; distances as labels have them."""
    seen = {(int(labels.color[at]), int(labels.shape[at]), float(labels.bearing[at])):
            (float(labels.distance[at]), float(labels.width[at])) for at in map(tuple, np.argwhere(labels.color >= 0))}
    return [SeenObject("", COLORS[color], KINDS[shape], bearing, distance, bearing, distance, CLEAR_PIXELS, 0.0, width)
            for (color, shape, bearing), (distance, width) in seen.items()]


def _told(found: Found, objects: Sequence[SeenObject], labels: Labels) -> bool:
    """Tells whether the labels say if a detection is right or wrong."""
    if any(COLORS.index(one.color) == found.color and KINDS.index(one.shape) == found.shape
           and abs(one.camera_bearing - found.bearing) < WITHIN for one in objects):
        return True
    column = int(np.abs(_ANGLES - found.bearing).argmin())
    return not (labels.color[:, column] == UNSURE).any()


@torch.inference_mode()
def examined(network: SpikingVision, clips: Clips) -> Tally:
    """Runs a folded network over clips [clips, frames, ...], each from rest."""
    tally, looking = Tally(), network.live()
    for number in range(len(clips.images)):
        state = looking.rest()
        for picture in clips.images[number]:
            state = looking.look(picture, state, STEPS).state
        labels = Labels(*(part[number, -1] for part in clips.labels))
        objects = objects_of(labels)
        tally.add([one for one in decode(state["u"].T, 1.0) if _told(one, objects, labels)], objects)
    return tally


def together(tallies: Sequence[Tally]) -> Tally:
    """All of several."""
    found = Tally()
    for tally in tallies:
        found.asked += tally.asked
        found.detections += tally.detections
        found.errors += tally.errors
    return found

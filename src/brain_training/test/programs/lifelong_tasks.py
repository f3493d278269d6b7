# SPDX-License-Identifier: Apache-2.0
"""Tasks that a test makes up: windows around a point, clips of noise, and the weights that ship."""
import numpy as np

from brain_regions.vision.network import COLUMNS, HEIGHT, SLOTS, WIDTH
from brain_training.lifelong.descriptor import Descriptor
from brain_training.lifelong.learning import shipped
from brain_training.lifelong.memory import Reservoir
from brain_training.lifelong.pictures import NAMES
from brain_training.lifelong.task_file import Task
from brain_training.vision_data import NOTHING, Clips, Labels


def windows_at(center, count=30, spread=0.1, seed=0):
    """[count, numbers] about a center."""
    return center + spread * np.random.default_rng(seed).standard_normal((count, len(NAMES)))


def clips_of(count, first=0, frames=1):
    """Clips whose first pixel is their number; nothing is in them."""
    images = np.zeros((count, frames, HEIGHT, WIDTH, 3), np.uint8)
    images[:, 0, 0, 0] = np.arange(first, first + count)[:, None]
    shape = (count, frames, SLOTS, COLUMNS)
    return Clips(images, Labels(np.full(shape, NOTHING, np.int8), np.zeros(shape, np.int8),
                                *(np.ones(shape, np.float32) for _ in range(3))))


def numbers_of(kept):
    """Which of :func:`clips_of` a memory keeps."""
    return [int(image[0, 0, 0, 0]) for image in kept.clips.images]


def task(name, seed=0, center=0.0):
    """A task."""
    memory, held = Reservoir(6, seed), Reservoir(4, seed + 1)
    memory.add(clips_of(20))
    held.add(clips_of(9, 100))
    return Task(name, shipped(), Descriptor(windows_at(center, seed=seed)), memory, held, 0.5, 0.25, 1)

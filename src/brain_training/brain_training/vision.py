# SPDX-License-Identifier: Apache-2.0
"""Training of the spiking vision: clips of driven ways in, a weight file and held-out figures out."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from brain_regions.vision.decode import decode
from brain_regions.vision.looking import Looking
from brain_regions.vision.network import (ASIDE, ASIDE_UNIT, COLOR, DISTANCE, EXTENT, OBJECT, ROWS, SHAPE, SLOTS,
                                          AnnTwin, SpikingVision, column_angles, prepare)
from brain_training.vision_data import UNSURE, Clips, Labels
from brain_training.vision_score import Tally

STEPS = 10              # micro-steps between two pictures at 20 Hz
Log = Callable[[str], None]
Progress = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Recipe:
    """How much of what."""

    rooms: int = 1500
    clips_per_room: int = 4
    frames: int = 3
    epochs: int = 7
    batch: int = 16
    rate: float = 3e-3


def targets(labels: Labels) -> Tensor:
    """Labels as the loss wants them: float32 [..., SLOTS, 6, COLUMNS].

    The six are color, shape, aside, log distance, log width, and the column's weight (0 where nothing is asked).
    """
    seen = labels.color >= 0
    aside = np.where(seen, labels.bearing - column_angles().numpy(), 0.0) / ASIDE_UNIT
    distance = np.log(np.where(seen, labels.distance, 1.0))
    width = np.log(np.where(seen, np.maximum(labels.width, 1e-3), 1.0))
    return torch.from_numpy(np.stack(
        [labels.color, labels.shape, aside, distance, width, labels.color != UNSURE], axis=-2).astype(np.float32))


def loss(answer: Tensor, target: Tensor) -> Tensor:
    """Of answers [batch, OUTPUTS, COLUMNS] to :func:`targets` [batch, SLOTS, 6, COLUMNS].

    What an object is and where it is are asked only of the columns that show one.
    """
    answer = answer.unflatten(1, (SLOTS, ROWS)).flatten(0, 1)
    color, shape, aside, distance, width, weight = target.flatten(0, 1).unbind(1)
    seen = (color >= 0).float()
    count = seen.sum().clamp(min=1.0)
    found = F.binary_cross_entropy_with_logits(answer[:, OBJECT].squeeze(1), seen, weight, reduction="sum")
    kind = (F.cross_entropy(answer[:, COLOR], color.clamp(min=0).long(), reduction="none")
            + F.cross_entropy(answer[:, SHAPE], shape.long(), reduction="none"))
    where = (F.smooth_l1_loss(answer[:, ASIDE].squeeze(1), aside, reduction="none", beta=0.3)
             + F.smooth_l1_loss(answer[:, DISTANCE].squeeze(1), distance, reduction="none", beta=0.1)
             + F.smooth_l1_loss(answer[:, EXTENT].squeeze(1), width, reduction="none", beta=0.1))
    return found / count + ((kind + where) * seen).sum() / count


def mirrored(images: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Pictures [..., width, 3] and targets seen in a mirror."""
    target = target.flip(-1).clone()
    target[..., 2, :] *= -1
    return images.flip(-2), target


def _batches(count: int, size: int, generator: torch.Generator) -> list[Tensor]:
    return list(torch.randperm(count, generator=generator).split(size))


def fit(network: SpikingVision | AnnTwin, clips: Clips, recipe: Recipe, seed: int,
        progress: Progress | None = None) -> list[float]:
    """Trains in place.

    The state of the spiking network is carried through each clip, as it is when it runs, and the gradient does not
    pass from picture to picture.

    Returns:
        Mean loss of each epoch.
    """
    spiking = isinstance(network, SpikingVision)
    generator = torch.Generator().manual_seed(seed)
    images, target = torch.from_numpy(clips.images), targets(clips.labels)
    per_epoch = -(-len(images) // recipe.batch)
    network.train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=per_epoch * recipe.epochs,
                                                   pct_start=0.1)
    means, done = [], 0
    for epoch in range(recipe.epochs):
        total = 0.0
        for chosen in _batches(len(images), recipe.batch, generator):
            picture, wanted = images[chosen], target[chosen]
            if torch.rand((), generator=generator) < 0.5:
                picture, wanted = mirrored(picture, wanted)
            picture = _light(prepare(picture), generator)
            steps = STEPS if torch.rand((), generator=generator) < 0.7 else int(
                torch.randint(6, STEPS + 1, (), generator=generator))
            optimizer.zero_grad()
            value = _clip_loss(network, picture, wanted, steps) if spiking else loss(
                network(picture.flatten(0, 1)), wanted.flatten(0, 1))
            value.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 2.0)
            optimizer.step()
            schedule.step()
            total += value.item() * len(chosen)
            done += 1
            if progress:
                progress("spiking" if spiking else "twin", done, per_epoch * recipe.epochs, f"loss {value.item():.3f}")
        means.append(total / len(images))
    return means


def _light(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """Other brightness and contrast, drawn for each clip [clips, frames, 3, rows, columns]."""
    shape = (len(pictures), 1, 1, 1, 1)
    gain = 0.85 + 0.3 * torch.rand(shape, generator=generator)
    return ((pictures + 1.0) * gain - 1.0).clamp_(-1.0, 1.0)


def _clip_loss(network: SpikingVision, pictures: Tensor, target: Tensor, steps: int) -> Tensor:
    state = network.rest(len(pictures))
    values = []
    for frame in range(pictures.shape[1]):
        image = pictures[:, frame].contiguous(memory_format=torch.channels_last)
        state, _ = network(image, state, steps)
        values.append(loss(state["u"], target[:, frame]))
        state = {name: value.detach() for name, value in state.items()}
    return torch.stack(values).mean()


@torch.inference_mode()
def test_on(network: SpikingVision | AnnTwin, ways, *, steps: int = STEPS) -> Tally:
    """Runs a folded network over ways as it would run live, and tallies what it finds."""
    tally = Tally()
    looking = Looking(network) if isinstance(network, SpikingVision) else None
    for way in ways:
        if looking is not None:
            state, answers = looking.rest(), []
            for picture in way.images:
                state = looking.look(picture, state, steps).state
                answers.append(state["u"].T)
        else:
            answers = network(prepare(torch.from_numpy(way.images))).numpy()
        for answer, objects in zip(answers, way.objects):
            tally.add(decode(answer), objects)
    return tally

# SPDX-License-Identifier: Apache-2.0
"""The task of the spiking vision, and of its ANN baseline: clips of driven ways, and what each column of them shows."""
from __future__ import annotations

import math
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from brain_regions.membranes import decay
from brain_regions.vision import weights
from brain_regions.vision.decode import decode
from brain_regions.vision.network import (ASIDE, ASIDE_UNIT, COLOR, DISTANCE, EXTENT, LAYERS, MICRO_STEP, OBJECT,
                                          READOUT, ROWS, SHAPE, Looking, column_angles, widened)
from brain_training.definitions.vision import AnnBaseline, SpikingVision, carried, prepare, save
from brain_training.task import BASE, SIZES, Lost, Progress, Task, stream
from brain_training.vision_data import UNSURE, Labels, Recipe, Studio, Way, make_scenes, make_ways
from brain_training.vision_score import Tally
from brain_training.whole import ALONE, Whole

if TYPE_CHECKING:
    from brain_training.recordings import Bags
    from brain_training.recordings.vision import Pool

STEPS = 6               # micro-steps between two pictures at 20 Hz
MOST = 12               # micro-steps at the first picture of a clip, where the network has seen nothing before
RISE = 0.1              # of a cycle of the learning rate
SPIKING = 1 / 3         # of the highest learning rate, while the network runs in micro-steps
AMID = 0.75             # of the clips begin as if the network had looked for long
THRESHOLD_ROOMS = (40, 100_000)     # rooms and first seed of val that thresholds are chosen on
REPORT_ROOMS = (80, 200_000)        # and those that are reported on
WAY = 60                            # pictures of a held-out way: 3 s of driving
QUICK_ROOMS, QUICK_WAY = 4, 15
MOUNTED = 50_000                    # added to the first seed, for rooms that cameras of all mountings see
PURPOSES = ("threshold", "report")
FALSE = 0.1             # detections a scenery that may be false, from the threshold on
MANY = 400                          # clips, from which on several processes take them: to start one takes seconds


def targets(labels: Labels) -> np.ndarray:
    """Labels as the loss wants them: float32 [..., SLOTS, 6, COLUMNS].

    The six are color, shape, aside, log distance, log width, and the column's weight (0 where nothing is asked).
    """
    seen = labels.color >= 0
    aside = np.where(seen, labels.bearing - column_angles(), 0.0) / ASIDE_UNIT
    distance = np.log(np.where(seen, labels.distance, 1.0))
    width = np.log(np.where(seen, np.maximum(labels.width, 1e-3), 1.0))
    return np.stack([labels.color, labels.shape, aside, distance, width, labels.color != UNSURE], -2).astype(np.float32)


def loss(answer: Tensor, target: Tensor, whole: Whole = ALONE) -> Tensor:
    """Of answers [batch, OUTPUTS, COLUMNS] to :func:`targets` [batch, SLOTS, 6, COLUMNS].

    What an object is and where it is are asked only of the columns that show one; these are counted over the whole
    batch.
    """
    answer = answer.unflatten(1, (-1, ROWS)).flatten(0, 1)
    color, shape, aside, distance, width, weight = target.flatten(0, 1).unbind(1)
    seen = (color >= 0).float()
    found = F.binary_cross_entropy_with_logits(answer[:, OBJECT].squeeze(1), seen, weight, reduction="sum")
    kind = (F.cross_entropy(answer[:, COLOR], color.clamp(min=0).long(), reduction="none")
            + F.cross_entropy(answer[:, SHAPE], shape.long(), reduction="none"))
    where = (F.smooth_l1_loss(answer[:, ASIDE].squeeze(1), aside, reduction="none", beta=0.3)
             + F.smooth_l1_loss(answer[:, DISTANCE].squeeze(1), distance, reduction="none", beta=0.1)
             + F.smooth_l1_loss(answer[:, EXTENT].squeeze(1), width, reduction="none", beta=0.1))
    found, what, count = whole.sums(found, ((kind + where) * seen).sum(), seen.sum())
    count = count.clamp(min=1.0)
    return found / count + what / count


def mirrored(images: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pictures [..., width, 3] and targets seen in a mirror."""
    target = np.ascontiguousarray(target[..., ::-1])
    target[..., 2, :] *= -1
    return np.ascontiguousarray(images[..., ::-1, :]), target


def began(network: SpikingVision, batch: int, steps: int) -> dict[str, Tensor]:
    """State before the first picture of clips, which is looked at for ``steps``: of long looking, or of rest."""
    return network.midway(batch) if steps == STEPS else network.rest(batch)


class VisionTask(Task):
    """Finding objects in pictures. Sample n is a clip of the n-th place in an endless row of shuffled epochs."""

    name = "vision"
    longest = True
    threads = 2
    clip = 2.0
    counts = True
    sizes = tuple(SIZES)
    looks = False
    layers = LAYERS
    full = Recipe(rooms=10_000, clips_per_room=9, scenes=25_000, epochs=9, half=True)
    tiny = Recipe(rooms=24, clips_per_room=2, scenes=12, epochs=1, batch=16)

    def __init__(self, which: str = "spiking", *, quick: bool = False, recipe: Recipe | None = None, size: str = BASE
                 ) -> None:
        super().__init__(which, quick=quick, recipe=recipe, size=size)
        self._studio: Studio | Pool | None = None
        self._ways: dict[str, list[Way]] = {}

    @classmethod
    def files(cls) -> dict[str, Path]:
        """The weight files that ship."""
        return {"spiking": weights.SHIPPED, "ann": weights.ANN}

    @classmethod
    def recorded(cls, bags: Bags, *, quick: bool) -> Recipe:
        """See :meth:`brain_training.task.Task.recorded`."""
        from brain_training.recordings.vision import recipe

        return recipe(cls.tiny if quick else cls.full, bags)

    def share(self, other: Task) -> None:
        """Takes over pictures."""
        assert isinstance(other, VisionTask)
        self._studio, self._ways = other._studio, other._ways

    def prepare(self, seed: int, tell: Progress) -> None:
        """Takes all pictures of the training, and of recordings those to examine by: a torn one is found before."""
        if hasattr(self.recipe, "ways"):
            for purpose in PURPOSES:
                self._recorded(purpose, tell)
        self._at(seed).take_all(lambda done, of: tell("pictures", done, of, ""),
                                self.threads if self._clips >= MANY else 1)

    def _at(self, seed: int) -> Studio | Pool:
        if self._studio is None or self._studio.first_seed != seed * 10_000:
            self._studio = self.recipe.studio(seed)
        return self._studio

    # -- the network -----------------------------------------------------------------------------------------------

    def build(self, seed: int) -> nn.Module:
        """A network before training."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = (SpikingVision if self.spiking else AnnBaseline)(widened(SIZES[self.size], self.layers))
            return network.to(memory_format=torch.channels_last)

    @property
    def _by_rates(self) -> int:
        """Steps that the spiking network learns by rates."""
        return round(self.recipe.by_rates * self.steps) if self.spiking else self.steps

    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(network.parameters(), lr=self.recipe.rate, weight_decay=1e-4)

    def schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        """A cycle by rates, and a lower one as the network runs; one alone for who has no time."""
        rates = self._by_rates
        if min(rates, self.steps - rates) < 3:
            return super().schedule(optimizer)
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (
            _cycle(step / rates) if step < rates else SPIKING * _cycle((step - rates) / (self.steps - rates))))

    # -- the data --------------------------------------------------------------------------------------------------

    @property
    def _clips(self) -> int:
        return self.recipe.rooms * self.recipe.clips_per_room + self.recipe.scenes

    @property
    def steps(self) -> int:
        """Batches; the last may take from another epoch. The baseline's are as many as are learned by rates."""
        steps = -(-self._clips * self.recipe.epochs // self.recipe.batch)
        return steps if self.spiking else max(round(self.recipe.by_rates * steps), 1)

    def indices(self, seed: int, step: int) -> Sequence[int]:
        """The next places."""
        return range(step * self.recipe.batch, (step + 1) * self.recipe.batch)

    def sample(self, seed: int, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Pictures uint8 [frames, HEIGHT, WIDTH, 3] with their brightness, and targets [frames, SLOTS, 6, COLUMNS]."""
        epoch, place = divmod(index, self._clips)
        clips = self._at(seed).take(int(order_of(seed, epoch, self._clips)[place]))
        images, target = clips.images, targets(clips.labels)
        rng = stream("vision sample", seed, index)
        if rng.random() < 0.5:
            images, target = mirrored(images, target)
        return images, target, np.float32(0.85 + 0.3 * rng.random())

    def collate(self, samples: Sequence[Any]) -> tuple[Tensor, ...]:
        """Pictures [batch, frames, 3, rows, columns] of other brightness and contrast, and targets."""
        images, target, gain = (torch.from_numpy(np.stack(parts)) for parts in zip(*samples))
        pictures = prepare(images)
        colors = pictures[:, :, :3]
        colors.add_(1.0).mul_(gain.view(-1, 1, 1, 1, 1)).sub_(1.0).clamp_(-1.0, 1.0).mul_(pictures[:, :, 3:])
        return pictures, target

    # -- a step ----------------------------------------------------------------------------------------------------

    def begin(self, seed: int, step: int, network: nn.Module, tell: Progress) -> None:
        """Called before each step; the spiking network learns by rates first, then as it runs."""
        super().begin(seed, step, network, tell)
        if isinstance(network, SpikingVision):
            network.steady = step < self._by_rates

    def loss(self, network: nn.Module, batch: tuple[Tensor, ...], rng: np.random.Generator) -> Lost:
        """Of clips.

        The state of the spiking network is carried through each clip, as it is when it runs, and the gradient does not
        pass from picture to picture.
        """
        pictures, target = batch
        half = torch.autocast(pictures.device.type, torch.bfloat16) if self.recipe.half else nullcontext()
        with half:
            if not self.spiking:
                return Lost(loss(network(pictures.flatten(0, 1)).float(), target.flatten(0, 1), self.whole))
            (state, steps), values = self._begin(network, len(pictures), rng), []
            for frame in range(pictures.shape[1]):
                image = pictures[:, frame].contiguous(memory_format=torch.channels_last)
                state, _ = network(image, state, STEPS if frame else steps)
                # the readout begins at 0, of which something is left
                part = 1.0 if frame else 1.0 - decay(READOUT.tau, steps * MICRO_STEP)
                values.append(loss(state["u"].float() / part, target[:, frame], self.whole))
                state = carried(state)
            return Lost(torch.stack(values).mean())

    def _begin(self, network: SpikingVision, batch: int, rng: np.random.Generator) -> tuple[dict[str, Tensor], int]:
        """State before the first picture of clips, and for how many micro-steps it is looked at."""
        steps = STEPS if rng.random() < AMID else int(rng.integers(STEPS + 1, MOST + 1))
        return began(network, batch, steps), steps

    # -- what it comes to ------------------------------------------------------------------------------------------

    def score(self, network: nn.Module, tell: Progress) -> dict[str, Any]:
        """Figures of :meth:`Tally.report`, at the threshold that was best in other rooms.

        In the rooms as the simulator's own camera sees them, by cameras of all mountings (``mounted_``) and in
        sceneries (``scenes_``); the threshold is chosen on the three together, and high enough for :data:`FALSE`.
        Of a training with recordings: in those
        that are held out, and what was found in the simulator beside it.
        """
        folded, length = network.folded(), QUICK_WAY if self.quick else WAY

        def simulated(purpose: str) -> list[Way]:
            rooms, first = THRESHOLD_ROOMS if purpose == "threshold" else REPORT_ROOMS
            return list(make_ways(QUICK_ROOMS if self.quick else rooms, length, split="val", first_seed=first,
                                  progress=lambda done, of: tell(f"ways ({purpose})", done, of, "")))

        def mounted(purpose: str) -> list[Way]:
            rooms, first = THRESHOLD_ROOMS if purpose == "threshold" else REPORT_ROOMS
            return list(make_ways(QUICK_ROOMS if self.quick else 2 * rooms, length // 4, split="val", mounted=True,
                                  first_seed=first + MOUNTED))

        def scenes(purpose: str) -> list[Way]:
            rooms, first = THRESHOLD_ROOMS if purpose == "threshold" else REPORT_ROOMS
            return list(make_scenes(QUICK_ROOMS if self.quick else 15 * rooms, split="val", first_seed=first))

        found = self._examined(folded, {"": simulated, "mounted_": mounted, "scenes_": scenes})
        if not hasattr(self.recipe, "ways"):
            return found
        recorded = self._examined(folded, {"": lambda purpose: self._recorded(purpose, tell)}, "recorded ")
        return {**recorded, **{f"simulator_{key}": found[key] for key in ("objects", "precision", "recall", "f1")}}

    def _recorded(self, purpose: str, tell: Progress) -> list[Way]:
        """Ways of recordings that are held out, which are read once."""
        key = f"recorded {purpose}"
        if key not in self._ways:
            self._ways[key] = self.recipe.ways(purpose, QUICK_WAY if self.quick else WAY, lambda done, of: tell(
                f"recordings ({purpose})", done, of, ""))
        return self._ways[key]

    def _examined(self, folded: nn.Module, kinds: Mapping[str, Callable[[str], list[Way]]], of: str = ""
                  ) -> dict[str, Any]:
        """Figures on ways, which are made once; those of a kind begin with its name."""
        tallies: dict[str, dict[str, Tally]] = {purpose: {} for purpose in PURPOSES}
        for purpose in PURPOSES:
            for kind, make in kinds.items():
                if of + kind + purpose not in self._ways:
                    self._ways[of + kind + purpose] = make(purpose)
                tallies[purpose][kind] = test_on(folded, self._ways[of + kind + purpose])
        chosen = tallies["threshold"]
        threshold = max(sum(chosen.values(), Tally()).best_threshold(),
                        chosen["scenes_"].quiet_threshold(FALSE) if "scenes_" in chosen else 0.0)
        return {kind + key: value for kind, tally in tallies["report"].items()
                for key, value in tally.report(threshold).items() if not kind or key not in ("threshold", "by_kind")}

    def export(self, path: Path, network: nn.Module, training: dict[str, Any], figures: dict[str, Any]) -> None:
        """Writes the weight file of the folded network."""
        save(path, network.folded(), training, figures)


def _cycle(at: float) -> float:
    """Share of the highest learning rate at 0..1 of a cycle: a rise, and a cosine's fall."""
    return at / RISE + 0.01 if at < RISE else 0.5 * (1.0 + math.cos(math.pi * (at - RISE) / (1.0 - RISE)))


@lru_cache(maxsize=2)
def order_of(seed: int, epoch: int, clips: int) -> np.ndarray:
    """Numbers of all clips, in the order of one epoch."""
    return stream("vision epoch", seed, epoch).permutation(clips)


def test_on(network: SpikingVision | AnnBaseline, ways: Sequence[Way], *, steps: int = STEPS) -> Tally:
    """Runs a folded network over ways as it runs live, and tallies what it finds."""
    tally, live = Tally(), network.live()
    for way in ways:
        answers, state = [], live.rest() if isinstance(live, Looking) else {}
        for picture in way.images:
            if isinstance(live, Looking):
                state = live.look(picture, state, steps).state
                answers.append(state["u"].T)
            else:
                answers.append(live.answer(picture).T)
        for answer, objects in zip(answers, way.objects):
            if objects is not None:
                tally.add(decode(answer, way.height), objects)
    return tally

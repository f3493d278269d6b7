# SPDX-License-Identifier: Apache-2.0
"""Training of vision, end to end on a tiny set: it learns, the same from the same seed, and never from `test`."""
import numpy as np
import pytest
import torch

from brain_regions.vision import weights
from brain_training.runs import Settings, train
from brain_training.trainer import Trainer
from brain_training.vision import Recipe, VisionTask, mirrored, targets
from brain_training.vision_data import Studio, make_clips


def quiet(*news) -> None:
    """Hears how far it is."""


def test_the_split_test_is_refused():
    with pytest.raises(ValueError, match="refuses"):
        make_clips(1, 1, 1, split="test")


@pytest.mark.slow
@pytest.mark.parametrize("which", ["spiking", "ann"])
def test_the_loss_falls(which):
    trainer = Trainer(VisionTask(which, recipe=Recipe(rooms=4, clips_per_room=4, frames=2, epochs=30, batch=4)), 0)
    trainer.run()
    rates, first = trainer.losses[:72], np.mean(trainer.losses[:4])
    assert len(trainer.losses) == {"spiking": 120, "ann": 72}[which]
    assert np.mean(rates[-4:]) < 0.75 * first and np.mean(trainer.losses[-4:]) < 0.75 * first


@pytest.mark.extended
@pytest.mark.slow
def test_the_same_seed_gives_the_same_file_and_one_that_loads(tmp_path):
    first, second = (tmp_path / name / "vision.safetensors" for name in "ab")
    found = train("vision", first, Settings(seed=7, quick=True, threads=1), quiet)
    assert train("vision", second, Settings(seed=7, quick=True, threads=1), quiet)["spiking"]["losses"] == found[
        "spiking"]["losses"]
    ann = first.with_name("vision_ann.safetensors")
    assert found["files"] == [str(first), str(ann)] and found["network"] == "vision"
    assert sorted(file.name for file in first.parent.iterdir()) == [first.name, ann.name]     # no checkpoint is left
    for file in (first, ann):
        assert file.read_bytes() == (second.parent / file.name).read_bytes()
    assert weights.load(ann, ann=True).report["f1"] == found["ann"]["f1"]
    with pytest.raises(weights.WeightsError, match="ann"):
        weights.load(first, ann=True)
    assert weights.load(first).report["objects"] == found["spiking"]["objects"] > 0
    assert np.isfinite(found["spiking"]["losses"]).all() and found["spiking"]["training_s"] > 0


def test_a_clip_is_the_same_whichever_are_taken_before():
    one, other = (Studio(3, 2, 2, first_seed=50) for _ in range(2))
    whole = one.take_all()
    for number in (5, 0, 3):
        clip = other.take(number)
        assert np.array_equal(clip.images, whole.images[number])
        assert all(np.array_equal(part, every[number]) for part, every in zip(clip.labels, whole.labels))


def test_each_epoch_has_every_clip_once_in_an_order_of_its_own():
    task, orders = VisionTask(recipe=Recipe(rooms=4, clips_per_room=2, frames=1, epochs=3, batch=3)), []
    clips = Studio(4, 2, 1, mounted=True).take_all()
    for epoch in range(3):
        orders.append([])
        for place in range(8):
            images, _, _ = task.sample(0, 8 * epoch + place)
            orders[-1] += [n for n in range(8) if any(np.array_equal(images, other) for other in (
                clips.images[n], clips.images[n][..., ::-1, :]))]
    assert all(sorted(order) == list(range(8)) for order in orders) and orders[0] != orders[1] != orders[2]
    assert task.steps == 8 and list(task.indices(0, 7)) == [21, 22, 23]


def test_in_a_mirror_what_is_to_the_left_is_to_the_right():
    clips = make_clips(2, 1, 1)
    images, target = clips.images[0], targets(clips.labels)[0]
    there, other = mirrored(images, target)
    assert np.array_equal(there[..., ::-1, :], images) and np.array_equal(other[..., 0, ::-1], target[..., 0, :])
    assert np.array_equal(other[..., 2, ::-1], -target[..., 2, :]) and target[..., 2, :].any()
    again = mirrored(there, other)
    assert np.array_equal(again[0], images) and np.array_equal(again[1], target)


def test_brightness_is_drawn_for_each_clip():
    task = VisionTask(recipe=Recipe(rooms=1, clips_per_room=1, frames=1))
    gains = [task.sample(0, index)[2] for index in range(40)]
    assert 0.85 <= min(gains) < 0.9 and 1.1 < max(gains) <= 1.15
    images, target, _ = task.sample(0, 0)
    dark, bright = task.collate([(images, target, np.float32(gain)) for gain in (0.85, 1.15)])[0]
    assert torch.isfinite(dark).all() and dark.mean() < bright.mean() and bright.max() <= 1.0

# SPDX-License-Identifier: Apache-2.0
"""Networks cut into stages over real processes: gradients of every stage are those of one process."""
from __future__ import annotations

from math import prod

import numpy as np
import pytest
import torch
from several import several
from stages import QUICK, piped, refused, trained

from brain_training.motor import MotorTask
from brain_training.parallel.chain import Kind, cuts
from brain_training.parallel.pipeline import chain, one_by_one
from brain_training.parallel.pipeline_stage import from_bytes, to_bytes
from brain_regions.vision.network import sizes
from brain_training.task import Lost, stream
from brain_training.trainer import Trainer
from brain_training.vision import STEPS


class OneByOne(Trainer):
    """One process that works through the micro-batches of a step."""

    def passed(self, indices) -> Lost:
        """Each forward and back."""
        of = chain(self.task, self.network)
        step = self.step
        return one_by_one(of, of.micros(self.batch(indices), 4, lambda: stream("step", self.seed, step)))


def checked(found: list[dict], exact: bool = True, once: int = 0) -> None:
    """All gradients of all stages, losses, running statistics, and what was sent, of which ``once`` bytes less back."""
    for one in found:
        assert all(one["same"]) and one["chain"] and one["state"] == []
        off = {of: value for of, value in one["off"].items() if not (of.startswith("conv") and of.endswith("bias"))}
        assert max(off.values()) == 0.0 if exact else max(off.values()) < 1e-5
    assert sum(len(one["off"]) for one in found) == len(set().union(*(one["off"] for one in found)))
    forward, floats = (sum(getattr(one["sent"], what) for one in found) for what in ("forward", "floats"))
    assert 0 < forward < floats and sum(one["sent"].backward for one in found) == floats - once


@pytest.mark.extended("gpipe", "interleaved")
@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "each", "most"), [
    ("gpipe", None, [4, 4]), ("1f1b", None, [2, 1]), ("interleaved", None, None), ("zero-bubble", None, None),
    ("zero-bubble", 2, None)])
def test_motor_by_every_schedule_is_one_process_to_the_bit(tmp_path, schedule, each, most):
    found = several(tmp_path, 2, piped, "motor", schedule, 4, each, 6, 2)     # not of one size; then of another
    checked(found)
    if most:
        assert [max(one["sent"].most.values()) for one in found] == most
    if schedule == "interleaved":       # what skips a stage is carried along
        assert found[0]["boundaries"] == [["s0", "rate0"], ["rate0", "s1", "rate1"], ["rate0", "rate1", "s2", "rate2"]]


@pytest.mark.extended("1f1b", "zero-bubble")
@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "each"), [("1f1b", None), ("interleaved", 2), ("zero-bubble", None)])
def test_language_with_its_written_out_gradients(tmp_path, schedule, each):
    found = several(tmp_path, 2, piped, "language", schedule, 2, each, 4, 2)
    checked(found)
    if each:
        assert found[0]["boundaries"][2] == ["fired.letters", "words", "context"]
    else:       # spikes, and how often each of 256 letters fired, as two bytes
        assert found[0]["boundaries"] == [["fired.letters", "words"]]
        assert 25 * found[0]["sent"].forward < found[0]["sent"].floats


@pytest.mark.extended("zero-bubble")
@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble"])
def test_vision_with_membranes_carried_from_picture_to_picture(tmp_path, schedule):
    found = several(tmp_path, 2, piped, "vision", schedule, 2, None, 2, 2)
    shape = prod(sizes()[2])
    rates, spikes = 2 * 2 * 4 * shape, 3 * 2 * 4 * STEPS * shape     # bytes of two clips by rates, then three by spikes
    checked(found, once=spikes - spikes // STEPS)
    assert found[0]["boundaries"] == [["shapes.0", "shapes.1"]]
    assert found[0]["sent"].floats == rates + spikes and found[0]["sent"].forward == rates + spikes // 32


@pytest.mark.extended
def test_four_stages_of_motor_on_four_ranks(tmp_path):
    checked(several(tmp_path, 4, piped, "motor", "1f1b", 4, None, 4))


@pytest.mark.slow
def test_trains_as_one_process_and_its_checkpoint_is_one_of_one_process(tmp_path):
    alone = OneByOne(MotorTask(quick=True, recipe=QUICK), 3)
    for _ in range(5):
        alone.advance()
    path = tmp_path / "motor.checkpoint"
    first, second = several(tmp_path / "part", 2, trained, path, 3, False)
    assert first["losses"] == second["losses"] == alone.losses[:3]
    assert first["optimizer"] + second["optimizer"] == 3 * 7      # Adam's three of each parameter, at its own stage
    rest, _ = several(tmp_path / "rest", 2, trained, path, 5, True)
    assert np.allclose(rest["losses"], alone.losses, rtol=1e-5)
    for name, value in alone.network.state_dict().items():
        assert torch.allclose(rest["state"][name], value, atol=1e-5)
    whole = OneByOne(MotorTask(quick=True, recipe=QUICK), 3, checkpoint=path)
    assert whole.resume() == 3
    whole.advance()
    assert whole.losses[3] == rest["losses"][3]


def test_what_does_not_fit_is_named_with_the_remedy(tmp_path):
    words = ("no schedule 'backwards'; there are gpipe", "take --microbatches 2 or more", "take interleaved",
             "a multiple of 2 micro-batches", "a batch of 3 samples does not make 4 micro-batches",
             "4 sections cannot be cut into 6 stages", "train it with dp")
    said = several(tmp_path, 2, refused)[0]
    assert len(said) == len(words)
    for one, what in zip(said, words):
        assert what in one, (one, what)


def test_stages_cost_about_the_same():
    assert cuts([1, 1, 1, 1], 2) == [0, 2] and cuts([5, 1, 1, 1], 2) == [0, 1] and cuts([1, 2, 3], 3) == [0, 1, 2]
    with pytest.raises(ValueError, match="3 sections cannot be cut into 4 stages; take 1 to 3"):
        cuts([1, 2, 3], 4)


def test_what_crosses_a_cut_comes_out_as_it_went_in():
    drawn = torch.Generator().manual_seed(0)
    spikes = (torch.rand(3, 2, 5, 1, 7, generator=drawn) > 0.7).float().permute(0, 1, 4, 2, 3)
    floats = torch.randn(3, 4, generator=drawn).T
    whole, most = torch.tensor([0.0, 300.0, 65535.0]), torch.tensor([0.0, 255.0])
    kinds = [Kind(tuple(spikes.shape), True, (0, 1, 3, 4, 2)), Kind((4, 3), False, (1, 0)),
             Kind((3,), False, (0,), 65535), Kind((2,), False, (0,), 255)]
    values = [spikes, floats, whole, most]
    message = to_bytes(values, kinds)
    assert message.dtype == torch.uint8 and len(message) == -(-3 * 2 * 5 * 7 // 8) + 4 * 12 + 2 * 3 + 2
    for value, back in zip(values, from_bytes(message, kinds)):
        assert back.dtype == torch.float32 and torch.equal(value, back)
        assert value.stride(0) == back.stride(0) and value.stride(-1) == back.stride(-1)
    with pytest.raises(ValueError, match="bytes are not the values"):
        from_bytes(message[:-1], kinds)
    with pytest.raises(ValueError, match="is to cross a cut"):
        to_bytes([floats, spikes, whole, most], kinds)

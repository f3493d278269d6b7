# SPDX-License-Identifier: Apache-2.0
"""Networks split by columns over real processes: the same spikes to the bit, and the gradients of the whole network."""
from __future__ import annotations

import numpy as np
import pytest
import torch
from networks_here import NAMES
from several import several
from splits import QUICK, compared, refused, trained

from brain_training.motor import MotorTask
from brain_training.trainer import Trainer

READERS = {     # weights behind the last gather, whose gradients have the same bits whatever the matrix library does
    "vision": {"readout.weight", "readout.bias", "convolutions.5.weight", "norms.5.weight"},
    "language": {"evidence", "direct", "evidence_bias", "verb"}, "motor": {"readout"}}


@pytest.mark.extended(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [2, 3])
def test_exact_forward_is_the_whole_networks_to_the_bit(tmp_path, name, ranks):
    for found in several(tmp_path, ranks, compared, name, "exact"):
        assert all(found["answers"]) and not any(found["flips"])
        # without AVX-512 the matrix library adds up a third of language's columns in another order than all of them
        assert not found["state"] or (name, ranks) == ("language", 3) and max(found["state"].values()) < 1e-6
        assert name == "language" or min(found["spikes"]) > 0       # they fire at all
        off = {of: value for of, value in found["off"].items() if not of.startswith("conv") or "bias" not in of}
        assert max(off.values()) < 1e-5 and {of for of, value in off.items() if not value} >= READERS[name]
        assert found["norm"][0] == pytest.approx(found["norm"][1], rel=1e-5)
        assert found["own"] < {2: 0.62, 3: 0.49}[ranks]
        # one bit a spike; the last byte of each gathering may be partly empty
        assert found["floats"] / 32 <= found["bytes"]["forward"] <= found["floats"] / 25
        # vision's first picture by rates, a float each, where the second has six micro-steps of spikes
        assert found["bytes"].get("rates", 0) == (found["floats"] / 6 if name == "vision" else 0)


@pytest.mark.parametrize("name", NAMES)
def test_classic_sums_differ_in_last_bits_alone(tmp_path, name):
    first, second = several(tmp_path, 2, compared, name, "classic")
    assert first["close"] and second["close"]
    flips, spikes = sum(first["flips"]), sum(first["spikes"])
    assert flips <= 1e-3 * max(spikes, 1), f"{flips} of {spikes} spikes"
    assert first["own"] < 0.72
    assert {of for of in first["off"] if "bias" not in of and first["off"][of] > 1e-3} == set()


def test_four_ranks_in_two_groups_by_two_batches(tmp_path):
    for found in several(tmp_path, 4, compared, "motor", "exact", 2):
        assert all(found["answers"]) and max(found["off"].values()) < 1e-5


def test_over_the_zenoh_backend(tmp_path):
    for found in several(tmp_path, 2, compared, "motor", "exact", backend="zenoh"):
        assert all(found["answers"]) and not any(found["flips"]) and max(found["off"].values()) < 1e-5


@pytest.mark.slow
def test_trains_as_one_process_and_its_checkpoint_is_one_of_one_process(tmp_path):
    alone = Trainer(MotorTask(quick=True, recipe=QUICK), 3)
    for _ in range(6):
        alone.advance()
    first, second = several(tmp_path / "whole", 2, trained, None, 6, False)
    for name, value in alone.network.state_dict().items():
        assert torch.equal(first["state"][name], second["state"][name])
        assert torch.allclose(first["state"][name], value, atol=1e-4)
    assert first["losses"] == second["losses"] and np.allclose(first["losses"], alone.losses, rtol=1e-3)

    path = tmp_path / "motor.checkpoint"
    several(tmp_path / "part", 2, trained, path, 4, False)
    rest = Trainer(MotorTask(quick=True, recipe=QUICK), 3, checkpoint=path)
    assert rest.resume() == 4 and rest.losses == first["losses"][:4]
    rest.advance()
    assert np.allclose(rest.losses, alone.losses[:5], rtol=1e-3)
    # resumed on as many ranks it is as uninterrupted to the bit
    again, _ = several(tmp_path / "rest", 2, trained, path, 6, True)
    assert again["resumed"] == 4 and again["losses"] == first["losses"]
    assert all(torch.equal(value, first["state"][name]) for name, value in again["state"].items())


def test_what_cannot_be_split_is_named_with_the_reason(tmp_path):
    ann, narrow, mode = several(tmp_path, 2, refused)[0]
    assert "AnnBaseline cannot be split by columns" in ann and "train it with dp" in ann
    assert "over 2 ranks: 1 columns cannot be split" in narrow and "no mode 'rows'" in mode

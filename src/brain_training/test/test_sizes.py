# SPDX-License-Identifier: Apache-2.0
"""Wider networks: they are trained like the others, also by several, and no region takes them."""
from __future__ import annotations

import numpy as np
import pytest
import torch
from meshes import all_wide, wide
from several import several
from typer.testing import CliRunner

from brain.cli import app
from brain_training.definitions import vision as definition
from brain_regions.language import weights as language_weights
from brain_regions.motor import weights as motor_weights
from brain_regions.vision import weights as vision_weights
from brain_regions.weight_files import WeightsError
from brain_training.language import LanguageTask
from brain_training.motor import MotorTask
from brain_training.runs import places
from brain_training.trainer import Trainer
from brain_training.vision import VisionTask


@pytest.mark.parametrize("cls", [VisionTask, LanguageTask, MotorTask])
def test_sizes_have_so_many_times_the_hidden_neurons(cls):
    counts = {size: sum(p.numel() for p in cls(size=size).build(0).parameters()) for size in cls.sizes}
    assert counts["base"] < counts["wide"] / 2 < counts["large"] / 4
    ann = [sum(p.numel() for p in cls("ann", size=size).build(0).parameters()) for size in ("base", "wide")]
    assert ann[0] < ann[1] / 2
    plain, base = cls().build(0).state_dict(), cls(size="base").build(0).state_dict()
    assert all(torch.equal(value, base[name]) for name, value in plain.items())


def test_a_size_that_a_task_has_not_is_named(tmp_path):
    for options, why in (
            (["parallel_tasks:Spikes", "--size", "wide"],
             "the networks of spikes have no size 'wide'; give --size base"),
            (["motor", "--size", "huge"], "there is no size 'huge'; there is base, wide, large")):
        told = CliRunner().invoke(app, ["train", *options, "--quick", "--out", str(tmp_path / "a.safetensors")])
        assert told.exit_code and why in " ".join(told.output.split()), told.output
    assert not list(tmp_path.iterdir())


def test_weights_of_another_size_have_a_name_of_their_own():
    assert {which: file.name for which, file in places("motor", None, size="wide").items()} == {
        "spiking": "motor_wide.safetensors", "ann": "motor_ann_wide.safetensors"}


@pytest.mark.extended
@pytest.mark.slow
def test_a_wide_network_is_trained_and_the_region_says_that_it_does_not_fit(tmp_path):
    out = tmp_path / "motor.safetensors"
    told = CliRunner().invoke(app, ["train", "motor", "--size", "wide", "--quick", "--out", str(out)])
    assert told.exit_code == 0, told.output
    assert "of the size wide, and do not fit the region motor" in " ".join(told.output.split())
    with pytest.raises(WeightsError, match="does not fit: network is .*, but .* is needed") as why:
        motor_weights.load(out)
    assert "\n" not in str(why.value)


def test_weights_of_a_wide_network_do_not_fit_its_region(tmp_path):
    network = VisionTask(size="wide").build(0)
    reader = LanguageTask(size="wide").build(0)
    language_weights.save(tmp_path / "language.safetensors", reader.folded(), reader.runs, {}, {})
    with pytest.raises(WeightsError, match="does not fit: network is '.*', but '.*' is needed; make new ones") as why:
        language_weights.load(tmp_path / "language.safetensors", reader.runs)
    assert "\n" not in str(why.value)
    definition.save(tmp_path / "vision.safetensors", network.folded(), {}, {"threshold": 0.5})
    with pytest.raises(WeightsError, match="does not fit: network is"):
        vision_weights.load(tmp_path / "vision.safetensors")


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("plan", ["dp=2,tp=2", "dp=2,pp=2"])
def test_wide_networks_are_trained_by_several_forms(tmp_path, plan):
    alone = {name: Trainer(wide(name), 3) for name in ("language", "motor")}
    for one in alone.values():
        one.advance()
    for found in several(tmp_path, 4, all_wide, plan):
        for name, its in found.items():
            assert its["losses"][0] == pytest.approx(alone[name].losses[0], rel=0.1)    # of micro-batches another mean
            assert {what: value.shape for what, value in its["state"].items()} == {
                what: value.shape for what, value in alone[name].network.state_dict().items()}


def test_a_wide_network_of_language_says_live_what_it_says_in_training():
    for which in ("spiking", "ann"):
        network = LanguageTask(which, size="wide").build(0).eval()
        text = b"\x02go to the red ball\x03"
        with torch.inference_mode():
            said = network(torch.tensor([list(text)]), torch.tensor([len(text)]))
        heard = network.runs(network.folded(), sizes=network.sizes).hear(text)
        assert np.allclose(heard.evidence, said.evidence[0], atol=1e-3)
        assert np.allclose(heard.verb, said.verb[0], atol=1e-3)

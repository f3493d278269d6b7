# SPDX-License-Identifier: Apache-2.0
"""Training of language: it learns, the same from the same seed, and what runs live computes what was trained."""
from __future__ import annotations

import numpy as np
import pytest
import torch

from brain_regions.language import network as live
from brain_regions.language import weights
from brain_regions.language.decode import decode, framed, spell
from brain_regions.weight_files import WeightsError
from brain_training import language_score as score
from brain_training.language import Recipe, hear
from brain_training.language_data import make
from brain_training.language_network import AnnReader, SpikingReader, of_weights
from brain_training.train_language import LISTS, QUICK, examination, held_out, train_language, train_one

PAIRS = [("spiking", SpikingReader, live.SpikingReader, weights.SHIPPED),
         ("twin", AnnReader, live.AnnReader, weights.TWIN)]


def read(network, text: str):
    state = network.begin(framed(spell(text)))
    while not network.done(state):
        state, _ = network.read(state, 10)
    return network.heard(state)


def slots(text: str, heard) -> tuple[int, ...]:
    meant = decode(spell(text), heard)[0]
    return int(meant.verb), meant.color, meant.shape, meant.avoid_color, meant.avoid_shape


@pytest.mark.parametrize(("name", "cls", "reader", "path"), PAIRS)
def test_what_runs_live_computes_what_was_trained(name, cls, reader, path):
    tensors, _, _ = weights.load(path, reader)
    numpy_network, torch_network = reader(tensors), of_weights(cls, tensors)
    texts = [s.text for s in make(60, 77)]
    same = 0
    for text, heard in zip(texts, hear(torch_network, texts)):
        found = read(numpy_network, text)
        same += all(np.allclose(one, other, atol=2e-3) for one, other in zip(found[:2], heard[:2]))
        assert slots(text, found) == slots(text, heard) or np.abs(found.verb - heard.verb).max() < 1.0
    assert same >= 50    # a sum that is rounded otherwise fires a neuron sooner or later, now and then


@pytest.mark.parametrize(("name", "cls", "reader", "path"), PAIRS)
def test_the_shipped_weights_reach_their_figures_on_fresh_sentences(name, cls, reader, path):
    tensors, report, _ = weights.load(path, reader)
    network = reader(tensors)
    for language in ("en", "ja"):
        for kind, rows in score.trained(language, 60, 4242).items():
            right = np.mean([slots(row.text, read(network, row.text)) == row.slots for row in rows])
            claimed = report["held_out"][f"trained phrasings, {kind}, {language}"]["right"]
            # three standard deviations of a share of 60
            assert right >= claimed - 3 * np.sqrt(max(claimed * (1 - claimed), 0.01) / 60), (kind, language, right)


@pytest.mark.parametrize("name", ["spiking", "twin"])
def test_the_loss_falls(name):
    losses = train_one(name, 1, Recipe(sentences=1500))["losses"]
    assert losses[-1] < 0.8 * losses[0]


def test_a_quick_run_writes_files_that_load_and_the_same_seed_gives_the_same_weights(tmp_path):
    told = set()
    found = train_language(tmp_path / "a.safetensors", seed=3, quick=True, progress=lambda what, *_: told.add(what))
    again = train_one("spiking", 3, QUICK)["tensors"]
    tensors, report, _ = weights.load(tmp_path / "a.safetensors", live.SpikingReader)
    assert all(np.array_equal(tensors[name], again[name]) for name in tensors)
    assert report["held_out"] == found["spiking"]["held_out"] and told >= {"spiking", "twin"}
    twin, _, _ = weights.load(tmp_path / "a_twin.safetensors", live.AnnReader)
    assert not np.array_equal(twin["words"], tensors["words"])
    with pytest.raises(WeightsError, match="region is"):
        weights.load(tmp_path / "a_twin.safetensors", live.SpikingReader)


def test_lists_by_hand_are_scored_where_there_are_some(tmp_path):
    for name in LISTS.values():
        (tmp_path / f"{name}_english.txt").write_text("stop : stop\n- : hello there\n")
        (tmp_path / f"{name}_japanese.txt").write_text("stop : 止まれ\n")
    tensors, _, _ = weights.load(weights.SHIPPED, live.SpikingReader)
    found = held_out("spiking", tensors, examination(2, 1, tmp_path))
    assert found["list by hand, understood, en"] == {"right": 1.0, "of": 1}
    for whose in LISTS:
        assert found[f"list by {whose}, understood, ja"] == {"right": 1.0, "of": 1}
    assert not any(key.startswith("list") for key in examination(2, 1, tmp_path / "nowhere"))


def test_a_wrong_list_is_told_before_anything_is_trained(tmp_path):
    for name in LISTS.values():
        for language in ("english", "japanese"):
            (tmp_path / f"{name}_{language}.txt").write_text("stop : stop\n")
    (tmp_path / "blind_japanese.txt").write_text("walk : 歩いて\n")
    told = []
    with pytest.raises(ValueError, match="blind_japanese.txt: not a sentence with its slots: walk"):
        train_language(tmp_path / "a.safetensors", quick=True, lists=tmp_path, progress=lambda *news: told.append(news))
    assert not told and not (tmp_path / "a.safetensors").exists()


def test_torch_is_left_with_the_threads_it_had():
    before = torch.get_num_threads()
    train_one("spiking", 0, Recipe(sentences=64))
    assert torch.get_num_threads() == before

# SPDX-License-Identifier: Apache-2.0
"""The network of language: NumPy computes what torch was trained with, and nothing is said without spikes."""
from __future__ import annotations

import numpy as np
import pytest

from brain_regions.language import sizes as z
from brain_regions.language import weights
from brain_regions.language.decode import decode, framed, spell
from brain_regions.language.network import SHAPES, AnnReader, SpikingReader

TEXTS = ("go to the red ball but avoid the blue box", "青い箱を避けて赤いボールへ行って", "stop", "find a cylinder", "止まれ")


def random_weights(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: (rng.normal(size=shape) / np.sqrt(shape[-2] if len(shape) > 1 else 1)).astype(np.float32)
            for name, shape in SHAPES.items()}


def read(network, text: str, steps: int = 10):
    state = network.begin(framed(spell(text)))
    spikes = 0.0
    while not network.done(state):
        state, effort = network.read(state, steps)
        spikes += effort.spikes
    return network.heard(state), spikes


@pytest.mark.parametrize("cls", [SpikingReader, AnnReader])
@pytest.mark.parametrize("steps", [1, 3, 7])
def test_the_size_of_a_step_changes_nothing(cls, steps):
    network = cls(random_weights())
    for text in TEXTS:
        whole, spikes = read(network, text, 300)
        parts, same = read(network, text, steps)
        assert spikes == same
        np.testing.assert_allclose(parts.evidence, whole.evidence, atol=1e-4)
        np.testing.assert_allclose(parts.verb, whole.verb, atol=1e-4)


def test_reading_leaves_the_state_that_it_was_given_as_it_was():
    network = SpikingReader(random_weights())
    state = network.begin(framed("go"))
    before = {name: value.copy() for name, value in state.items()}
    network.read(state, 2)
    assert all(np.array_equal(before[name], state[name]) for name in before)


def test_a_network_of_other_weights_is_refused():
    tensors = random_weights()
    with pytest.raises(ValueError, match="words"):
        SpikingReader({**tensors, "words": tensors["words"][:, :-1]})
    with pytest.raises(ValueError, match="verb"):
        SpikingReader({name: value for name, value in tensors.items() if name != "verb"})


@pytest.mark.parametrize(("cls", "path"), [(SpikingReader, weights.SHIPPED), (AnnReader, weights.ANN)])
def test_without_activity_nothing_is_understood(cls, path):
    tensors, _, _ = weights.load(path, cls)
    loud, silent = cls(tensors), cls(tensors, silent=True)
    for text in TEXTS:
        assert decode(spell(text), read(loud, text)[0])[0].understood
        heard, spikes = read(silent, text)
        assert spikes == 0 and not heard.rates.any()
        assert not decode(spell(text), heard)[0].understood
        # the verb alone says nothing either, and no byte is part of anything
        assert heard.verb.argmax() == 0 and (heard.evidence[:, :z.ACTION.start] < 0).all()


def test_a_spike_costs_as_many_accumulates_as_it_has_synapses():
    network = SpikingReader(weights.load(weights.SHIPPED, SpikingReader)[0])
    state = network.begin(framed("go to the red ball"))
    state, effort = network.read(state, 10)
    assert effort.updates == 10 * z.STREAMS * (z.LETTERS + z.WORDS + z.CONTEXT) and effort.spikes > 0
    assert effort.multiplies == 10 * z.STREAMS * len(z.LETTER_DELAYS) * z.LETTERS   # of the bytes
    most = len(z.CONTEXT_DELAYS) * z.CONTEXT + z.RECALL + z.OUTPUTS + 1             # and the count of a word
    assert effort.spikes * z.CONTEXT < effort.synops < effort.spikes * most
    _, more = AnnReader(weights.load(weights.ANN, AnnReader)[0]).read(state, 5)
    assert more.spikes == more.synops == 0 and more.multiplies > 5 * 100_000

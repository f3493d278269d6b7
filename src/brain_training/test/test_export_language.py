# SPDX-License-Identifier: Apache-2.0
"""The network of language written as NIR, run by another library while sentences are read: what it understands."""
import dataclasses

import nir
import numpy as np
import pytest
import torch

from brain_training.circuit_steps import Steps
from brain_regions.language import Language, weights
from brain_regions.language import sizes as z
from brain_regions.language.circuit import BLOCKS, INPUTS, SAID, STREAMS
from brain_regions.language.decode import decode, framed, spell
from brain_regions.language.network import Heard, SpikingReader
from brain_training import nir_files

SENTENCES = ("go to the blue ball", "赤い箱を避けて青いボールを探して")


@pytest.fixture(scope="module")
def tensors():
    return weights.load(weights.SHIPPED, SpikingReader)[0]


def bytes_of(sentence):
    """Input while the streams read: in each micro-step a byte from the front, and one from the back."""
    x = np.zeros((len(sentence), INPUTS), np.float32)
    for step, (front, back) in enumerate(zip(sentence, sentence[::-1])):
        x[step, front] = x[step, 256 + back] = 1.0
    return x


def parts(answers):
    """The parts of the answer, [steps, size] each, in the order that the circuit tells."""
    sizes = [SAID, SAID, z.OUTPUTS, *2 * (z.WORDS, z.CONTEXT), z.CONTEXT, z.CONTEXT, z.RECALL, z.CHOICE,
             len(z.MEANINGS)]
    assert answers.shape[1] == sum(sizes)
    return np.split(answers, np.cumsum(sizes)[:-1], axis=1)


def understood(reader, bias, sentence, run):
    """What a simulator makes of a sentence: it reads, what was said is put in order, it recalls, and it chooses.

    ``run`` takes inputs [steps, INPUTS] to a network at rest, and answers [steps, ...]. Beside it stands nothing but
    the order of the bytes, a bias, and the scale of the sums.
    """
    length = len(sentence)
    front, back, _, *sums, front_trace, back_trace, _, _, _ = parts(run(bytes_of(sentence)))
    state = reader.begin(sentence)
    for step in range(length):
        state["said"][step // z.STRIDE] += front[step] / z.STRIDE
        state["said"][(length - 1 - step) // z.STRIDE] += back[step] / z.STRIDE
    state["counts"] = np.stack([np.concatenate([sums[2 * k][-1], sums[2 * k + 1][-1]]) for k in range(len(STREAMS))])
    state["trace"] = np.stack([front_trace[-1], back_trace[-1]])
    steps = -(-length // z.STRIDE)
    x = np.zeros((steps, INPUTS), np.float32)
    x[:, BLOCKS[1]:BLOCKS[2]] = state["said"][:steps]
    found = parts(run(x))
    state["evidence"][:steps], state["recalls"] = found[2] + bias, found[-3][-1]
    x = np.zeros((z.CHOICE_STEPS, INPUTS), np.float32)
    x[:, BLOCKS[2]:] = np.concatenate([z.GAIN * np.concatenate(
        [state["counts"] / length, state["trace"]], 1).reshape(-1), z.COUNT_GAIN * state["recalls"]])
    *_, choices, verb = (part[-1] for part in parts(run(x)))
    state["choices"], state["place"] = choices, np.array([length, steps, z.CHOICE_STEPS], np.float32)
    return state, reader.heard(state)._replace(verb=verb)


def same(tensors, text, run):
    reader, bias = SpikingReader(tensors), tensors["evidence_bias"]
    sentence = framed(spell(text))
    ours, _ = reader.read(reader.begin(sentence), 10_000)
    theirs, heard = understood(reader, bias, sentence, run)
    for name in ("counts", "recalls", "choices"):      # sums of spikes
        assert np.array_equal(theirs[name], ours[name]), name
        assert ours[name].sum() > 10
    for name in ("trace", "said", "evidence"):
        assert theirs[name] == pytest.approx(ours[name], abs=2e-3), name
    assert isinstance(heard, Heard) and heard.verb == pytest.approx(reader.heard(ours).verb, abs=1e-3)
    meant, right = decode(spell(text), heard)[0], decode(spell(text), reader.heard(ours))[0]
    assert meant.understood and meant.confidence == pytest.approx(right.confidence, abs=1e-3)
    assert dataclasses.replace(meant, confidence=right.confidence) == right


@pytest.mark.parametrize("text", SENTENCES)
def test_the_circuit_by_our_membranes_is_the_network(tensors, text):
    circuit = Language.circuit()

    def run(x):
        steps = Steps(circuit)
        return np.stack([steps.step(row)["answer"] for row in x])

    same(tensors, text, run)


@pytest.mark.parametrize("text", SENTENCES)
def test_another_simulator_that_reads_the_file_understands_the_same(tmp_path, tensors, by_definition, text):
    nir_files.write(tmp_path / "language.nir", Language.circuit())
    assert nir.read(tmp_path / "language.nir").metadata["region"] == "language"
    net = by_definition.read(tmp_path / "language.nir")

    def run(x):
        answers, state = [], None
        with torch.inference_mode():
            for row in x:
                answer, state = net(torch.from_numpy(row)[None], state)
                answers.append(answer[0].numpy())
        return np.stack(answers)

    same(tensors, text, run)

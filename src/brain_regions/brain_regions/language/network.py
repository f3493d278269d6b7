# SPDX-License-Identifier: Apache-2.0
"""The network of language as it runs live, in NumPy: it reads a sentence byte by byte, one a micro-step.

Two streams read at once, one from the front and one from the back: in English what a thing is for stands before it, in
Japanese behind. In each, synapses with delays lead from bytes to letters, from letters to words and from words to a
recurrent context of adaptive neurons, which remembers in its thresholds, too. When both have read all, the recall goes
through the sentence once more, some bytes a micro-step: one population, to which the synapses of both streams say what
they thought at each byte. Its spikes and those synapses are the evidence for what a byte is part of. At the end counts
of all spikes, and what the last ones of the context left behind, drive the choice, and its spikes and those counts are
what the sentence asks for. The equations of the neurons stand in :mod:`brain_training.neurons`; what is trained, and
what this is made of and held to, is ``brain_training.definitions.language``, in torch.
"""
from __future__ import annotations

from typing import Mapping, NamedTuple

import numpy as np

from brain_regions.circuits import INPUT, fan_outs
from brain_regions.language import sizes as z
from brain_regions.language.circuit import STREAMS, blocks, circuit
from brain_regions.lesions import Lesion
from brain_regions.membranes import LIF, MOST_STEPS, decay

State = dict[str, np.ndarray]
READING = ("letters", "words", "context")       # layers that both streams have


def shapes(sizes: z.Sizes = z.BASE) -> dict[str, tuple[int, ...]]:
    """Weights by name. From bytes to letters there are few: the synapse of a byte on a letter is a product of two."""
    letters, words, context, recall, choice = sizes
    return {
        "bytes": (z.STREAMS, 256, z.RANK),
        "letters": (z.STREAMS, len(z.LETTER_DELAYS) * z.RANK, letters), "letters_bias": (z.STREAMS, 1, letters),
        "words": (z.STREAMS, len(z.WORD_DELAYS) * letters, words), "words_bias": (z.STREAMS, 1, words),
        "context": (z.STREAMS, len(z.CONTEXT_DELAYS) * words, context), "context_bias": (z.STREAMS, 1, context),
        "recurrent": (z.STREAMS, context, context),
        "recall": (1, sizes.heard, recall), "recall_bias": (1, 1, recall), "direct": (sizes.heard, z.OUTPUTS),
        "evidence": (recall, z.OUTPUTS), "evidence_bias": (z.OUTPUTS,),
        "choice": (sizes.summary, choice), "choice_bias": (choice,), "verb": (sizes.summary + choice, len(z.MEANINGS)),
    }


SHAPES = shapes()
"""Of the network that a region runs."""


class Heard(NamedTuple):
    """Outputs of the network for a sentence.

    Attributes:
        evidence: logits [bytes, OUTPUTS], frames included.
        verb: logits of what the sentence is, one of MEANINGS.
        rates: share of micro-steps in which each neuron of the choice fired, [choice].
    """

    evidence: np.ndarray
    verb: np.ndarray
    rates: np.ndarray


class Effort(NamedTuple):
    """Cost of some micro-steps; see :meth:`brain_runtime.contract.region.Region.count`.

    A byte is no spike: the synapses of its line, whose weights are added five times, count as multiplies.
    """

    spikes: float = 0.0
    synops: float = 0.0
    multiplies: float = 0.0
    updates: float = 0.0


class SpikingReader:
    """The spiking network.

    Args:
        tensors: weights by name, see :data:`SHAPES`.
        silent: no neuron fires: a control, which must not understand anything.
        lesions: by name of the population: letters, words, context, recall, choice.
        sizes: of its populations.

    Raises:
        ValueError: a weight is missing or has another shape.
    """

    def __init__(self, tensors: Mapping[str, np.ndarray], silent: bool = False,
                 lesions: Mapping[str, Lesion] = {}, sizes: z.Sizes = z.BASE) -> None:
        for name, shape in shapes(sizes).items():
            if name not in tensors or tensors[name].shape != shape:
                raise ValueError(f"weights {name!r} of shape {shape} are needed")
        self.silent, self._lesions, self.sizes = silent, lesions, sizes
        self._w = {name: np.asarray(tensors[name], np.float32) for name in SHAPES}
        taps = len(z.LETTER_DELAYS)
        parts = self._w["letters"].reshape(z.STREAMS, taps, z.RANK, sizes.letters)
        # the synapses of each byte; no byte, behind the others, has none
        table = np.einsum("sbr,strn->stbn", self._w["bytes"], parts)
        self._table = np.concatenate([table, np.zeros_like(table[:, :, :1])], axis=2).astype(np.float32)
        # what a stream says to the recall, and to the evidence past it
        said = np.concatenate([self._w["recall"][0], self._w["direct"]], axis=1)
        self._say = np.ascontiguousarray(said.reshape(z.STREAMS, -1, sizes.said))
        fans = fan_outs(circuit(tensors))
        lines = np.split(fans.pop(INPUT), blocks(sizes))
        self._byte_fans, self._said_fan, self._summary_fan = (
            np.stack(lines[:z.STREAMS]), float(lines[-2].sum()), float(lines[-1].sum()))
        self._fans = {part: np.stack([fans[f"{stream}_{part}"] for stream in STREAMS]) for part in READING}
        self._fans |= {part: fans[part][None] for part in ("recall", "choice")}

    def rest(self) -> State:
        """State of a network that reads nothing.

        ``sentence``: the framed bytes; ``length``: how many they are; ``place``: how many each stream has read, and
        how many steps of the recall and of the choice are made. ``letters``, ``words``, ``context``, ``recall``,
        ``choice``: potentials;
        ``thresholds``, ``fired``: adaptations and last spikes of the context; ``letter_line``, ``word_line``: spikes on
        their way; ``synapses``: of both streams on the recall and the evidence; ``said``: what they said at each of its
        steps; ``evidence``: of each of its steps; ``counts``: spikes of words and context; ``trace``: what the last
        ones of the context left behind; ``recalls``, ``choices``: spikes of recall and choice.
        """
        def zeros(*shape: int) -> np.ndarray:
            return np.zeros(shape, np.float32)

        s, steps, n = z.STREAMS, _steps_of(z.LONGEST), self.sizes
        return {"sentence": zeros(z.LONGEST), "length": zeros(1), "place": zeros(3), "letters": zeros(s, n.letters),
                "words": zeros(s, n.words), "context": zeros(s, n.context), "thresholds": zeros(s, n.context),
                "fired": zeros(s, n.context), "letter_line": zeros(s, z.WORD_DELAYS[-1], n.letters),
                "word_line": zeros(s, z.CONTEXT_DELAYS[-1], n.words), "synapses": zeros(s, n.said),
                "said": zeros(steps, n.said), "recall": zeros(1, n.recall), "evidence": zeros(steps, z.OUTPUTS),
                "counts": zeros(s, n.words + n.context), "trace": zeros(s, n.context), "recalls": zeros(n.recall),
                "choice": zeros(1, n.choice), "choices": zeros(n.choice)}

    def begin(self, sentence: bytes) -> State:
        """State before the first byte of a framed sentence.

        Raises:
            ValueError: it is longer than LONGEST.
        """
        state = self.rest()
        if len(sentence) > z.LONGEST:
            raise ValueError(f"{len(sentence)} bytes are more than {z.LONGEST}")
        state["sentence"][:len(sentence)] = list(sentence)
        state["length"][0] = len(sentence)
        return state

    def read(self, state: State, steps: int) -> tuple[State, Effort]:
        """Goes on for some micro-steps, or to the end. The state given is not changed."""
        length, (place, recalled, chosen) = int(state["length"][0]), (int(p) for p in state["place"])
        if length == 0:
            return state, Effort()
        reading = min(steps, length - place)
        recalling = min(steps - reading, _steps_of(length) - recalled)
        choosing = min(steps - reading - recalling, z.CHOICE_STEPS - chosen)
        if reading + recalling + choosing <= 0:
            return state, Effort()
        state = {name: value.copy() for name, value in state.items()}
        fired: dict[str, np.ndarray] = {}       # spikes of each neuron [streams, neurons], by layer
        if reading:
            fired |= self._read(state, place, reading)
        if recalling:
            fired["recall"] = self._recall(state, recalled, recalling)
        if choosing:
            fired["choice"] = self._choose(state, choosing)
        framed = state["sentence"][:length].astype(np.int64)
        bytes_ = [float(fan[text[place:place + reading]].sum()) for fan, text in zip(
            self._byte_fans, (framed, framed[::-1]))]
        inputs = sum(bytes_) + recalling * self._said_fan + (self._summary_fan if choosing and not chosen else 0.0)
        return state, self._effort({part: reading for part in READING} | {"recall": recalling, "choice": choosing},
                                   fired, inputs)

    def _read(self, state: State, place: int, steps: int) -> dict[str, np.ndarray]:
        w, length = self._w, int(state["length"][0])
        letters = self._fire(self._letters(state, place, steps), state, "letters", z.LETTER)
        heard = _late(letters, state, "letter_line", z.WORD_DELAYS)
        words = self._fire(heard @ w["words"] + w["words_bias"], state, "words", z.WORD)
        heard = _late(words, state, "word_line", z.CONTEXT_DELAYS)
        context = self._remember(heard @ w["context"] + w["context_bias"], state)
        spikes = np.concatenate([words, context], axis=2)
        self._speak(spikes, state, place, length)
        state["counts"] += spikes.sum(1)
        beta = np.float32(decay(z.TRACE.tau))
        ages = beta ** np.arange(steps - 1, -1, -1, dtype=np.float32)
        state["trace"] *= beta ** steps
        state["trace"] += (1 - beta) * (ages @ context)
        state["place"][0] += steps
        return {part: layer.sum(1) for part, layer in zip(READING, (letters, words, context))}

    def _recall(self, state: State, place: int, steps: int) -> np.ndarray:
        said = state["said"][place:place + steps]
        charge = said[None, :, :self.sizes.recall] + self._w["recall_bias"]
        spikes = self._fire(charge, state, "recall", z.RECALLER)[0]
        evidence = spikes @ self._w["evidence"] + said[:, self.sizes.recall:]
        state["evidence"][place:place + steps] = evidence + self._w["evidence_bias"]
        fired = spikes.sum(0)
        state["recalls"] += fired
        state["place"][1] += steps
        return fired[None]

    def _choose(self, state: State, steps: int) -> np.ndarray:
        charge = _summary(state) @ self._w["choice"] + self._w["choice_bias"]
        spikes = self._fire(np.broadcast_to(charge, (1, steps, self.sizes.choice)), state, "choice", z.CHOOSER)[0]
        fired = spikes.sum(0)
        state["choices"] += fired
        state["place"][2] += steps
        return fired[None]

    @staticmethod
    def done(state: Mapping[str, np.ndarray]) -> bool:
        """Tells whether all is read, recalled and chosen, or there is nothing to read."""
        return not state["length"][0] or float(state["place"][2]) >= z.CHOICE_STEPS

    def heard(self, state: Mapping[str, np.ndarray]) -> Heard:
        """Returns the outputs for a sentence that is read, recalled and chosen."""
        length = int(state["length"][0])
        rates = state["choices"] / z.CHOICE_STEPS
        verb = np.concatenate([_summary(state), rates]) @ self._w["verb"] + np.array(z.AT_REST, np.float32)
        evidence = np.repeat(state["evidence"][:_steps_of(length)], z.STRIDE, axis=0)
        return Heard(evidence[:length], verb, rates)

    def hear(self, sentence: bytes) -> Heard:
        """Reads a framed sentence from start to end at once, and returns the outputs.

        Raises:
            ValueError: it is longer than LONGEST.
        """
        state = self.begin(sentence)
        while not self.done(state):
            state, _ = self.read(state, MOST_STEPS)
        return self.heard(state)

    # -- layers ----------------------------------------------------------------------------------------------------

    def _letters(self, state: State, place: int, steps: int) -> np.ndarray:
        front = state["sentence"][:int(state["length"][0])].astype(np.int64)
        at = place + np.arange(steps)[:, None] - np.array(z.LETTER_DELAYS)
        before, taps = at < 0, np.arange(len(z.LETTER_DELAYS))
        charge = np.empty((z.STREAMS, steps, self.sizes.letters), np.float32)
        for k, text in enumerate((front, front[::-1])):
            charge[k] = self._table[k, taps, np.where(before, 256, text[at.clip(min=0)])].sum(1)
        return charge + self._w["letters_bias"]

    def _fire(self, charge: np.ndarray, state: State, name: str, neuron: LIF) -> np.ndarray:
        """Spikes that leaky integrate-and-fire neurons hand on over charges [streams, steps, neurons].

        Changes their potentials, the state's entry ``name``. As :func:`brain_regions.membranes.lif_run`, without new
        arrays in each step.
        """
        spikes = np.zeros(charge.shape, np.float32)
        if self.silent:
            return spikes
        v, beta, threshold = state[name], np.float32(decay(neuron.tau)), np.float32(neuron.threshold)
        fired = (v > threshold).astype(np.float32)
        for t in range(charge.shape[1]):
            v *= beta
            v += charge[:, t]
            v -= threshold * fired
            np.greater(v, threshold, out=spikes[:, t], casting="unsafe")
            fired = spikes[:, t]
        if name in self._lesions:
            self._lesions[name](spikes.swapaxes(0, 1))
        return spikes

    def _remember(self, charge: np.ndarray, state: State) -> np.ndarray:
        """Recurrent adaptive neurons over charges [streams, steps, neurons]."""
        spikes = np.zeros_like(charge)
        if self.silent:
            return spikes
        p, recurrent = z.CONTEXT_NEURON, self._w["recurrent"]
        beta, rho = np.float32(decay(p.tau)), np.float32(decay(p.tau_adaptation))
        threshold, adaptation = np.float32(p.threshold), np.float32(p.adaptation)
        v, a, fired = state["context"], state["thresholds"], state["fired"]     # handed on
        lesion = self._lesions.get("context")
        own = fired if lesion is None else (v - adaptation * a > threshold).astype(np.float32)
        for t in range(charge.shape[1]):
            v *= beta
            for k in range(z.STREAMS):
                # of the neurons that fired; in all others nothing happens
                v[k] += recurrent[k][fired[k] > 0].sum(0)
            v += charge[:, t]
            v -= threshold * own
            a *= rho
            a += own
            np.greater(v - adaptation * a, threshold, out=spikes[:, t], casting="unsafe")
            own = fired = spikes[:, t]
            if lesion is not None:
                own = fired.copy()
                lesion(fired[None])
        state["fired"] = fired.copy()
        return spikes

    def _speak(self, spikes: np.ndarray, state: State, place: int, length: int) -> None:
        """Adds what both streams say to the recall; what is said from the back belongs to the bytes from the end."""
        said, beta = spikes @ self._say, np.float32(decay(z.SYNAPSE.tau))
        u, share = state["synapses"], np.float32(1 / z.STRIDE)
        for t in range(spikes.shape[1]):
            u *= beta
            u += (1 - beta) * said[:, t]
            state["said"][(place + t) // z.STRIDE] += share * u[0]
            state["said"][(length - 1 - place - t) // z.STRIDE] += share * u[1]

    def _effort(self, steps: dict[str, int], fired: dict[str, np.ndarray], inputs: float) -> Effort:
        """Computes the cost of each layer's micro-steps and spikes, beside so many synapses of the input."""
        return Effort(sum(float(n.sum()) for n in fired.values()),
                      sum(float(np.vdot(n, self._fans[part])) for part, n in fired.items()), inputs,
                      sum(n * self._fans[part].size for part, n in steps.items()))


class AnnReader(SpikingReader):
    """The ANN baseline: the same synapses, units that are ReLU cut at 1, no membranes but the context's."""

    def _fire(self, charge: np.ndarray, state: State, name: str, neuron: LIF) -> np.ndarray:
        return np.zeros_like(charge) if self.silent else charge.clip(0, 1)

    def _remember(self, charge: np.ndarray, state: State) -> np.ndarray:
        rates = np.zeros_like(charge)
        if self.silent:
            return rates
        v, rate, beta = state["context"], state["fired"], np.float32(decay(z.CONTEXT_NEURON.tau))
        for t in range(charge.shape[1]):
            v *= beta
            v += (rate[:, None] @ self._w["recurrent"])[:, 0] + charge[:, t]
            rate = rates[:, t] = v.clip(0, 1)
        state["fired"] = rate.copy()
        return rates

    def _effort(self, steps: dict[str, int], fired: dict[str, np.ndarray], inputs: float) -> Effort:
        """All its synapses multiply, in each step; those of the choice once, since its rates do not change."""
        dense = {part: n * float(self._fans[part].sum()) for part, n in steps.items()}
        dense["choice"] /= z.CHOICE_STEPS
        return Effort(multiplies=inputs + sum(dense.values()))


def _summary(state: Mapping[str, np.ndarray]) -> np.ndarray:
    """Summarizes reading and recalling, [summary]: rates, what the last spikes left behind, and counts."""
    seen = np.concatenate([state["counts"] / state["length"], state["trace"]], axis=1)
    return np.concatenate([z.GAIN * seen.reshape(-1), z.COUNT_GAIN * state["recalls"]])


def _steps_of(length: int) -> int:
    """Micro-steps in which so many bytes are recalled."""
    return -(-length // z.STRIDE)


def _late(spikes: np.ndarray, state: State, line: str, delays: tuple[int, ...]) -> np.ndarray:
    """Delays spikes [streams, steps, neurons] by their synapses' delays; what has not arrived yet stays on its way."""
    steps, late = spikes.shape[1], delays[-1]
    whole = np.concatenate([state[line], spikes], axis=1)
    state[line] = np.ascontiguousarray(whole[:, steps:])
    return np.concatenate([whole[:, late - d:late - d + steps] for d in delays], axis=2)

# SPDX-License-Identifier: Apache-2.0
"""The network of language as a circuit, for other simulators: both streams, the recall and the choice, in one.

The recall goes through the sentence a second time, with what both streams said at each byte, each in its own order; the
choice hears what all came to. That order is kept outside the file: its input is the bytes that the streams read now
(one of 256 each; none: nothing is read), then what was said at the step that is recalled now, then the sums for the
choice; its output is what each stream says, what the recall makes evident, the sums, and the verb.
"""
from __future__ import annotations

from typing import Mapping

import numpy as np

from brain_regions.circuits import HANDS_ON, INPUT, Circuit, Count, Dense, Population
from brain_regions.language import sizes as z
from brain_regions.membranes import LI, MICRO_STEP

STREAMS = ("front", "back")


def blocks(sizes: z.Sizes = z.BASE) -> tuple[int, int, int]:
    """Returns the offsets in the input: of the bytes from the back, then of what was said, then of the sums."""
    return 256, z.STREAMS * 256, z.STREAMS * 256 + sizes.said


BLOCKS, SAID = blocks(), z.BASE.said
INPUTS = BLOCKS[-1] + z.BASE.summary
"""Of the circuit that a region runs."""


def circuit(tensors: Mapping[str, np.ndarray]) -> Circuit:
    """The circuit with the weights of a file, of any sizes.

    Its output: what each stream says [STREAMS * said], evidence without its bias [OUTPUTS], counts of the words and the
    context of each stream, the traces of both contexts, counts of the recall and of the choice, and the logits of the
    meanings, when the choice has taken its micro-steps.
    """
    t = {name: np.asarray(value, np.float32) for name, value in tensors.items()}
    sizes, populations, projections, answers = z.sizes_of(t), [], [], []
    n_said, at_said, at_sums = sizes.said, *blocks(sizes)[1:]
    inputs = at_sums + sizes.summary
    parts = t["letters"].reshape(z.STREAMS, len(z.LETTER_DELAYS), z.RANK, sizes.letters)
    table = np.einsum("sbr,strn->stbn", t["bytes"], parts)
    say = np.concatenate([t["recall"][0], t["direct"]], axis=1).reshape(z.STREAMS, -1, n_said)

    def taps(source: str, target: str, weights: np.ndarray, bias: np.ndarray, delays: tuple[int, ...]) -> None:
        for k, (weight, delay) in enumerate(zip(weights, delays)):
            projections.append(Dense(source, target, np.ascontiguousarray(weight.T), None if k else bias[0], delay))

    def reads(name: str, source: str, size: int, neuron: Count | LI) -> None:
        populations.append(Population(name, (size,), neuron))
        projections.append(Dense(source, name, np.eye(size, dtype=np.float32)))
        answers.append((name, size))

    for s, stream in enumerate(STREAMS):
        letters, words, context, said = (f"{stream}_{part}" for part in ("letters", "words", "context", "says"))
        populations += [Population(letters, (sizes.letters,), z.LETTER), Population(words, (sizes.words,), z.WORD),
                        Population(context, (sizes.context,), z.CONTEXT_NEURON),
                        Population(said, (n_said,), z.SYNAPSE)]
        read = np.zeros((len(z.LETTER_DELAYS), inputs, sizes.letters), np.float32)
        read[:, 256 * s:256 * (s + 1)] = table[s]
        taps(INPUT, letters, read, t["letters_bias"][s], z.LETTER_DELAYS)
        taps(letters, words, t["words"][s].reshape(-1, sizes.letters, sizes.words), t["words_bias"][s], z.WORD_DELAYS)
        taps(words, context, t["context"][s].reshape(-1, sizes.words, sizes.context), t["context_bias"][s],
             z.CONTEXT_DELAYS)
        projections.append(Dense(context, context, np.ascontiguousarray(t["recurrent"][s].T), delay=1))
        projections += [Dense(words, said, np.ascontiguousarray(say[s, :sizes.words].T)),
                        Dense(context, said, np.ascontiguousarray(say[s, sizes.words:].T))]
        answers.append((said, n_said))
    now = np.zeros((n_said, inputs), np.float32)
    now[:, at_said:at_sums] = np.eye(n_said)
    populations += [Population("recall", (sizes.recall,), z.RECALLER), Population("evidence", (z.OUTPUTS,), HANDS_ON)]
    projections += [Dense(INPUT, "recall", now[:sizes.recall], t["recall_bias"][0, 0]),
                    Dense(INPUT, "evidence", now[sizes.recall:]),
                    Dense("recall", "evidence", np.ascontiguousarray(t["evidence"].T))]
    answers.append(("evidence", z.OUTPUTS))
    for stream in STREAMS:
        for part, size in (("words", sizes.words), ("context", sizes.context)):
            reads(f"{stream}_{part}_count", f"{stream}_{part}", size, Count())
    for stream in STREAMS:
        reads(f"{stream}_trace", f"{stream}_context", sizes.context, z.TRACE)
    reads("recall_count", "recall", sizes.recall, Count())
    summed = np.zeros((sizes.choice + len(z.MEANINGS), inputs), np.float32)
    summed[:, at_sums:] = np.concatenate([t["choice"], t["verb"][:sizes.summary] / z.CHOICE_STEPS], axis=1).T
    populations.append(Population("choice", (sizes.choice,), z.CHOOSER))
    projections.append(Dense(INPUT, "choice", summed[:sizes.choice], t["choice_bias"]))
    reads("choice_count", "choice", sizes.choice, Count())
    populations.append(Population("verb", (len(z.MEANINGS),), Count()))
    at_rest = np.array(z.AT_REST, np.float32) / z.CHOICE_STEPS
    projections += [Dense(INPUT, "verb", summed[sizes.choice:], at_rest),
                    Dense("choice", "verb", np.ascontiguousarray(t["verb"][sizes.summary:].T) / z.CHOICE_STEPS)]
    answers.append(("verb", len(z.MEANINGS)))
    total = sum(size for _, size in answers)
    populations.append(Population("answer", (total,), HANDS_ON))
    each, at = np.eye(total, dtype=np.float32), 0
    for name, size in answers:
        projections.append(Dense(name, "answer", np.ascontiguousarray(each[:, at:at + size])))
        at += size
    return Circuit("language", (inputs,), tuple(populations), tuple(projections), MICRO_STEP)

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

SAID = z.RECALL + z.OUTPUTS
BLOCKS = (256, z.STREAMS * 256, z.STREAMS * 256 + SAID)
"""Where in the input the bytes from the back begin, then what was said, then the sums."""
INPUTS = BLOCKS[-1] + z.SUMMARY
STREAMS = ("front", "back")


def circuit(tensors: Mapping[str, np.ndarray]) -> Circuit:
    """The circuit with the weights of a file.

    Its output: what each stream says [STREAMS * SAID], evidence without its bias [OUTPUTS], counts of the words and the
    context of each stream, the traces of both contexts, counts of the recall and of the choice, and the logits of the
    verbs, when the choice has taken its micro-steps.
    """
    t = {name: np.asarray(value, np.float32) for name, value in tensors.items()}
    populations, projections, answers = [], [], []
    parts = t["letters"].reshape(z.STREAMS, len(z.LETTER_DELAYS), z.RANK, z.LETTERS)
    table = np.einsum("sbr,strn->stbn", t["bytes"], parts)
    say = np.concatenate([t["recall"][0], t["direct"]], axis=1).reshape(z.STREAMS, z.WORDS + z.CONTEXT, SAID)

    def taps(source: str, target: str, weights: np.ndarray, bias: np.ndarray, delays: tuple[int, ...]) -> None:
        for k, (weight, delay) in enumerate(zip(weights, delays)):
            projections.append(Dense(source, target, np.ascontiguousarray(weight.T), None if k else bias[0], delay))

    def reads(name: str, source: str, size: int, neuron: Count | LI) -> None:
        populations.append(Population(name, (size,), neuron))
        projections.append(Dense(source, name, np.eye(size, dtype=np.float32)))
        answers.append((name, size))

    for s, stream in enumerate(STREAMS):
        letters, words, context, said = (f"{stream}_{part}" for part in ("letters", "words", "context", "says"))
        populations += [Population(letters, (z.LETTERS,), z.LETTER), Population(words, (z.WORDS,), z.WORD),
                        Population(context, (z.CONTEXT,), z.CONTEXT_NEURON), Population(said, (SAID,), z.SYNAPSE)]
        read = np.zeros((len(z.LETTER_DELAYS), INPUTS, z.LETTERS), np.float32)
        read[:, 256 * s:256 * (s + 1)] = table[s]
        taps(INPUT, letters, read, t["letters_bias"][s], z.LETTER_DELAYS)
        taps(letters, words, t["words"][s].reshape(-1, z.LETTERS, z.WORDS), t["words_bias"][s], z.WORD_DELAYS)
        taps(words, context, t["context"][s].reshape(-1, z.WORDS, z.CONTEXT), t["context_bias"][s], z.CONTEXT_DELAYS)
        projections.append(Dense(context, context, np.ascontiguousarray(t["recurrent"][s].T), delay=1))
        projections += [Dense(words, said, np.ascontiguousarray(say[s, :z.WORDS].T)),
                        Dense(context, said, np.ascontiguousarray(say[s, z.WORDS:].T))]
        answers.append((said, SAID))
    now = np.zeros((SAID, INPUTS), np.float32)
    now[:, BLOCKS[1]:BLOCKS[2]] = np.eye(SAID)
    populations += [Population("recall", (z.RECALL,), z.RECALLER), Population("evidence", (z.OUTPUTS,), HANDS_ON)]
    projections += [Dense(INPUT, "recall", now[:z.RECALL], t["recall_bias"][0, 0]),
                    Dense(INPUT, "evidence", now[z.RECALL:]),
                    Dense("recall", "evidence", np.ascontiguousarray(t["evidence"].T))]
    answers.append(("evidence", z.OUTPUTS))
    for stream in STREAMS:
        for part, size in (("words", z.WORDS), ("context", z.CONTEXT)):
            reads(f"{stream}_{part}_count", f"{stream}_{part}", size, Count())
    for stream in STREAMS:
        reads(f"{stream}_trace", f"{stream}_context", z.CONTEXT, z.TRACE)
    reads("recall_count", "recall", z.RECALL, Count())
    summed = np.zeros((z.CHOICE + z.VERBS, INPUTS), np.float32)
    summed[:, BLOCKS[2]:] = np.concatenate([t["choice"], t["verb"][:z.SUMMARY] / z.CHOICE_STEPS], axis=1).T
    populations.append(Population("choice", (z.CHOICE,), z.CHOOSER))
    projections.append(Dense(INPUT, "choice", summed[:z.CHOICE], t["choice_bias"]))
    reads("choice_count", "choice", z.CHOICE, Count())
    populations.append(Population("verb", (z.VERBS,), Count()))
    at_rest = np.array(z.AT_REST, np.float32) / z.CHOICE_STEPS
    projections += [Dense(INPUT, "verb", summed[z.CHOICE:], at_rest),
                    Dense("choice", "verb", np.ascontiguousarray(t["verb"][z.SUMMARY:].T) / z.CHOICE_STEPS)]
    answers.append(("verb", z.VERBS))
    total = sum(size for _, size in answers)
    populations.append(Population("answer", (total,), HANDS_ON))
    each, at = np.eye(total, dtype=np.float32), 0
    for name, size in answers:
        projections.append(Dense(name, "answer", np.ascontiguousarray(each[:, at:at + size])))
        at += size
    return Circuit("language", (INPUTS,), tuple(populations), tuple(projections), MICRO_STEP)

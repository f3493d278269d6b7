# SPDX-License-Identifier: Apache-2.0
"""Structure of the network of language: populations, delays, neurons and what its outputs stand for."""
from __future__ import annotations

from typing import Mapping, NamedTuple

import numpy as np

from brain_regions.membranes import ALIF, LI, LIF

BYTES = 256             # of a normalized sentence, at most
BEGIN, END = 2, 3       # the bytes around it (STX, ETX): where it begins and ends is heard, too
LONGEST = BYTES + 2

STREAMS = 2             # one reads from the front, one from the back
RANK = 24               # of the synapses from bytes to letters
LETTERS = 256           # per stream: with half as many the words hear too little, rates would carry more
WORDS = 160
CONTEXT = 128
RECALL = 160            # one population, behind both streams
STRIDE = 2              # bytes that are recalled in a micro-step
CHOICE = 96             # one population, to which all is summed up
CHOICE_STEPS = 10       # micro-steps that it takes
LETTER_DELAYS = (0, 1, 2, 3, 4)         # micro-steps, which are bytes
WORD_DELAYS = (0, 3, 6)
CONTEXT_DELAYS = (0, 8, 16)

LETTER = LIF(tau=0.0025)    # short: the delays bring the bytes before, and what is left of them is in the way
WORD = LIF(tau=0.0025)
CONTEXT_NEURON = ALIF(tau=0.030, tau_adaptation=0.400, adaptation=0.15)
RECALLER = LIF(tau=0.0025)
CHOOSER = LIF(tau=0.020)
SYNAPSE = LI(tau=0.010)     # of what both streams say to the recall
TRACE = LI(tau=0.100)   # of what the last bytes left behind
GAIN = 4.0              # of rates and traces, in the unit of the weights of the verb
COUNT_GAIN = 0.25       # of counts of the recall
SUMMARY = STREAMS * (WORDS + 2 * CONTEXT) + RECALL

# Outputs for each byte: what the word that it stands in is for, and what it says.
TARGET, AVOID = 0, 1    # against 0: for nothing
ACTION = slice(2, 8)    # go, find, stop, avoid, what cannot be done, a thing that is not known
NAMED_COLOR, NAMED_SHAPE = slice(8, 12), slice(12, 15)      # whatever it is for
OUTPUTS = 15
MEANINGS = ("no order", "go", "find", "stop", "only avoid", "exception", "relation", "ordinal", "two targets",
            "two avoided", "unknown", "cannot", "condition", "foreign")
"""Meanings that a sentence may have: the first as :class:`.understanding.Verb` numbers them, then why it is refused."""
REFUSED = 4             # the first meaning that is refused; "no order" is neither done nor refused
AT_REST = (1.0,) + (0.0,) * (len(MEANINGS) - 1)    # logits of the meanings without a spike: no order


class Sizes(NamedTuple):
    """Numbers of neurons: of letters, words and context in each stream, of recall and choice."""

    letters: int = LETTERS
    words: int = WORDS
    context: int = CONTEXT
    recall: int = RECALL
    choice: int = CHOICE

    @property
    def heard(self) -> int:
        """Neurons whose spikes the recall hears."""
        return STREAMS * (self.words + self.context)

    @property
    def said(self) -> int:
        """Number of outputs of a stream's synapses: to the recall, and past it to the evidence."""
        return self.recall + OUTPUTS

    @property
    def summary(self) -> int:
        """Length of the summary that the choice takes in."""
        return STREAMS * (self.words + 2 * self.context) + self.recall


BASE = Sizes()
"""Of the network that a region runs."""


def widened(factor: int) -> Sizes:
    """So many times the neurons: for training; a region runs :data:`BASE`."""
    return Sizes(*(factor * size for size in BASE))


def sizes_of(tensors: Mapping[str, np.ndarray]) -> Sizes:
    """Those of a network with these weights."""
    return Sizes(*(tensors[f"{name}_bias"].shape[-1] for name in Sizes._fields))

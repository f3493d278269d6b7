# SPDX-License-Identifier: Apache-2.0
"""Language: from a sentence in English or Japanese to what the robot is to do.

This region is conventional: a lexicon and a grammar, no neurons. It therefore counts no spikes and no
synaptic operations, and publishes no embedding. A spiking one takes its place behind the same ports and
messages.
"""
from brain_regions.language.grammar import Understanding, Verb, parse
from brain_regions.language.region import Language

__all__ = ["Language", "Understanding", "Verb", "parse"]

# SPDX-License-Identifier: Apache-2.0
"""Language: from a sentence in English or Japanese to what the robot is to do.

:class:`Language` is a spiking network that reads bytes, with the lexicon as check.
"""
from brain_regions.language.region import Language
from brain_regions.language.understanding import Understanding, Verb

__all__ = ["Language", "Understanding", "Verb"]

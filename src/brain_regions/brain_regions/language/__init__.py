# SPDX-License-Identifier: Apache-2.0
"""Language: from a sentence in English or Japanese to what the robot is to do.

:class:`Language` is a spiking network that reads bytes, with the lexicon as check. :class:`AnnLanguage` is its rate
twin, and :class:`GrammarLanguage` the conventional alternative, a grammar by hand; both stand behind the same ports.
"""
from brain_regions.language.grammar import Understanding, Verb, parse
from brain_regions.language.grammar_region import GrammarLanguage
from brain_regions.language.region import AnnLanguage, Language

__all__ = ["AnnLanguage", "GrammarLanguage", "Language", "Understanding", "Verb", "parse"]

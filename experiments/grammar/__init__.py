# SPDX-License-Identifier: Apache-2.0
"""A grammar of English and Japanese by hand, over the lexicon of the language region: the baseline of its network.

It is not installed: run what needs it at the top of the checkout. :class:`.region.GrammarLanguage` is a region.
"""
from experiments.grammar.parser import parse

__all__ = ["parse"]

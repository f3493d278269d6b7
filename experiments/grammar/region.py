# SPDX-License-Identifier: Apache-2.0
"""Language by rules: the conventional alternative to the spiking region, and its control.

It is a lexicon and a grammar (:mod:`experiments.grammar.parser`), and does not pretend otherwise: it has no
neurons, so it counts no spikes and no synaptic operations, and its features carry no embedding.
"""
from __future__ import annotations

import numpy as np

from brain_regions.language.goal import ID, Listener, codes, digest_of, features_of, next_number, remember
from experiments.grammar.parser import parse


class GrammarLanguage(Listener):
    """Publishes what the newest sentence asks for: at once, and again at ``rate`` for those who join late."""

    rate = 5.0

    def step(self, inbox, state, dt, rng):
        followed, early = self._listen(inbox, dt)
        if early:
            return {}, state
        sentence, self._unheard = self._unheard, None
        if sentence is not None:
            digest = digest_of(sentence)
            again = self._restored and np.array_equal(digest, state["digest"]) and followed <= state["goal"][ID]
            if not again:
                state = remember(next_number(state, followed), codes(sentence), digest, parse(sentence))
            self._restored = False
        if followed > state["goal"][ID]:
            return {}, state
        return {"features": features_of(state, self.features)}, state

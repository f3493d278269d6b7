# SPDX-License-Identifier: Apache-2.0
"""From what rules find to clips that are kept: each rule has its share of an hour, and some clips no rule has chosen.

Hours are counted from steps between two times that were heard, none longer than :data:`LONGEST_STEP`: a clock that
jumps, in either direction, lets nobody have more.
"""
from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, Sequence

import numpy as np

from brain_training.incremental.rules import (ALL, RANDOM, RANDOM_HARDNESS, RANDOM_LENGTH, RANDOM_SHARE, Heard,
                                              Rule)

HOUR = 3600.0
LONGEST_STEP = 10.0     # s that pass at most between two times that are heard
SHORTEST = 0.3          # s of a clip; what is left of one beside its neighbour may be too short
SPREAD = 4.0            # a rule has its hour's clips in no less than an hour by this number


class Chosen(NamedTuple):
    """A clip that is to be kept: the rule's name, its begin and end (s), and how hard it is (0 to 1)."""

    rule: str
    begin: float
    end: float
    hardness: float


@dataclass
class _Account:
    """Rate limit of a rule: clips an hour at most, s between two at least, and when (s that had passed) each was."""

    most: int
    apart: float = 0.0
    had: deque[float] = field(default_factory=deque)

    def may(self, elapsed: float) -> bool:
        """Tells whether the rule may have one more clip now."""
        while self.had and elapsed - self.had[0] >= HOUR:
            self.had.popleft()
        if len(self.had) >= self.most:
            return False
        return not self.had or elapsed - self.had[-1] >= self.apart


class Chooser:
    """Chooses clips from a stream, as it goes by.

    Args:
        rules: those that choose.
        most: clips an hour, all rules together.
        rng: of the clips that no rule chooses.

    Attributes:
        passed_over: by rule how often it found something that it had no share left for.
    """

    def __init__(self, rules: Sequence[Rule] = ALL, most: int = 60, rng: np.random.Generator | None = None) -> None:
        if most < 1:
            raise ValueError("at least one clip an hour must be kept")
        self._rules = tuple(rules)
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._random = max(1, math.floor(RANDOM_SHARE * most))
        # Those of a rule are spread out, so that the first minutes of an hour do not take all.
        self._accounts = {rule.name: _Account(count, HOUR / SPREAD / max(count, 1)) for rule in rules
                          for count in (math.floor(rule.share * most),)}
        self._accounts[RANDOM] = _Account(self._random)
        self._all = _Account(most)
        self._before: dict[type, Heard] = {}
        self._elapsed, self._last, self._kept_to = 0.0, math.nan, -math.inf
        self._pending: Chosen | None = None
        self._next_random = self._draw()
        self.passed_over: dict[str, int] = {}

    def _draw(self) -> float:
        return self._elapsed + float(self._rng.exponential(HOUR / self._random))

    def hear(self, heard: Heard) -> list[Chosen]:
        """Takes something in; returns the clips that are complete by then. A time that is no number is not heard."""
        if not math.isfinite(heard.at):
            return []
        ready = self.tick(heard.at)
        before, self._before[type(heard)] = self._before.get(type(heard)), heard
        for rank, rule in enumerate(self._rules):
            hardness = rule.finds(heard, before)
            if hardness > 0.0:
                self._want(rank, Chosen(rule.name, heard.at - rule.before, heard.at + rule.after,
                                        min(hardness, 1.0)))
                break
        return ready

    def tick(self, at: float) -> list[Chosen]:
        """Time has passed; returns the clips that are complete by then."""
        if not math.isfinite(at):
            return []
        step = 0.0 if math.isnan(self._last) else at - self._last
        self._last = at
        if step < 0.0:
            self._forget()
        self._elapsed += min(max(step, 0.0), LONGEST_STEP)
        ready = []
        if self._pending is not None and at > self._pending.end:
            ready = self._settle()
        if self._elapsed >= self._next_random:
            self._next_random = self._draw()
            self._want(len(self._rules), Chosen(RANDOM, at, at + RANDOM_LENGTH, RANDOM_HARDNESS))
        return ready

    def end(self) -> list[Chosen]:
        """The stream has ended; returns what was being waited for."""
        return self._settle()

    def _forget(self) -> None:
        """The clock was set back: what was being waited for, and what was heard before, have no time any more."""
        self._pending, self._kept_to = None, -math.inf
        self._before.clear()

    def _want(self, rank: int, one: Chosen) -> None:
        one = one._replace(begin=max(one.begin, self._kept_to))
        if one.end - one.begin < SHORTEST:
            return
        if self._pending is not None and rank >= self._rank(self._pending.rule):
            return      # it is of the same moment, or of one that is already being kept
        if not (self._accounts[one.rule].may(self._elapsed) and self._all.may(self._elapsed)):
            self.passed_over[one.rule] = self.passed_over.get(one.rule, 0) + 1
            return
        self._pending = one

    def _rank(self, name: str) -> int:
        return next((rank for rank, rule in enumerate(self._rules) if rule.name == name), len(self._rules))

    def _settle(self) -> list[Chosen]:
        one, self._pending = self._pending, None
        if one is None:
            return []
        for account in (self._accounts[one.rule], self._all):
            account.had.append(self._elapsed)
        self._kept_to = one.end
        return [one]

# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of parsers with hypothesis: how many examples, and how many of them get past a parser's first check.

``BRAIN_FUZZ=10000`` makes so many examples of each in place of a few hundred. What is drawn is the same each time that
the same modules are loaded (hypothesis likes to draw numbers that stand in their sources).
"""
from __future__ import annotations

import os
import random
import resource
import time
from typing import Any, Callable

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

EXAMPLES = 300
SHARE = 1 / 3           # of the examples that must get past the first check, or it is that check alone that is tried
LONGEST = 5.0           # s of the processor for one example, in the thread that tries it
MOST_MEMORY = 400e6     # B by which all examples together may make this process grow
VARIABLE = "BRAIN_FUZZ"


def examples(few: int = EXAMPLES) -> int:
    """Returns the number of examples to make: ``few``, or what the environment asks for."""
    return int(os.environ.get(VARIABLE, "0")) or few


def fuzz(try_one: Callable[[random.Random], bool], *, few: int = EXAMPLES, seeds: bool = False,
         share: float = SHARE) -> str:
    """Tries a parser with many examples.

    Args:
        try_one: makes one of random numbers and tries it; whether it got past the first check. What the parser must
            not raise comes out of it.
        few: examples where the environment does not ask for more.
        seeds: draw the seed alone with hypothesis. Faster for large examples, which then are not made smaller.
        share: that must get past the first check.

    Returns:
        A line of what was tried.
    """
    _read_sources()
    tried = passed = 0
    longest = 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def one(drawn: Any) -> None:
        nonlocal tried, passed, longest
        begin = time.thread_time()
        found = try_one(random.Random(drawn) if seeds else drawn)
        longest = max(longest, time.thread_time() - begin)
        tried += 1
        passed += found

    strategy = st.integers(0, 2**63) if seeds else st.randoms(use_true_random=False)
    settings(max_examples=examples(few), derandomize=True, deadline=None, database=None,
             suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate, Phase.shrink))(
                 given(strategy)(one))()
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    line = (f"{tried} examples, {100 * passed / tried:.0f} % past the first check, the longest took {longest:.2f} s of "
            f"the processor, {grown / 1e6:.0f} MB more")
    print(line)
    assert passed >= share * tried, line
    assert longest < LONGEST and grown < MOST_MEMORY, line
    return line


def _read_sources() -> None:
    """Has hypothesis read the sources of the modules that are loaded: it does so at one of its first draws.

    With all our packages loaded that takes some 5 s, which would count as the time of whatever example drew then.
    """
    settings(max_examples=20, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck),
             phases=(Phase.generate,))(given(st.lists(st.integers(), min_size=50, max_size=50))(lambda _: None))()

# SPDX-License-Identifier: Apache-2.0
"""Every collective gives the values that are computed otherwise, to the bit, and ranks leave no process behind."""
from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3, *(pytest.param(n, marks=pytest.mark.extended) for n in (4, 7))])
def test_values_of_every_collective_and_dtype(ranks, world):
    for said in ranks(world, "values.py").succeed():
        assert int(said.rpartition("checked ")[2]) > 1000


@pytest.mark.slow
def test_values_through_a_router(ranks, router):
    for said in ranks(3, "values.py", BRAIN_ROUTER=router.endpoint).succeed():
        assert int(said.rpartition("checked ")[2]) > 1000

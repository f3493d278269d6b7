# SPDX-License-Identifier: Apache-2.0
"""Graphs that name a region's class as it was called before are told its name of today."""
import importlib

import pytest

from brain_runtime.graph import GraphError, RegionSpec
from brain_runtime.moved import MOVED
from brain_runtime.region import Region
from brain_tests.cases import of_all


@of_all(MOVED)
def test_an_old_name_is_answered_with_one_that_loads(old):
    module, _, name = MOVED[old].partition(":")
    assert issubclass(getattr(importlib.import_module(module), name), Region)
    with pytest.raises(GraphError) as refused:
        RegionSpec("mine", old).load()
    assert f"{old} is now {MOVED[old]}" in str(refused.value)

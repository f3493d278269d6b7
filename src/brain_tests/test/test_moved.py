# SPDX-License-Identifier: Apache-2.0
"""Whoever names a region's class or a module as it was called before is told its name of today."""
import importlib
from importlib.metadata import EntryPoint

import pytest

from brain_runtime.graph import GraphError, RegionSpec
from brain_runtime.graph.moved import MOVED
from brain_runtime.contract.region import Region
from brain_tests.cases import of_all
from brain_wire import moved_modules


@of_all(MOVED)
def test_an_old_name_is_answered_with_one_that_loads(old):
    module, _, name = MOVED[old].partition(":")
    assert issubclass(getattr(importlib.import_module(module), name), Region)
    with pytest.raises(GraphError) as refused:
        RegionSpec("mine", old).load()
    assert f"{old} is now {MOVED[old]}" in str(refused.value)


@of_all(moved_modules.MOVED)
def test_an_old_module_is_answered_with_one_that_loads(old):
    new = moved_modules.MOVED[old]
    assert importlib.import_module(new)
    package, _, name = old.rpartition(".")
    by_package = f"from {package} import {name}" if package else f"import {old}.anything"
    for statement in (f"import {old}", by_package, f"from {old} import anything"):
        with pytest.raises(ModuleNotFoundError, match=f"{old} is now {new}; import that"):
            exec(statement)


def test_a_package_that_is_gone_is_answered_with_where_it_is_and_what_is_left_of_it_passed_over():
    for package, where in moved_modules.GONE.items():
        with pytest.raises(ModuleNotFoundError, match=f"there is no package {package} any more: {where}"):
            moved_modules._Finder.find_spec(package)
        old = EntryPoint("bench", f"{package}.verbs:app", "brain.commands")
        new = EntryPoint("bench", "brain_eval.bench.verb:app", "brain.commands")
        for points in ([old, new], [new, old]):
            assert moved_modules.without_gone(points) == {"bench": new}
        assert moved_modules.without_gone([old]) == {}

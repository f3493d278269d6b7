# SPDX-License-Identifier: Apache-2.0
"""Which tests `make check` runs for a change."""
from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "affected_tests.py"

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="the sources are not here")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("affected_tests", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("changed, has, has_not", [
    ("src/brain_runtime/brain_runtime/run/loop.py",
     {"brain_runtime/test_supervisor.py", "brain_tests/test_terminal.py", "brain_cloud/test_programs.py"},
     {"brain_wire/test_peers.py"}),      # any graph may have a region with shards, which it keeps
    ("src/brain_training/brain_training/task.py", {"brain_training/test_trainer.py"}, {"brain_wire/test_peers.py"}),
    ("src/brain_wire/brain_wire/cdr.py", {"brain_wire/test_peers.py", "brain_runtime/test_zenoh_host.py"}, set()),
    ("src/brain_sim/test/conftest.py", {"brain_sim/test_suite.py"}, {"brain_wire/test_peers.py"}),
    ("experiments/grammar/parser.py", {"grammar/test_grammar.py"}, {"brain_regions/test_language_decode.py"}),
    ("experiments/placement_plans.yaml", {"test/test_placement.py"}, {"brain_wire/test_peers.py"}),
    ("experiments/scale_model.py", {"test/test_scale.py"}, {"brain_wire/test_peers.py"}),
    ("src/brain_collectives/brain_collectives/checks/rank.py", {"test/test_collectives.py"}, set()),
    ("docs/fleet.md", {"brain_tests/test_docs.py"}, {"brain_wire/test_peers.py"})])
def test_a_change_has_those_tests_run_that_import_it(script, changed, has, has_not):
    found = {f"{test.relative_to(ROOT).parts[1]}/{test.name}" for test in script.affected({changed})}
    assert has <= found and not has_not & found


def test_what_any_test_may_read_has_all_of_them_run(script):
    for changed in ("conftest.py", "src/brain/brain/graphs/brain.yaml", "constraints.txt"):
        assert script.affected({changed}) is None

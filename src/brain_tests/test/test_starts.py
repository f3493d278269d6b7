# SPDX-License-Identifier: Apache-2.0
"""What verbs and launch files start is what the golden file says; see :mod:`brain_tests.starts` for how to renew it."""
import json

import pytest

from brain_tests import starts

GOLDEN = json.loads(starts.GOLDEN.read_text())


def test_launch_files_start_what_they_did():
    found = starts.launch_files()
    assert found.keys() == GOLDEN["launch"].keys()
    for name, nodes in found.items():
        assert json.loads(json.dumps(nodes)) == GOLDEN["launch"][name], name


@pytest.mark.slow
def test_commands_start_what_they_did():
    found = dict(starts.commands())
    assert found.keys() == GOLDEN["commands"].keys()
    for name, started in found.items():
        assert started == GOLDEN["commands"][name], name

# SPDX-License-Identifier: Apache-2.0
"""Actions and spikes are those of the golden file, on the machine that it was made on; and the oracle can tell."""
import json

import pytest

from brain_tests import oracle

KNOWN = json.loads(oracle.GOLDEN.read_text())


@pytest.mark.parametrize("index", [1, 4])
def test_an_episode_is_as_it_was(index):
    if KNOWN["machine"] != oracle.machine():
        pytest.skip(f"bits can be compared on one machine only, and the file was made on {KNOWN['machine']}")
    assert oracle.differences(KNOWN["episodes"][str(index)], oracle.run(index)) == []


def test_the_oracle_names_what_differs():
    known = KNOWN["episodes"]["1"]
    odd = {**known, "actions": "0", "spikes": {**known["spikes"], "pfc": "0"}}
    assert oracle.differences(known, known) == []
    assert oracle.differences(known, odd) == ["actions", "spikes of pfc"]

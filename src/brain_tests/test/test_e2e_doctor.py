# SPDX-License-Identifier: Apache-2.0
"""``brain doctor`` beside a whole brain with its simulated robot: all is well, until a region ends."""
import json

import pytest

from brain_tests.driven import running
from brain_tests.in_process import brain as verb

pytestmark = pytest.mark.slow


@pytest.fixture
def brain(tmp_path):
    yield from running(tmp_path)


def test_the_simulated_robot_and_its_brain_are_sound_and_a_region_that_ended_is_missed(brain, tmp_path):
    environment = {"ROS_DOMAIN_ID": str(brain.domain), "BRAIN_ROUTER": brain.router, "RMW_IMPLEMENTATION": "",
                   "XDG_STATE_HOME": str(tmp_path)}
    done = verb("doctor", "--robot", "sim", "--seconds", "3", "--json", environment=environment)
    assert done.returncode == 0 and json.loads(done.stdout)["findings"] == [], done.stdout + done.stderr
    assert verb("stop", "motor", environment=environment).returncode == 0
    done = verb("doctor", "--robot", "sim", "--seconds", "3", "--json", environment=environment)
    found = {(one["code"], one["subject"]) for one in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1
    assert ("region-missing", "/motor") in found or ("region-inactive", "/motor") in found, found

# SPDX-License-Identifier: Apache-2.0
"""Every way of ending leaves the robot at rest: seen by an outside subscriber on cmd_vel, while the brain drives."""
import os
import signal

import pytest

from brain_tests.driven import running
from brain_wire import messages
from brain_wire.services import service_type

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def brain(tmp_path_factory):
    yield from running(tmp_path_factory.mktemp("brain"))


def change(brain, label):
    """Asks the brainstem for a transition of its lifecycle; whether it was made."""
    kind = "lifecycle_msgs/srv/ChangeState"
    client = brain.node.client("brainstem/change_state", kind)
    try:
        request = messages.make(service_type(kind).request,
                                transition=messages.make("lifecycle_msgs/msg/Transition", label=label))
        return client.call(request, 30.0).success
    finally:
        brain.node.let_go(client)


def at_rest(brain):
    """Whether the last command is zero, and none came for a while."""
    brain.listen(0.5)
    last = brain.commands[-1]
    count = len(brain.commands)
    brain.listen(0.3)
    return last == (0.0, 0.0) and len(brain.commands) == count


def test_deactivated_and_cleaned_up(brain):
    brain.keep_moving()
    assert change(brain, "deactivate")
    assert at_rest(brain)
    assert change(brain, "cleanup") and at_rest(brain)
    assert change(brain, "configure") and change(brain, "activate")
    brain.keep_moving()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_brainstem_alone_is_told_to_end(brain, number):
    brain.keep_moving()
    before = brain.pid("brainstem")
    brain.commands.clear()
    os.kill(before, number)
    log = brain.folder / "logs" / "supervisor.log"
    brain.until(lambda: "brainstem ended: ended with status 0" in log.read_text(), "its end")
    brain.until(lambda: brain.alive("brainstem", not_pid=before), "another")
    # zeros came before the next one began, which begins with zeros too
    assert (0.0, 0.0) in brain.commands
    brain.keep_moving()


def test_a_region_that_it_needs_is_told_to_end(brain):
    brain.keep_moving()
    before = brain.pid("motor")
    brain.commands.clear()
    os.kill(before, signal.SIGTERM)
    brain.until(lambda: (0.0, 0.0) in brain.commands, "the brainstem to stop for motor")
    brain.until(lambda: brain.alive("motor", not_pid=before), "another")


def end_all(brain, number):
    """Tells `brain up` to end: the robot is at rest first, the world and the router go last, and none by force."""
    brain.keep_moving()
    told = brain.folder / "logs" / "supervisor.log"
    before = len(told.read_text().splitlines())
    brain.process.send_signal(number)
    assert brain.process.wait(30) == 0
    brain.listen(0.1)
    assert brain.commands[-1] == (0.0, 0.0)
    said = told.read_text().splitlines()[before:]
    ended = [line.split()[2] for line in said if " stopped: " in line]
    assert not [line for line in said if "SIGKILL" in line]
    assert ended.index("brainstem") > max(ended.index(n) for n in ("motor", "pfc"))
    assert ended.index("world") > ended.index("brainstem") and ended[-1] == "router"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_whole_brain_is_told_to_end(tmp_path, number):
    for other in running(tmp_path):
        end_all(other, number)


def test_a_brain_some_of_whose_regions_were_started_again_is_told_to_end(brain):
    """By Ctrl-C; it is the last test of this brain."""
    end_all(brain, signal.SIGINT)

# SPDX-License-Identifier: Apache-2.0
"""Every way of ending leaves the robot at rest: seen by an outside subscriber on cmd_vel, while the brain drives."""
import os
import signal
import subprocess
import sys
import time

import pytest

from brain_edge.state.brain import Brain as Node, NotNow
from brain_runtime.interfaces import Heartbeat
from brain_runtime.run.keeper import keepers
from brain_tests.driven import Brain, running
from brain_tests.processes import children, gone
from brain_wire import messages
from brain_wire.router import free_port
from brain_wire.services import service_type

PATIENCE = 240.0     # s; only ends a hang
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def brain(tmp_path_factory):
    yield from running(tmp_path_factory.mktemp("brain"))


def change(brain, label, name="brainstem"):
    """Asks a region for a transition of its lifecycle; whether it was made."""
    kind = "lifecycle_msgs/srv/ChangeState"
    client = brain.node.client(f"{name}/change_state", kind)
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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_the_brainstem_is_killed(brain, number):
    """Its second process has the robot stand, whoever starts it again and when."""
    brain.keep_moving()
    before = brain.pid("brainstem")
    brain.commands.clear()
    os.kill(before, number)
    brain.until(lambda: (0.0, 0.0) in brain.commands, "rest")
    brain.until(lambda: brain.alive("brainstem", not_pid=before), "another")
    assert f"process {before} is gone" in (brain.folder / "logs" / "brainstem.log").read_text()
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


def order(brain, *words):
    """Says it with `brain`; its exit status and what it prints."""
    done = subprocess.run([sys.executable, "-m", "brain", *words, "--router", brain.router, "--domain",
                           str(brain.domain)], capture_output=True, text=True, timeout=400)
    return done.returncode, done.stdout + done.stderr


def crash(brain, name, state):
    """Kills a region; waits until another process of it is in a state, and some time more: it stays there."""
    before = brain.pid(name)
    os.kill(before, signal.SIGKILL)
    brain.until(lambda: brain.pid(name) != before and brain.beats[name][1].state == state, f"{name} again")
    brain.listen(1.0)
    assert brain.beats[name][1].state == state


@pytest.mark.extended       # test_conformance_services shows it of each host with a toy
def test_what_was_ordered_stays_so_until_it_is_ordered_otherwise(brain):
    """Neither the supervisor, nor a spare process, nor a fleet that wants it active begins what was ended by order."""
    brain.keep_moving()
    assert change(brain, "shutdown") and at_rest(brain)
    brain.commands.clear()
    crash(brain, "brainstem", Heartbeat.STATE_FINALIZED)
    assert not brain.commands
    with pytest.raises(NotNow, match="finalized; it was ended by order.*brain start"):
        Node(brain.node).set_active("brainstem", True)
    assert Node(brain.node).set_active("brainstem", False) is False
    assert order(brain, "start", "brainstem") == (0, "brainstem is active\n")
    brain.keep_moving()
    crash(brain, "brainstem", Heartbeat.STATE_ACTIVE)
    assert order(brain, "stop", "motor")[0] == 0
    brain.until(lambda: brain.beats["motor"][1].state == Heartbeat.STATE_FINALIZED, "motor to end")
    brain.commands.clear()
    brain.listen(1.0)       # the brainstem says zeros while motor is not active
    assert set(brain.commands) == {(0.0, 0.0)}
    assert order(brain, "start", "motor")[0] == 0 and order(brain, "start", "motor")[0] == 0
    brain.keep_moving()
    assert change(brain, "deactivate", "motor")
    crash(brain, "motor", Heartbeat.STATE_INACTIVE)
    assert order(brain, "start", "motor")[0] == 0
    brain.keep_moving()
    status, says = order(brain, "stop", "hands")
    assert status == 1 and "hands is not heard in domain" in says and "Traceback" not in says


def end_all(brain, number):
    """Tells `brain up` to end: the robot is at rest first, the world and the router go last, and none by force."""
    brain.keep_moving()
    told = brain.folder / "logs" / "supervisor.log"
    before = len(told.read_text().splitlines())
    brain.process.send_signal(number)
    assert brain.process.wait(120) == 0
    brain.listen(0.1)
    assert brain.commands[-1] == (0.0, 0.0)
    said = told.read_text().splitlines()[before:]
    ended = [line.split()[2] for line in said if " stopped: " in line]
    assert not [line for line in said if "SIGKILL" in line]
    assert ended.index("brainstem") > max(ended.index(n) for n in ("motor", "pfc"))
    assert ended.index("world") > ended.index("brainstem") and ended[-1] == "router"


def test_a_brain_some_of_whose_regions_were_started_again_is_told_to_end(brain):
    """By Ctrl-C; it is the last test of this brain."""
    end_all(brain, signal.SIGINT)


@pytest.mark.extended
def test_the_whole_brain_is_told_to_end(tmp_path):
    for other in running(tmp_path):
        end_all(other, signal.SIGQUIT)


def left(brain):
    """Processes of a brain whose `brain up` was killed."""
    return [process for one in keepers() if one.process == brain.process.pid for process in one.kept]


def killed(brain, *more):
    """Kills `brain up`, and more processes with it; the robot comes to rest, then all have ended."""
    brain.keep_moving()
    brain.commands.clear()
    for process in (brain.process.pid, *more):
        os.kill(process, signal.SIGKILL)
    brain.until(lambda: (0.0, 0.0) in brain.commands, "rest")
    brain.process.wait()


def test_brain_up_is_killed_and_started_again_at_once(tmp_path):
    """The second time with its brainstem, which then cannot say the last word itself."""
    first = tmp_path / "first"
    first.mkdir()
    for brain in running(first):
        killed(brain)
        (tmp_path / "second").mkdir()
        other = Brain(tmp_path / "second", port=int(brain.router.rpartition(":")[2]))
        try:
            other.until(other.whole, "all regions")
            assert not left(brain)
            killed(other, other.pid("brainstem"))
            assert at_rest(other)
            other.until(lambda: not left(other), "the end of all")
        finally:
            other.close()


def test_it_ends_with_the_script_that_started_it(tmp_path):
    argv = [sys.executable, "-m", "brain", "up", "--with-parent", "--router", f"tcp/127.0.0.1:{free_port()}",
            "--run-dir", str(tmp_path)]
    script = subprocess.Popen([sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *argv])
    log = tmp_path / "logs" / "supervisor.log"
    until = time.monotonic() + PATIENCE
    while not (log.exists() and "router started" in log.read_text()):
        assert time.monotonic() < until and script.poll() is None
        time.sleep(0.1)
    (up,) = children(script.pid)
    script.kill()
    script.wait()
    while not gone(up):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert "router stopped" in log.read_text()

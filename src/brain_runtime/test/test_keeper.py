# SPDX-License-Identifier: Apache-2.0
"""What launch started ends when launch is gone: real processes, of which one plays launch and is killed."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from brain_runtime.run import keeper
from brain_runtime.run.keeper import VARIABLE, lives, mark
from brain_wire.router import free_port, is_router

PATIENCE = 120.0     # s
# Starts the command with its own mark, as launch does, and writes its child's process id.
LAUNCH = """
import os, subprocess, sys, time
from brain_runtime.run.keeper import ROUTER, told
more = told(ROUTER) if sys.argv[1] == "told" else {}
child = subprocess.Popen(sys.argv[3:], env={**os.environ, **more})
open(sys.argv[2], "w").write(str(child.pid))
child.wait()
time.sleep(600)
"""
# A program of ours: says when it is ready, and how it was ended.
OURS = """
import signal, sys, time
from brain_runtime.run.keeper import end_with_keeper
def end(number, frame):
    open(sys.argv[1], "a").write(f"ended by {number}")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
end_with_keeper()
open(sys.argv[1], "a").write("ready ")
time.sleep(600)
"""


def until(condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)
    return found


def text(file):
    return file.read_text() if file.exists() else ""


class Launch:
    """A process that plays launch."""

    def __init__(self, folder, *command, told=True):
        self._file = folder / "pid"
        self._file.unlink(missing_ok=True)
        self.process = subprocess.Popen([sys.executable, "-c", LAUNCH, "told" if told else "not told", self._file,
                                         *command])
        self.child = int(until(lambda: text(self._file)))

    def kill(self):
        self.process.kill()     # and is not asked for its status: a launch's parent may never do so

    def close(self):
        self.process.kill()
        self.process.wait()
        try:
            os.kill(self.child, signal.SIGKILL)
        except ProcessLookupError:
            return


@pytest.fixture
def launch(tmp_path):
    made = []

    def start(*command, **how):
        made.append(Launch(tmp_path, *command, **how))
        return made[-1]

    yield start
    for one in made:
        one.close()


def gone(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_mark_names_one_process_and_no_later_one_of_the_same_id():
    assert lives(mark())
    assert not lives(f"{os.getpid()}:1")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = mark(child.pid)
    assert lives(name)
    child.kill()
    until(lambda: not lives(name))      # though nobody has asked for its status
    child.wait()
    assert not lives(name)


@pytest.mark.parametrize("by_kernel", [True, False])
def test_ours_ends_in_good_order_when_launch_was_killed(launch, tmp_path, by_kernel):
    said = tmp_path / "said"
    code = OURS if by_kernel else OURS.replace("end_with_keeper()", "import os; del os.pidfd_open; end_with_keeper()")
    started = launch(sys.executable, "-c", code, said)
    until(lambda: text(said) == "ready ")
    started.kill()
    until(lambda: text(said) == f"ready ended by {int(signal.SIGTERM)}")
    until(lambda: gone(started.child))


def test_ours_goes_on_where_it_was_not_told_of_a_launch(launch, tmp_path):
    said = tmp_path / "said"
    started = launch(sys.executable, "-c", OURS, said, told=False)
    environment = {**os.environ, VARIABLE: mark(started.process.pid)}
    told = subprocess.Popen([sys.executable, "-c", OURS, tmp_path / "told"], env=environment)
    until(lambda: text(said) == text(tmp_path / "told") == "ready ")
    started.kill()
    started.process.wait()
    assert told.wait(PATIENCE) == 0     # by then the other would have ended too
    assert text(said) == "ready " and not gone(started.child)


def test_ours_ends_where_launch_was_gone_before_it_looked(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = mark(child.pid)
    child.kill()
    child.wait()
    said = tmp_path / "said"
    subprocess.run([sys.executable, "-c", OURS, said], env={**os.environ, VARIABLE: name}, timeout=PATIENCE, check=True)
    assert "ended by 15" in text(said)


def test_a_signal_that_came_before_the_main_thread_slept_is_not_lost(tmp_path):
    said = tmp_path / "said"
    code = """
import ctypes, time
send = signal.pthread_kill
def just_before(thread, number):    # the interpreter has it, and the kernel sleeps on all the same
    if number != signal.SIGTERM:
        return send(thread, number)
    time.sleep(0.5)     # the main thread sleeps by then
    ctypes.pythonapi.PyErr_SetInterruptEx(number)
signal.pthread_kill = just_before
end_with_keeper()
"""
    done = subprocess.run([sys.executable, "-c", OURS.replace("end_with_keeper()\n", code), said], timeout=PATIENCE,
                          env={**os.environ, VARIABLE: f"{os.getpid()}:1"})
    assert done.returncode == 0 and text(said) == f"ready ended by {int(signal.SIGTERM)}"


def test_what_does_not_end_is_ended(tmp_path):
    said = tmp_path / "said"
    code = OURS.replace("def end(", "import brain_runtime.run.keeper as w; w.PATIENCE = 1.0\ndef end(").replace(
        "    sys.exit(0)\n", "")
    done = subprocess.run([sys.executable, "-c", code, said], env={**os.environ, VARIABLE: f"{os.getpid()}:1"},
                          timeout=PATIENCE)
    assert done.returncode == keeper.LEFT and "ended by 15" in text(said)


@pytest.mark.parametrize("name", ["x", "1", "1:x", ":"])
def test_a_name_that_is_none_is_told_and_left_alone(name, caplog):
    assert keeper.end_with_keeper(name) is None
    assert "names no process" in caplog.text


# -- programs that are not ours ---------------------------------------------------------------------------------------

def kept(*command):
    return (sys.executable, "-m", "brain_runtime.with_launch", *command)


def children(process):
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")
            if not gone(folder.name) and (folder / "stat").read_text().rpartition(")")[2].split()[1] == str(process)]


def command(process):
    return Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")


def routers(process):
    """Children that are routers, without the second process of the one that keeps them."""
    return [child for child in children(process) if "brain_wire.router" in command(child)
            and "brain_runtime.with_launch" not in command(child)]


def test_a_program_that_knows_nothing_of_it_ends_with_launch(launch):
    started = launch(*kept("sleep", "600"))
    (program,) = until(lambda: children(started.child))
    until(lambda: Path(f"/proc/{program}/comm").read_text() == "sleep\n")
    started.kill()
    until(lambda: gone(program) and gone(started.child))


def test_it_ends_with_its_keeper_however_that_ends(launch):
    started = launch(*kept("sleep", "600"))
    (program,) = until(lambda: children(started.child))
    until(lambda: Path(f"/proc/{program}/comm").read_text() == "sleep\n")
    os.kill(started.child, signal.SIGKILL)
    until(lambda: gone(program))


def test_the_exit_status_is_the_programs():
    assert subprocess.run(kept(sys.executable, "-c", "raise SystemExit(5)")).returncode == 5
    assert subprocess.run(kept(), capture_output=True).returncode == 2


def test_a_router_that_cannot_run_is_not_started_for_ever(tmp_path):
    tries = tmp_path / "tries"
    done = subprocess.run(kept("--router", "sh", "-c", f"echo again >>{tries}; exit 1"), timeout=PATIENCE,
                          capture_output=True, text=True)
    assert done.returncode == 1 and text(tries) == "again\n" * 3
    assert "sh given up: ended with status 1; that was 3 times in a row" in done.stderr


def test_a_router_is_back_after_its_death_and_outlives_the_regions(tmp_path):
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    environment = {**os.environ, VARIABLE: mark()}
    region = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                              env={**environment, **keeper.told(keeper.MOVER)})
    router = subprocess.Popen(kept("--router", sys.executable, "-m", "brain_wire.router", "--listen", endpoint),
                              env=environment)
    try:
        until(lambda: is_router(endpoint))
        assert keeper.before(keeper.ROUTER, mark()) == [region.pid]
        (first,) = routers(router.pid)
        os.kill(first, signal.SIGKILL)
        until(lambda: is_router(endpoint) and routers(router.pid) not in ([], [first]))
        router.send_signal(signal.SIGINT)
        time.sleep(0.7)
        assert is_router(endpoint), "the regions' last words would not get through"
        region.kill()
        region.wait()
        assert router.wait(PATIENCE) == 0 and not is_router(endpoint)
    finally:
        for process in (region, router):
            process.kill()
            process.wait()


def test_a_router_whose_keeper_was_killed_ends_after_the_launch_and_what_moves(launch):
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    started = launch(*kept("--router", sys.executable, "-m", "brain_wire.router", "--listen", endpoint))
    until(lambda: is_router(endpoint))
    (router,) = routers(started.child)
    mover = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={
        **os.environ, VARIABLE: mark(started.process.pid), keeper.TURN: str(keeper.MOVER)})
    try:
        os.kill(started.child, signal.SIGKILL)
        until(lambda: gone(started.child))
        started.kill()
        time.sleep(1.0)
        assert is_router(endpoint), "the last word would not get through"
    finally:
        mover.kill()
        mover.wait()
    until(lambda: gone(router) and not is_router(endpoint))


def test_whoever_begins_waits_for_what_a_keeper_that_is_gone_left_behind():
    left = {**os.environ, VARIABLE: f"{os.getpid()}:1", keeper.TURN: str(keeper.MOVER), "ROS_DOMAIN_ID": "77"}
    mover = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=left)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={**left, keeper.TURN: ""})
    waited = []

    def wait(seconds):
        waited.append(seconds)
        mover.kill()
        mover.wait()
    try:
        until(lambda: any(one.kept == [mover.pid, other.pid] or one.kept == [other.pid, mover.pid]
                          for one in keeper.keepers() if not one.lives and one.domain == 77))
        assert keeper.wait_for_the_last(76, wait) == [] and not waited
        assert keeper.wait_for_the_last(77, wait) == [] and len(waited) == 1
        assert other.poll() is None
    finally:
        for process in (mover, other):
            process.kill()
            process.wait()

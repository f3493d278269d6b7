# SPDX-License-Identifier: Apache-2.0
"""The second process says the last word where the first cannot: real processes, killed in every way."""
import os
import signal
import subprocess
import sys
import time

import pytest

from brain_runtime.run import keeper
from brain_wire.endings import ENDINGS

PATIENCE = 120.0     # s
FIRST = """
import os, sys, time
from brain_runtime.run.ending import Ending
from brain_runtime.run.second import stand_behind
said = lambda word: os.write(1, word.encode() + b" ")
ending = Ending()
def join():
    os.write(2, b"joins ")
    return lambda: os.write(2, b"leaves ")
first = stand_behind(join)
if first is None:
    said("second")
else:
    ending.first = first
    first.moving(False)
    first.moving(True)
    said("up")
    while not ending.asked.wait(0.1):   # as hosts do: a signal just before the thread sleeps does not wake it
        pass
    said("first")
    first.moving(False)
"""


@pytest.fixture
def first():
    """Starts a first process, with more of an environment."""
    started = []

    def start(**environment):
        process = subprocess.Popen([sys.executable, "-c", FIRST], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**os.environ, keeper.VARIABLE: "", **environment})
        started.append(process)
        assert process.stdout.read(3) == b"up "
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def words(process):
    """What is said until both processes have ended."""
    return process.stdout.read().decode().split()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS])
def test_it_speaks_for_one_that_was_killed(first, number):
    process = first()
    process.send_signal(number)
    assert words(process) == ["second"]
    told = process.stderr.read()
    assert told.startswith(b"joins ") and b"leaves" not in told     # it says its word there, and leaves by itself


def test_it_is_silent_where_the_first_has_ended_in_good_order(first):
    for number in ENDINGS:
        process = first()
        process.send_signal(number)
        assert words(process) == ["first"], signal.Signals(number).name
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == b"joins leaves "


def test_what_ends_the_group_of_the_first_leaves_it(first):
    process = first()
    os.kill(process.pid, signal.SIGSTOP)
    # as a terminal does it; the first itself is killed after that
    for child in children(process.pid):
        os.kill(child, signal.SIGTERM)
    process.kill()
    assert words(process) == ["second"]


def children(process):
    return [int(child) for child in open(f"/proc/{process}/task/{process}/children").read().split()]


def test_a_first_that_hangs_when_its_keeper_is_gone_is_ended(first):
    kept = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = first(**{keeper.VARIABLE: keeper.mark(kept.pid)})
    other = first(**{keeper.VARIABLE: keeper.mark(kept.pid)})
    process.send_signal(signal.SIGSTOP)
    kept.kill()
    kept.communicate()
    assert words(process) == ["second"] and process.wait(PATIENCE) == -signal.SIGKILL
    assert words(other) == ["second"]   # that does not attend to its keeper at all


def test_one_whose_second_was_killed_goes_on(first):
    process = first()
    (second,) = children(process.pid)
    os.kill(second, signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while " Z " not in open(f"/proc/{second}/stat").read() and time.monotonic() < until:
        time.sleep(0.02)
    process.terminate()
    assert words(process) == ["first"] and process.wait(PATIENCE) == 0

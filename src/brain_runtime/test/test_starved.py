# SPDX-License-Identifier: Apache-2.0
"""Time that a process waited for a processor is not held against it."""
import os
import subprocess
import sys
import time

import pytest

from brain_runtime.run.cpu_wait import LEAST, CpuWait

CROWD = 4


@pytest.fixture
def start():
    started = []

    def begin(code):
        started.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE))
        started[-1].stdout.readline()
        return started[-1].pid

    yield begin
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def look(cpu_wait, seconds=1.0):
    """Share of the time that counts."""
    cpu_wait.counts(0.0)
    begun = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - begun
    return cpu_wait.counts(passed) / passed


def test_of_one_among_many_on_one_core_little_counts(start):
    core = min(os.sched_getaffinity(0))
    crowd = [start(f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass")
             for _ in range(CROWD)]
    assert LEAST <= look(CpuWait(crowd[0]), 2.0) < 0.7


def test_of_one_that_is_blocked_or_stopped_everything_counts(start):
    pid = start("import time\nprint(flush=True)\ntime.sleep(600)")
    cpu_wait = CpuWait(pid)
    assert look(cpu_wait) == pytest.approx(1.0, abs=0.05)
    os.kill(pid, 19)
    assert look(cpu_wait) == pytest.approx(1.0, abs=0.05)


def test_a_process_that_has_ended_counts_in_full():
    assert CpuWait(2 ** 22 + 1).counts(0.1) == 0.1

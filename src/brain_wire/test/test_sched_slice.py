# SPDX-License-Identifier: Apache-2.0
"""Short slices of the processor, as Linux tells them back."""
import os
import platform
import subprocess
import sys

import pytest

from brain_wire.sched_slice import SLICE, slice_of

linux = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in platform.release().split(".")[:2])
pytestmark = pytest.mark.skipif(linux < (6, 12), reason="slices are a thread's own from Linux 6.12 on")
PROGRAM = """
import os, sys, threading
from brain_wire.sched_slice import ask_for_short_slices, slice_of
if sys.argv[1] == "batch":
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
os.nice(int(sys.argv[2]))
print(slice_of(), ask_for_short_slices())
thread = threading.Thread(target=lambda: print(slice_of()))
thread.start()
thread.join()
print(os.sched_getscheduler(0) == os.SCHED_OTHER, os.nice(0))
"""


def ask(policy, nice):
    """What a process of its own says: its slice, yes or no, that of a thread it starts after, its policy and nice."""
    ran = subprocess.run([sys.executable, "-c", PROGRAM, policy, str(nice)], capture_output=True, text=True, timeout=60,
                         check=True)
    return ran.stdout.split()


@pytest.mark.parametrize("nice", [0, 7])
def test_threads_have_the_slice_that_was_asked_for_and_nothing_else_changes(nice):
    before, said, took, other, level = ask("other", nice)
    assert (said, int(took), other, int(level)) == ("True", SLICE, "True", os.nice(0) + nice)
    assert int(before) != SLICE     # it had to ask


def test_a_chosen_policy_stays():
    before, said, took, other, _ = ask("batch", 0)
    assert said == "False" and took == before != str(SLICE) and other == "False"


def test_a_thread_that_is_not_there_is_told():
    with pytest.raises(OSError, match="slices"):
        slice_of(2**22 + 1)

# SPDX-License-Identifier: Apache-2.0
"""A process that trains keeps what it frees: counted by the kernel, in a process of its own."""
import os
import subprocess
import sys

import pytest

from brain_training import freed_memory

COUNTED = """
import resource, sys
import torch
from brain_training import freed_memory
torch.set_num_threads(1)
print(freed_memory.keep() if sys.argv[1] == "kept" else None)
def step():
    made = [torch.ones(2**21) for _ in range(8)]    # of 8 MiB each
    return sum(one.sum() for one in made).item()
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 20)
"""


def counted(how, **more):
    kept = {name: value for name, value in os.environ.items() if name not in freed_memory.SET}
    told = subprocess.run([sys.executable, "-c", COUNTED, how], env={**kept, **more},
                          capture_output=True, text=True, check=True, timeout=300)
    kept, pages = told.stdout.split()
    return kept, int(pages)


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="the C library is not glibc")
def test_a_step_has_its_memory_from_the_one_before():
    page = os.sysconf("SC_PAGE_SIZE")
    least = 8 * 2**23 // page
    kept, pages = counted("kept")
    assert kept == "True" and pages < least / 20
    # One who has said how memory is to be had is not overruled; and without it each page is had anew.
    kept, pages = counted("kept", MALLOC_MMAP_THRESHOLD_="1048576", MALLOC_TRIM_THRESHOLD_="1048576")
    assert kept == "False" and pages > least / 2

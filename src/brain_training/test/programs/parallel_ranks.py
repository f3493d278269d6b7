# SPDX-License-Identifier: Apache-2.0
"""Starts the programs beside this one as ranks, and reads what rank 0 printed."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import parallel_forms
from several import several

PROGRAMS = Path(__file__).parent


def ranks(count, program, *args):
    """What rank 0 of so many printed, by torchrun."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count),
         str(PROGRAMS / program), *map(str, args)],
        capture_output=True, text=True, timeout=220, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def forms(count, backend, *wanted):
    """Hash of the weights by form, and what was held."""
    lines = [line[1:] for line in ranks(count, "parallel_forms.py", backend, *wanted) if line[0] == "form"]
    return by_form(lines, wanted)


def forked_forms(folder, count, backend, *wanted):
    """The same by ranks that are forked and meet in a folder, of a training of fewer steps."""
    return by_form(several(folder, count, parallel_forms.trained, backend, list(wanted), backend=backend)[0], wanted)


def by_form(lines, wanted):
    assert [line[0] for line in lines] == list(wanted)
    return {line[0]: line[1] for line in lines}, {line[0]: line[4:7] for line in lines}

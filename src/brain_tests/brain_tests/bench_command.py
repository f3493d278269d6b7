# SPDX-License-Identifier: Apache-2.0
"""Calls of `brain bench`, as a user makes them."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def bench(*arguments: str) -> tuple[Any, bool]:
    """Calls ``brain bench ARGUMENTS --json``.

    Returns:
        Its figures, and whether its bounds are kept.

    Raises:
        AssertionError: it measured nothing; says what it wrote.
    """
    done = subprocess.run([sys.executable, "-m", "brain", "bench", *arguments, "--json"],
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode == 0

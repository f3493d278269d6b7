# SPDX-License-Identifier: Apache-2.0
"""Verbs of `brain` in this process, for who looks again and again: what a verb imports, each process imports anew.

That each verb is a command too, tests show that start it as a process.
"""
from __future__ import annotations

import os
import subprocess
from typing import Mapping
from unittest import mock

from typer.testing import CliRunner

from brain.cli import app

INTERRUPTED = 130       # exit status of a verb


def brain(*words: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a verb with these variables of the environment; what a process of it would leave.

    Raises:
        KeyboardInterrupt: whoever runs the tests ended it by Ctrl-C, which the verb took for its own.
    """
    with mock.patch.dict(os.environ):   # a verb may change it, which would end with its process
        done = CliRunner().invoke(app, list(words), env={"BRAIN_SECURITY": "", **environment})
    if done.exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    return subprocess.CompletedProcess(["brain", *words], done.exit_code, done.stdout, done.stderr)

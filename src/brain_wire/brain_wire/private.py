# SPDX-License-Identifier: Apache-2.0
"""Folders and files that their owner alone may read, as logs, states and checkpoints: they tell what a robot saw.

A folder that is there already keeps its mode, which is its owner's to choose; so does a file that is appended to.
"""
from __future__ import annotations

import os
from pathlib import Path


def folder(path: Path) -> Path:
    """A folder, made where it is missing, with those above it. Raises OSError, or ValueError for a zero byte in it."""
    for one in (*reversed(path.parents), path):
        if not one.is_dir():
            one.mkdir(mode=0o700, exist_ok=True)
    return path


def opener(name: str, flags: int) -> int:
    """For the ``opener`` of :func:`open`: what is made by it is its owner's alone."""
    return os.open(name, flags, 0o600)

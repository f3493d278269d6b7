# SPDX-License-Identifier: Apache-2.0
"""Check that pictures can be drawn, made before long work begins."""
from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from brain_runtime.command.lacking import lacks
from brain_runtime.command.options import fail


def check(folder: Path | None) -> None:
    """Ends the command where pictures could not be drawn into the folder, which is made; None: none are asked for."""
    if folder is None:
        return
    if find_spec("matplotlib") is None:
        fail(lacks("matplotlib"), 2)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot write to {folder}: {error.strerror}; name another folder", 2)

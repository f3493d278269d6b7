# SPDX-License-Identifier: Apache-2.0
"""The start of the ``brain`` command: a package that is not installed is named, with the remedy, in one line."""
from __future__ import annotations

import signal
import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        # Who changes their mind while it is being loaded is told nothing of where that was.
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
        from brain.cli import main as run

        signal.signal(signal.SIGINT, before)
        run()
    except ModuleNotFoundError as missing:
        if "." in (missing.name or "."):
            raise   # a module within a package that is there: not a matter of installing
        from brain_runtime.command.lacking import lacks

        sys.exit(f"brain: {lacks(str(missing.name))}")

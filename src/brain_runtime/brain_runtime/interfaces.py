# SPDX-License-Identifier: Apache-2.0
"""The interfaces of a brain: where the definitions of brain_interfaces are, and its types made known to brain_wire."""
from __future__ import annotations

from pathlib import Path

from brain_runtime.share import share_directory
from brain_wire.definitions import register

PACKAGE = "brain_interfaces"


def definitions() -> Path:
    """Folder of brain_interfaces that holds ``msg/``; FileNotFoundError, with the remedy, if it is not installed."""
    return share_directory(PACKAGE)


register(PACKAGE, definitions)

# SPDX-License-Identifier: Apache-2.0
"""A robot's own recordings as training data: bags of rosbag2 (MCAP, sqlite3), split by recording."""
from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Bags(NamedTuple):
    """Recordings that are trained on.

    Attributes:
        folders: with recordings; see :mod:`.library`.
        labels: topic of labels in them, or ``self``; see :mod:`.reading`.
        share: of the clips that are recorded; the others are the simulator's.
    """

    folders: tuple[Path, ...]
    labels: str = "self"
    share: float = 1.0

# SPDX-License-Identifier: Apache-2.0
"""Pictures of others that a training of vision shows, and where each is from: none is one that is scored.

Vision learns from pictures that the simulator makes, and from recordings that a robot's owner names. Whoever adds a
picture of somebody's (a texture, a background) lists it here, with the hash of its bytes: a test finds files that are
not listed, and refuses those that ``brain score`` is to judge by, whole or in part, and their sources.
"""
from __future__ import annotations

from typing import NamedTuple


class Source(NamedTuple):
    """A picture of somebody's that a training shows.

    Attributes:
        source: what it is from, with its version, as ``some-package 1.2``.
        path: of the file, from ``src/`` where it lies here, else in its source.
        sha256: of its bytes (hex).
        licence: of it.
    """

    source: str
    path: str
    sha256: str
    licence: str


# Ours, and no training shows it: things that a robot is taught are told from what it shows.
PICTURES = (Source("brain_training.surroundings", "brain_regions/brain_regions/vision/weights/surroundings.png",
                   "c8de793bff081f43d7e86e6deb8aa0d9ba6469448118f24382ca5a818c41a464", "Apache-2.0"),)

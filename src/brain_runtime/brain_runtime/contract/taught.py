# SPDX-License-Identifier: Apache-2.0
"""Things that a robot was taught: their numbers in messages, their names, and the file that they are kept in.

A taught thing has no color, and as shape its own number from :data:`FIRST` on. The file holds level pictures and where
the thing is in each; what vision makes of them depends on its weights, and is made anew.
"""
from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path

from brain_runtime.share import state_home

FIRST, MOST = 128, 8        # number of the first thing, and how many there can be
FORMAT = "brain-taught-1"
NAMES = "names"             # of the file's metadata: JSON of names by number
_NAME = re.compile(r"[^\W\d_]{2,24}")
_HEADER = 2**20             # bytes of the file's header at most


class TaughtError(ValueError):
    """A thing cannot be taught, or a file of taught things cannot be read; says why, and the remedy, in one line."""


def file() -> Path:
    """Returns the path of the robot's file."""
    return state_home() / "taught.safetensors"


def checked(name: str) -> str:
    """The name as it is kept. Raises TaughtError where it is none."""
    name = name.strip().casefold()
    if not _NAME.fullmatch(name):
        raise TaughtError(f"{name[:40]!r} is no name: use one word of 2 to 24 letters, as mug")
    return name


def names(path: Path | None = None) -> dict[int, str]:
    """Names of taught things by number; none where there is no file.

    Raises:
        TaughtError: it cannot be read.
    """
    path = path or file()
    try:
        told = path.stat()
    except OSError:
        return {}
    return dict(_names(path, told.st_mtime_ns, told.st_size))


@lru_cache(maxsize=4)
def _names(path: Path, changed: int, size: int) -> dict[int, str]:
    wrong = f"the file of taught things {path} is torn or none; take it away, and teach them again"
    try:
        with open(path, "rb") as data:
            length = int.from_bytes(data.read(8), "little")
            if length > _HEADER:
                raise TaughtError(wrong)
            said = json.loads(data.read(length))["__metadata__"]
        if said["format"] != FORMAT:
            raise TaughtError(f"the file of taught things {path} is of format {said['format']!r}, but {FORMAT} is "
                              f"needed; teach them again")
        found = {int(number): checked(name) for number, name in json.loads(said[NAMES]).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise error if isinstance(error, TaughtError) else TaughtError(wrong) from error
    if not all(FIRST <= number < FIRST + MOST for number in found):
        raise TaughtError(wrong)
    return found


def name_of(number: int) -> str:
    """Name of a taught thing for people; ``taught thing 1`` where its file is not here."""
    try:
        return names().get(number, f"taught thing {number - FIRST + 1}")
    except TaughtError:
        return f"taught thing {number - FIRST + 1}"

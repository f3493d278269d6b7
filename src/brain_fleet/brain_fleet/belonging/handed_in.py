# SPDX-License-Identifier: Apache-2.0
"""Hard clips that robots have handed in, as a list that trainings read; and, on a robot, which clips have left it.

The list is a text, a path a line, and only grows: what counts its lines, as Sedna's jobs do, knows which are new. What
a line names is a link to the file in the depot, which is deleted when its time is over; the line then names nothing.
"""
from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Callable

from brain_fleet.blobs.store import write_whole

LIST = "clips.txt"
SENT = ".sent"
LARGEST = 10_000    # bytes of what is told of a file
_CLIP = re.compile(r"hard-(?P<robot>[A-Za-z0-9_.-]{1,64})-(?P<drive>[A-Za-z0-9_]{1,40})-(?P<number>\d{1,9})-"
                   r"[a-z_]{1,20}-\d{1,3}\.mcap")


def gather(depot: Path, into: Path, tell: Callable[[str], None]) -> list[str]:
    """Adds the clips that have come since the last time to the list; returns their names.

    Args:
        depot: the cloud's folder of what robots have handed in.
        into: where the list is, and the links.
        tell: told what is left out, and why.

    Raises:
        OSError: the folder cannot be read, or the list not written.
    """
    into.mkdir(parents=True, exist_ok=True, mode=0o700)
    listed = into / LIST
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    known, new = set(lines), []
    for about in sorted(depot.glob("*/*.json")):
        name, why = _clip(about)
        if why:
            tell(f"{about.parent.name}: {why}")
        if name and name not in known:
            link = into / name
            part = into / f".{name}.part"
            part.unlink(missing_ok=True)
            part.symlink_to(about.with_suffix(".data").absolute())
            os.replace(part, link)
            known.add(name)
            new.append(name)
    new.sort(key=_order)    # those of a drive together: a list that is divided in two then divides few drives
    if new:
        # readable for all: jobs read it, as whoever they run
        write_whole(listed, "".join(f"{line}\n" for line in (*lines, *new)).encode(), 0o644)
    return new


def _order(name: str) -> tuple[str, str, int]:
    found = _CLIP.fullmatch(name)
    assert found is not None    # else it would not have been taken
    return found["robot"], found["drive"], int(found["number"])


def _clip(about: Path) -> tuple[str, str]:
    """Name of the clip that a robot has handed in, or else why something is none; both empty: it is something else."""
    try:
        with about.open("rb") as file:
            told = json.loads(file.read(LARGEST))
        name, kind = str(told["name"]), str(told["kind"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "", f"{about.name} does not tell what was handed in"
    found = _CLIP.fullmatch(name)
    if found is None or kind != "recordings":
        return "", ""
    if found["robot"] != about.parent.name:
        return "", f"{name} says that it is {found['robot']}'s, and is left out: a robot speaks for itself only"
    return (name, "") if about.with_suffix(".data").exists() else ("", "")


def unsent(clips: Path) -> list[Path]:
    """Clips in a robot's folder that have not left it, the oldest first. Raises OSError."""
    sent = _sent(clips)
    found = [path for path in clips.iterdir() if _CLIP.fullmatch(path.name) and path.name not in sent]
    return sorted(found, key=lambda path: _order(path.name)[2])


def remember(clips: Path, name: str) -> None:
    """A clip has left; those that are not there any more are forgotten. Raises OSError."""
    names = [one for one in sorted(_sent(clips)) if (clips / one).exists()]
    write_whole(clips / SENT, "".join(f"{one}\n" for one in (*names, name)).encode())


def _sent(clips: Path) -> set[str]:
    file = clips / SENT
    return set(file.read_text(encoding="utf-8").splitlines()) if file.exists() else set()

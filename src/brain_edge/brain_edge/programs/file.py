# SPDX-License-Identifier: Apache-2.0
"""The file in which a robot's owner names the programs that the cloud may have run."""
from __future__ import annotations

from pathlib import Path

from brain_edge.owners_file import read_named

_COMMAND = {"type": "array", "minItems": 1, "maxItems": 200, "items": {
    "type": "string", "minLength": 1, "maxLength": 4000}}


def read_programs(path: Path) -> dict[str, tuple[str, ...]]:
    """Programs by name: the words of each one's command.

    Args:
        path: a YAML file with a list of words for each name.

    Raises:
        OwnersFileProblem: it cannot be read, or be meant so.
    """
    found = read_named(path, _COMMAND, "name each program with a list of words, as "
                       "learn: [brain, fleet, learn, vision, --name, robot1, --data, /data]")
    return {name: tuple(words) for name, words in found.items()}

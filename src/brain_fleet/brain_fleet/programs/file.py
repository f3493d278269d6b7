# SPDX-License-Identifier: Apache-2.0
"""The file in which a robot's owner names the programs that the cloud may have run."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from brain_fleet.schema import FormProblem, check, check_plain

PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_FORM: dict[str, Any] = {
    "type": "object", "maxProperties": 100, "propertyNames": {"pattern": PATTERN, "maxLength": 63},
    "additionalProperties": {"type": "array", "minItems": 1, "maxItems": 200, "items": {
        "type": "string", "minLength": 1, "maxLength": 4000}}}


class ProgramsProblem(ValueError):
    """The file cannot be meant so; names it and the remedy."""


def read_programs(path: Path) -> dict[str, tuple[str, ...]]:
    """Programs by name: the words of each one's command.

    Args:
        path: a YAML file with a list of words for each name.

    Raises:
        ProgramsProblem: it cannot be read, or be meant so.
    """
    from brain_runtime.yaml_text import YamlProblem, read

    try:
        found = read(path)
        check_plain(found)
        check(found, _FORM, "the file")
    except OSError as error:
        raise ProgramsProblem(f"cannot read {path}: {error.strerror or error}") from None
    except (YamlProblem, FormProblem) as problem:
        raise ProgramsProblem(f"{path}: {problem}; name each program with a list of words, as "
                              f"learn: [brain, fleet, learn, vision, --name, robot1, --data, /data]") from None
    return {name: tuple(words) for name, words in found.items()}

# SPDX-License-Identifier: Apache-2.0
"""Files in which a robot's owner gives names to what the cloud may have used: programs, and files for devices."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from brain_edge.schema import FormProblem, check, check_plain

NAME: Mapping[str, Any] = {"pattern": "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "maxLength": 63}
"""Schema of a name."""


class OwnersFileProblem(ValueError):
    """The file cannot be meant so; names it and the remedy."""


def read_named(path: Path, schema: Mapping[str, Any], remedy: str) -> dict[str, Any]:
    """Reads what an owner has named, by name.

    Args:
        path: a YAML file.
        schema: of each one.
        remedy: how the file is written, with an example; ends a refusal.

    Raises:
        OwnersFileProblem: it cannot be read, or be meant so.
    """
    from brain_runtime.yaml_text import YamlProblem, read

    try:
        found = read(path)
        check_plain(found)
        check(found, {"type": "object", "maxProperties": 100, "propertyNames": NAME, "additionalProperties": schema},
              "the file")
    except OSError as error:
        raise OwnersFileProblem(f"cannot read {path}: {error.strerror or error}") from None
    except (YamlProblem, FormProblem) as problem:
        raise OwnersFileProblem(f"{path}: {problem}; {remedy}") from None
    return found

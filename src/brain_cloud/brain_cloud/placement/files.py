# SPDX-License-Identifier: Apache-2.0
"""Reads the files of a placement: YAML that people wrote, against a schema; whatever is wrong is one line."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from brain_edge.schema import FormProblem, check, check_plain, load_schema
from brain_runtime.yaml_text import YamlProblem, read
from brain_wire.safe_text import quoted

MS = 1e-3


class PlacementProblem(ValueError):
    """A file, or what is asked for, cannot be meant so; names the thing and the remedy, in one line."""


def read_file(path: Path, schema: str, what: str) -> dict[str, Any]:
    """Plain values of a file.

    Args:
        schema: name of the schema in this package.
        what: the file is, for messages.

    Raises:
        PlacementProblem: it cannot be read, or is something else.
    """
    try:
        found = read(path)
        check_plain(found)
        check(found, load_schema("brain_cloud.placement", schema))
    except OSError as error:
        raise PlacementProblem(f"cannot read {what} {quoted(str(path))}: {error.strerror or error}") from None
    except (YamlProblem, FormProblem) as problem:
        raise PlacementProblem(f"{what} {quoted(str(path))}: {problem}") from None
    if not isinstance(found, dict):
        raise PlacementProblem(f"{what} {quoted(str(path))} holds no fields")
    return found

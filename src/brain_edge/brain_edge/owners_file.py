# SPDX-License-Identifier: Apache-2.0
"""Files in which a robot's owner gives names to what the cloud may have used: programs, and files for devices."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from brain_edge.schema import FormProblem, check, check_plain
from brain_wire.safe_text import quoted

NAME: Mapping[str, Any] = {"pattern": "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "maxLength": 63}
"""Schema of a name."""
_COMMAND = {"type": "array", "minItems": 1, "maxItems": 200, "items": {
    "type": "string", "minLength": 1, "maxLength": 4000}}
_TEXT = {"type": "string", "minLength": 1, "maxLength": 500}
_FILE: dict[str, Any] = {"type": "object", "required": ["path"], "properties": {
    "path": _TEXT, "hosts": {"type": "array", "minItems": 1, "maxItems": 100, "items": _TEXT},
    "tls": {"type": "boolean"}}}
_EXAMPLE = ("name each file with its path and hosts, as broker-password: {path: /etc/robot/broker.txt, "
            "hosts: [broker.local, 'broker.local:8884']}")


class OwnersFileProblem(ValueError):
    """The file cannot be meant so; names it and the remedy."""


def _read(path: Path, schema: Mapping[str, Any], remedy: str) -> dict[str, Any]:
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


def read_programs(path: Path) -> dict[str, tuple[str, ...]]:
    """Programs by name: the words of each one's command.

    Args:
        path: a YAML file with a list of words for each name.

    Raises:
        OwnersFileProblem: it cannot be read, or be meant so.
    """
    found = _read(path, _COMMAND, "name each program with a list of words, as "
                  "learn: [brain, fleet, learn, vision, --name, robot1, --data, /data]")
    return {name: tuple(words) for name, words in found.items()}


def read_files(path: Path) -> dict[str, dict[str, Any]]:
    """Files by name: the path of each, and the hosts that it is for; a device that has no host needs none.

    A host stands there as the order says it, with its port where that says one; ``tls``: it goes there by TLS only.

    Args:
        path: a YAML file of the robot's owner.

    Raises:
        OwnersFileProblem: it cannot be read, or be meant so.
    """
    found = _read(path, _FILE, _EXAMPLE)
    for name, one in found.items():
        one["path"] = str(Path(one["path"]).expanduser())
        if not Path(one["path"]).is_absolute():
            raise OwnersFileProblem(f"{path}: the path of {name} is {quoted(one['path'])}, and must begin with / or ~; "
                                    f"{_EXAMPLE}")
    return found

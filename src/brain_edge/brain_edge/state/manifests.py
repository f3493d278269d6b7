# SPDX-License-Identifier: Apache-2.0
"""Manifests: resources as people write them, in YAML, several in a file with ``---`` between them."""
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping

from brain_edge.schema import FormProblem, check, check_plain
from brain_edge.state.kinds import API_VERSION, check_spec, schema_of
from brain_security.fleet_keys import FleetNameProblem, check_robot
from brain_wire.safe_text import quoted

ALL = "all"
MOST = 500          # resources in a file
_NAME = {"type": "string", "pattern": "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "maxLength": 63}
_SCHEMA = {
    "type": "object", "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"},
        "metadata": {"type": "object", "required": ["name", "robots"], "properties": {
            "name": _NAME, "robots": {"type": ["array", "string"], "minItems": 1, "maxItems": 10_000,
                                      "items": {"type": "string", "maxLength": 40}}}},
        "spec": {"type": "object", "additionalProperties": True}}}


class ManifestProblem(ValueError):
    """A manifest cannot be meant so; names the file, the document and the field, and what is allowed."""


@dataclass(frozen=True)
class Resource:
    """Resource that is wanted of robots.

    Attributes:
        kind, name: of it.
        robots: of whom; None: of all, those that join later too.
        spec: what.
    """

    kind: str
    name: str
    robots: tuple[str, ...] | None
    spec: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As a manifest."""
        robots = ALL if self.robots is None else list(self.robots)
        return {"apiVersion": API_VERSION, "kind": self.kind, "metadata": {"name": self.name, "robots": robots},
                "spec": self.spec}


def resource(found: Any) -> Resource:
    """A resource from plain values.

    Raises:
        FormProblem: an unknown field, kind or version, or a value that does not fit.
    """
    check_plain(found)
    if isinstance(found, dict) and isinstance(found.get("apiVersion"), str) and found["apiVersion"] != API_VERSION:
        raise FormProblem(f"apiVersion is {quoted(found['apiVersion'])}, and this software knows {API_VERSION}")
    check(found, _SCHEMA)
    schema_of(found["kind"])
    about = found["metadata"]
    robots: tuple[str, ...] | None = None
    if about["robots"] != ALL:
        if isinstance(about["robots"], str):
            raise FormProblem(f"metadata.robots must be a list of robots, or {ALL}, but is {quoted(about['robots'])}")
        try:
            robots = tuple(dict.fromkeys(map(check_robot, about["robots"])))
        except FleetNameProblem as problem:
            raise FormProblem(f"metadata.robots: {problem}") from None
    check_spec(found["kind"], found["spec"])
    return Resource(found["kind"], about["name"], robots, found["spec"])


def read_manifests(path: Path, read: Callable[[Any], Any] = resource) -> list[Any]:
    """All resources of a file.

    Args:
        path: of it.
        read: makes a resource with ``kind`` and ``name`` of a document; raises FormProblem.

    Raises:
        OSError: it cannot be read.
        ManifestProblem: see there.
    """
    from brain_runtime.yaml_text import LONGEST, YamlProblem, parse  # a robot's process reads no YAML

    data = path.open("rb").read(LONGEST + 1)
    if len(data) > LONGEST:
        raise ManifestProblem(f"{path} is longer than {LONGEST} bytes; divide it")
    found: dict[tuple[str, str], Any] = {}
    try:
        # each with the line that begins it, which may hold the document itself, and however that line ends
        documents = re.split(r"^(?=---(?:\s|\Z))", data.decode("utf-8"), flags=re.M)
    except UnicodeDecodeError as error:
        raise ManifestProblem(f"{path} is not text in UTF-8 ({error.reason} at byte {error.start})") from None
    if len(documents) > 1 and all(not line.strip() or line[0] in "#%" for line in documents[0].splitlines()):
        documents[:2] = ["".join(documents[:2])]    # comments and directives (%YAML) before the first document
    for number, text in enumerate(documents, 1):
        try:
            value = parse(text)
            if value is None:
                continue
            one = read(value)
        except (YamlProblem, FormProblem) as problem:
            raise ManifestProblem(f"{path}, document {number}: {problem}") from None
        if (one.kind, one.name) in found:
            raise ManifestProblem(f"{path}, document {number}: {one.kind} {one.name} stands twice in it; take one "
                                  f"away, or give it another name")
        found[one.kind, one.name] = one
    if not found:
        raise ManifestProblem(f"{path} holds no resource")
    if len(found) > MOST:
        raise ManifestProblem(f"{path} holds more than {MOST} resources; divide it")
    return list(found.values())

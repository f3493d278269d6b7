#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the schemas by which brain_cloud checks job manifests from published custom resource definitions (YAML).

``python scripts/make_job_schemas.py FOLDER``, where FOLDER has ``trainer/*.yaml`` of kubeflow/trainer and
``sedna/*.yaml`` of kubeedge/sedna. What is the same in several places, as the pod's, is written once, and what only a
reader of the definitions needs (descriptions) is left out. A definition that says more than is understood here ends it.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

OUT = Path(__file__).resolve().parents[1] / "src" / "brain_cloud" / "brain_cloud" / "jobs" / "schemas"
KEPT = {"type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "minLength",
        "maxLength", "pattern", "minimum", "maximum", "enum", "maxProperties"}
# Told elsewhere (defaults, keys of lists, rules in CEL: brain_cloud.jobs.rules), or of no use to a check.
LEFT = {"description", "format", "default", "anyOf", "nullable", "minProperties", "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations",
        "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"}
BITS = {"int32": 2**31 - 1, "int64": 2**63 - 1}


class Shared:
    """Schemas that are written once each; others refer to them by number."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._known: dict[str, int] = {}

    def put(self, schema: dict[str, Any]) -> dict[str, int]:
        text = json.dumps(schema, sort_keys=True)
        if text not in self._known:
            self._known[text] = len(self.all)
            self.all.append(schema)
        return {"$ref": self._known[text]}


def plain(schema: dict[str, Any], shared: Shared, place: str) -> dict[str, Any]:
    """A schema in the words that brain_edge.schema understands."""
    unknown = schema.keys() - KEPT - LEFT
    if unknown:
        sys.exit(f"{place}: {', '.join(sorted(unknown))} is not understood")
    found = {key: value for key, value in schema.items() if key in KEPT}
    if schema.get("x-kubernetes-int-or-string"):
        found["type"] = ["integer", "string"]
    elif schema.get("type") == "integer" and schema.get("format") in BITS:
        found.setdefault("maximum", BITS[schema["format"]])
        found.setdefault("minimum", -BITS[schema["format"]])
    if schema.get("nullable"):
        found["type"] = [found["type"], "null"]
    if "pattern" in found:      # theirs are searched for, ours read the whole
        text = found["pattern"]
        found["pattern"] = (("" if text.startswith("^") else ".*") + text.removeprefix("^").removesuffix("$")
                            + ("" if text.endswith("$") else ".*"))
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("type") == "object" and not (
            "properties" in schema or "additionalProperties" in schema) and place.endswith("metadata"):
        found["additionalProperties"] = True
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = plain(found["additionalProperties"], shared, f"{place}.*")
    if "items" in found:
        found["items"] = plain(found["items"], shared, f"{place}[]")
    if "properties" in found:
        found["properties"] = {name: plain(inner, shared, f"{place}.{name}")
                               for name, inner in found["properties"].items()}
        return shared.put(found)
    return found


def main(folder: Path) -> None:
    """Writes a file for each group."""
    for group in ("trainer", "sedna"):
        shared, kinds = Shared(), {}
        for path in sorted((folder / group).glob("*.yaml")):
            for value in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                if not value or value.get("kind") != "CustomResourceDefinition":
                    continue
                spec = value["spec"]
                for version in spec["versions"]:
                    schema = version["schema"]["openAPIV3Schema"]
                    kinds[spec["names"]["kind"]] = {
                        "apiVersion": f"{spec['group']}/{version['name']}", "namespaced": spec["scope"] == "Namespaced",
                        "schema": plain(schema, shared, spec["names"]["kind"])}
        text = json.dumps({"kinds": kinds, "shared": shared.all}, sort_keys=True, separators=(",", ":"))
        # a line of text each, so that a change shows
        lines = text.replace('},{"', '},\n{"')
        (OUT / f"{group}.json").write_text(lines + "\n", encoding="utf-8")
        print(group, ", ".join(kinds), len(shared.all), "shared schemas,", len(lines), "bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

# SPDX-License-Identifier: Apache-2.0
"""Makes ``definitions.json`` from published custom resource definitions: ``make_definitions.py FOLDER``.

FOLDER has ``trainer/*.yaml`` and ``sedna/*.yaml``. What is told to people only is left out, and schemas that are the
same are written once.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

OUT = Path(__file__).with_name("definitions.json")


def plain(value: Any, shared: dict[str, int], names: bool = False) -> Any:
    """A schema without descriptions; of objects with properties, the number under which it is written."""
    if isinstance(value, list):
        return [plain(one, shared) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: plain(one, shared, name in ("properties",) and not names) for name, one in value.items()
             if names or name not in ("description", "x-kubernetes-validations")}
    if not names and "properties" in found:
        return {"$ref": shared.setdefault(json.dumps(found, sort_keys=True), len(shared))}
    return found


def main(folder: Path) -> None:
    shared: dict[str, int] = {}
    kinds = []
    for path in sorted([*folder.glob("trainer/*.yaml"), *folder.glob("sedna/*.yaml")]):
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if one and one["kind"] == "CustomResourceDefinition":
                spec = one["spec"]
                version = spec["versions"][0]
                kinds.append({"group": spec["group"], "version": version["name"], "scope": spec["scope"],
                              "plural": spec["names"]["plural"], "kind": spec["names"]["kind"],
                              "status": "status" in version.get("subresources", {}),
                              "schema": plain(version["schema"]["openAPIV3Schema"], shared)})
    text = json.dumps({"kinds": kinds, "shared": [json.loads(one) for one in shared]}, separators=(",", ":"))
    OUT.write_text(text.replace('},{"properties"', '},\n{"properties"') + "\n", encoding="utf-8")
    print(f"{len(kinds)} kinds, {len(shared)} schemas, {len(text)} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

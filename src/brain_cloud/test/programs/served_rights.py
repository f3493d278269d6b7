# SPDX-License-Identifier: Apache-2.0
"""Who may do what at the served API, by the roles of a manifest, as Kubernetes decides it."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

Asked = tuple[str, str, str, str]      # verb, group, resource[/subresource], namespace


class Rights:
    """Of the service account to which the roles of a file are bound."""

    def __init__(self, file: Path) -> None:
        self.rules: list[tuple[str | None, dict[str, Any]]] = []    # namespace, or all; rule
        objects = [one for one in yaml.safe_load_all(file.read_text()) if one]
        roles = {(one["kind"], one["metadata"]["name"]): one for one in objects if one["kind"].endswith("Role")}
        for one in objects:
            if one["kind"].endswith("RoleBinding"):
                role = roles[one["roleRef"]["kind"], one["roleRef"]["name"]]
                where = one["metadata"].get("namespace") if one["kind"] == "RoleBinding" else None
                self.rules += [(where, rule) for rule in role["rules"]]

    def grants(self) -> set[tuple[str, str, str]]:
        """Each verb, group and resource that a rule names."""
        return {(verb, group, resource) for _, rule in self.rules for verb in rule["verbs"]
                for group in rule["apiGroups"] for resource in rule["resources"]}

    def allow(self, verb: str, group: str, resource: str, namespace: str, name: str = "") -> bool:
        return any(verb in rule["verbs"] and group in rule["apiGroups"] and resource in rule["resources"]
                   and where in (None, namespace) and (not rule.get("resourceNames") or name in rule["resourceNames"])
                   for where, rule in self.rules)

# SPDX-License-Identifier: Apache-2.0
"""Detection of another controller of these kinds in the cluster: its resources are left to it."""
from __future__ import annotations

import logging
import threading
import time

from brain_cloud.cluster.api import Api, ApiProblem
from brain_cloud.cluster.kinds import DEPLOYMENT, SEDNA, TRAINER, Kind

# The Deployments by which Kubeflow Trainer and Sedna's global manager are installed.
NAMES = {TRAINER: "kubeflow-trainer-controller-manager", SEDNA: "gm"}
KEPT = 30.0     # s that an answer holds

log = logging.getLogger("brain.operator")


class Others:
    """Asks for the controllers of others, seldom.

    Args:
        api: of the cluster.
        ignored: groups whose controllers are taken for dead.
    """

    def __init__(self, api: Api, ignored: tuple[str, ...] = ()) -> None:
        self._api, self._ignored = api, ignored
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, str | None]] = {}

    def has(self, kind: Kind) -> str | None:
        """Looks for another controller of a kind, and returns its namespace/name; None: this operator does it."""
        group = kind.group
        if group in self._ignored or group not in NAMES:
            return None
        with self._lock:
            at, there = self._known.get(group, (float("-inf"), None))
            if time.monotonic() - at < KEPT:
                return there
            found = self._ask(group)
            if found != there:
                log.warning(f"{group} is left to {found}, which runs in this cluster" if found is not None else
                            f"{there} runs no longer: this operator does {group}")
            self._known[group] = time.monotonic(), found
            return found

    def _ask(self, group: str) -> str | None:
        try:
            for one in self._api.named(DEPLOYMENT, NAMES[group]):
                if (one.get("spec") or {}).get("replicas", 1):
                    return f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        except ApiProblem as problem:
            if problem.status != 403:       # it sees its own namespace only
                raise
        return None

# SPDX-License-Identifier: Apache-2.0
"""A worker of a Sedna job: what it is told by its environment, and how it reports what came of it."""
from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Mapping, Sequence

PATIENCE = 60.0     # s that who is reported to gets to answer
KIND = "IncrementalLearningJob"
# Of a container, which kubelet makes; on a machine that is no pod there is none, and none is made.
MESSAGE = Path("/dev/termination-log")


class WorkerProblem(RuntimeError):
    """The worker cannot do its part; says what is missing, and the remedy."""


def told(name: str, option: Path | str | None, flag: str) -> str:
    """Returns the value of an option, or else of the environment variable that Sedna's manager sets.

    Raises:
        WorkerProblem: neither does.
    """
    found = str(option) if option is not None else os.environ.get(name, "")
    if not found:
        raise WorkerProblem(f"give {flag}; in a job of Sedna's it is the variable {name}, which is not set")
    return found


def report(kind: str, status: str, results: Sequence[Mapping[str, Any]], owner: str = KIND) -> bool:
    """Reports to the local controller, or else by the termination message of a pod; whether there is either.

    Args:
        kind: ``train`` or ``eval``.
        status: ``completed`` or ``failed``.
        results: models, each with ``url``, ``format`` and ``metrics``.
        owner: kind of the job.

    Raises:
        WorkerProblem: it does not take the report.
    """
    server, name = os.environ.get("LC_SERVER"), os.environ.get("WORKER_NAME", "")
    if not server:
        return _leave(results)
    body = json.dumps({"name": name, "namespace": os.environ.get("NAMESPACE", ""), "ownerName":
                       os.environ.get("JOB_NAME", ""), "ownerKind": owner, "kind": kind, "status": status,
                       "results": list(results)}).encode()
    request = urllib.request.Request(f"{server}/sedna/workers/{name}/info", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE):
            return True
    except urllib.error.HTTPError as error:
        raise WorkerProblem(f"the report of {name} was not taken: {error.read(300).decode(errors='replace')}"
                            ) from error
    except (OSError, ValueError) as error:
        raise WorkerProblem(f"nobody takes the report of {name} at $LC_SERVER: {error}") from error


def _leave(results: Sequence[Mapping[str, Any]]) -> bool:
    """Leaves results in the termination message; whether this is a pod."""
    if not MESSAGE.is_file():
        return False
    try:
        MESSAGE.write_text(json.dumps({"results": list(results)}), encoding="utf-8")
    except OSError as error:
        raise WorkerProblem(f"what came of it cannot be left at {MESSAGE}: {error.strerror or error}") from error
    return True

# SPDX-License-Identifier: Apache-2.0
"""Report of a training for the job that began it: how far its rounds are, and in the end the weights."""
from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Mapping

from brain_cloud.federated.rounds import Rounds
from brain_edge.blobs.store import write_whole
from brain_cloud.federated.weights import pack

NAMED = 10          # robots in a line


class Report:
    """Report of one training.

    Args:
        rounds: of it.
        message: file that says how far it is.
        model: file that has the weights in the end.
    """

    def __init__(self, rounds: Rounds, message: Path, model: Path) -> None:
        self._rounds, self._message, self._model = rounds, message, model
        self._said = ""

    def look(self) -> bool:
        """Writes what is news; tells whether the training is over, and its weights are where they are to be.

        Raises:
            OSError: they cannot be written.
        """
        over = self._rounds.over
        if over:
            self._model.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._model, pack(self._rounds.model), 0o644)
        said = json.dumps({"message": progress(self._rounds.status())})
        if said != self._said:
            self._message.write_text(said, encoding="utf-8")    # in place: a container's is a mount
            self._said = said
        return over


def progress(status: Mapping[str, Any]) -> str:
    """Tells in a line how far a training is: its last round that ended, who counted there, and the mean of metrics."""
    found = f"{status['version']} of {status['rounds']} rounds are done"
    if not status["history"]:
        return found
    last = status["history"][-1]
    robots = last["robots"]
    names = ", ".join(list(robots)[:NAMED]) + (", ..." if len(robots) > NAMED else "")
    found += f"; round {last['round']} ended ({last['ended']}) with {names or 'nobody'}"
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in _means(robots).items())
    return f"{found}: {metrics}" if metrics else found


def _means(robots: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Means of what all robots of a round have told, by their examples, whose sum comes first."""
    examples = math.fsum(one["examples"] for one in robots.values())
    shared = set.intersection(*map(set, robots.values())) if robots else set()
    return {name: examples if name == "examples" else
            math.fsum(one["examples"] * one[name] for one in robots.values()) / examples
            for name in sorted(shared, key=lambda name: (name != "examples", name))}

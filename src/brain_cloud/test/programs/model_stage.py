# SPDX-License-Identifier: Apache-2.0
"""What the tests of models share: files, the verbs, a region that has weights, and what a brain says that drives."""
from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any, Iterator

from typer.testing import CliRunner

from brain_edge.blobs.store import digest_of
from brain_runtime.interfaces import GoalStatus
from brain_wire import Node, messages, open_session
from brain_wire.qos import LATCHED

STATUS = "brain_interfaces/msg/GoalStatus"


def with_length(header: bytes) -> bytes:
    """A header as it stands in a safetensors file."""
    return len(header).to_bytes(8, "little") + header


def big_model(path: Path, size: int, seed: int = 0) -> str:
    """Writes a model of one tensor of so many bytes, which fits no region; returns its digest."""
    header = json.dumps({"__metadata__": {"region": "motor"},
                         "a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path.write_bytes(with_length(header) + random.Random(seed).randbytes(size))
    return digest_of(path)


def make_model(path: Path, seed: int) -> str:
    """Writes weights of motor, which needs no torch, a little other ones than its own; returns their digest."""
    from brain_regions.motor import weights

    tensors = dict(weights.load().tensors)
    tensors["b0"] = tensors["b0"] + tensors["b0"].dtype.type(1e-3 * seed)
    weights.save(path, tensors, {"seed": seed}, {"success": 0.9}, ann=False)
    return digest_of(path)


def verb(*words: object) -> tuple[int, str]:
    """Status and output of ``brain fleet``."""
    from brain.cli import app

    done = CliRunner().invoke(app, ["fleet", *map(str, words)], env={"BRAIN_CLOUD": "", "COLUMNS": "250"})
    return done.exit_code, done.output


def at(fleet: Any) -> tuple[str, ...]:
    """Where its cloud is, as options of a verb."""
    return ("--cloud", f"{fleet.protocol}/localhost:{fleet.port}")


def order(fleet: Any, digest: str, name: str = "legs", **more: object) -> None:
    """Orders a model of robot1."""
    fleet.ask("apply", resources=[{"apiVersion": "fleet.brain/v1", "kind": "Model", "metadata": {
        "name": name, "robots": ["robot1"]}, "spec": {"region": "motor", "digest": digest, **more}}])


def report(fleet: Any, name: str = "legs") -> dict[str, Any]:
    """What robot1 says of an order."""
    found = [one for one in fleet.ask("status")["resources"] if one["name"] == name]
    return found[0] if found else {"state": "nothing"}


def motor(fleet: Any, process: str = "motor") -> None:
    """Starts the real region, in a process of its own."""
    fleet._start(process, "brain_runtime.process", "--class", "brain_regions.motor:Motor", "--name", "motor",
                 "--router", router(fleet)[0], "--state-dir", str(fleet.folder / f"{process}.state"))


def router(fleet: Any) -> tuple[str, int]:
    """Endpoint and domain of the brain."""
    return f"tcp/127.0.0.1:{fleet.brain_port}", fleet.brain_port % 200


class Mouth:
    """Says what a prefrontal cortex says of goals, since a world in which they are pursued would take minutes."""

    def __init__(self, node: Node) -> None:
        self._status = node.publisher("goal/status", STATUS, LATCHED)
        self._goal = 0

    def begin(self) -> None:
        """A new goal is pursued."""
        self._goal += 1
        self._say(GoalStatus.STATE_SEARCHING)

    def end(self, reached: bool = True) -> None:
        """It has ended."""
        self._say(GoalStatus.STATE_REACHED if reached else GoalStatus.STATE_NOT_FOUND)

    def _say(self, state: int) -> None:
        self._status.publish(messages.make(STATUS, goal_id=self._goal, state=state))


@contextlib.contextmanager
def mouth(fleet: Any) -> Iterator[Mouth]:
    """A node in the brain."""
    at_router, domain = router(fleet)
    with open_session(at_router, identity="speaker", patience=30.0) as session, \
            Node(session, "speaker", "/", domain) as node:
        yield Mouth(node)

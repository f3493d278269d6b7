# SPDX-License-Identifier: Apache-2.0
"""Resolution of a graph in a process of its own.

:func:`brain_runtime.graph.resolve.resolve` imports every region's module. The supervisor must outlive whatever those
do, and stay small, so it asks here and gets JSON back.
"""
from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from brain_runtime.graph import GraphError
from brain_runtime.graph.resolved import Resolved
from brain_runtime.graph.robots import RobotError

TIMEOUT = 120.0  # s; importing is slow on a machine that has just been set up


class GivenError(GraphError):
    """A parameter file that cannot be used; names it or the parameter, and what would do."""


def inspect_graph(graph: str | Path, world: str = "none", robot: str | None = "", **options: Any) -> Resolved:
    """As :func:`brain_runtime.graph.resolve.resolve`, whose arguments it takes, without importing a region here.

    Raises:
        GraphError: it cannot run; see :func:`brain_runtime.graph.check_graph`.
        RobotError: the profile does not fit; see :mod:`brain_runtime.graph.robots`.
        GivenError: a parameter file cannot be read, or what a region is given does not fit.
    """
    asked = json.dumps({"graph": graph, "world": world, "robot": robot, **options}, default=_plain)
    try:
        done = subprocess.run([sys.executable, "-m", __name__], input=asked, capture_output=True, text=True,
                              timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise GraphError(f"graph {graph}: importing its regions took more than {TIMEOUT:g} s; look for a module that "
                         f"works while it is imported") from None
    try:
        answer: dict[str, Any] = json.loads(done.stdout.rpartition("\n\n")[2])
        if "resolved" in answer:
            return Resolved.from_json(answer["resolved"])
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise GraphError(f"graph {graph}: importing its regions ended the process: {last}") from None
    raise {"robot": RobotError, "given": GivenError}.get(str(answer.get("whose")), GraphError)(answer["error"])


def _plain(value: Any) -> Any:
    """Converts values that JSON has no form for: paths, collections and an ablation."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value) if isinstance(value, Path) else list(value)


def main() -> None:
    """Reads the arguments as JSON; prints, after an empty line, ``resolved``, or ``error`` and ``whose`` it is."""
    asked = json.load(sys.stdin)
    try:
        answer = {"resolved": _resolve(asked).to_json()}
    except RobotError as error:
        answer = {"error": str(error), "whose": "robot"}
    except GraphError as error:
        answer = {"error": str(error)}
    except Exception as error:  # a region's module may raise anything while it is imported
        from brain_wire.parameters import ParameterError
        from brain_runtime.hosts.ros_args import RosArgsError

        answer = ({"error": str(error), "whose": "given"} if isinstance(error, (ParameterError, RosArgsError)) else
                  {"error": f"graph {asked['graph']}: {type(error).__name__} while its regions were loaded: {error}"})
    print("\n\n" + json.dumps(answer))


def _resolve(asked: dict[str, Any]) -> Resolved:
    from brain_runtime.contract.ablation import Ablation
    from brain_runtime.graph.resolve import resolve   # not in the supervisor

    if "ablation" in asked:
        asked = {**asked, "ablation": Ablation(**asked["ablation"])}
    return resolve(**asked)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""*complexity* of ``brain bench backends``: the lines that one and the same small region takes on each host.

The region says twice what it hears. Each source that is counted is run as it stands, and has to double 21; where it
cannot run here, the row says why. Lines are those with code on them: no comments, no docstrings, no empty ones.
"""
from __future__ import annotations

import ast
import difflib
import json
import struct
import sys
import threading
from pathlib import Path
from typing import Any, Callable

from brain_eval.bench.experiment import Problem
from brain_runtime.hosts import LocalHost
from brain_runtime.run.loop import ONE_THREAD
from brain_wire import messages, open_session
from brain_wire.qos import FEATURE
from brain_wire.router import Router, free_port
from brain_wire.temporary_folder import TemporaryFolder
from experiments.backend_sides import DORA_NODE, ros_command, ros_environment
from experiments.doubler_region import Doubler
from experiments.other_libraries import NotThere, environment
from experiments.processes import NoPeer, beside, finished
from experiments.toy_brain import TOYS, graph, toys
from scripts.count_code import code_lines

HERE = Path(__file__).parent
KIND = "std_msgs/msg/Float32"
CLASS = "experiments.doubler_region:Doubler"
SAID, EXPECTED = 21.0, 42.0
PATIENCE = 60.0         # s for an example to run


class NotRun(Problem):
    """An example did not do what it should; says what it wrote."""


def counted(file: Path) -> dict[str, int]:
    """Lines of an example: ``step``, of the function of that name, and ``rest``: to declare and to wire it."""
    source = file.read_text(encoding="utf-8")
    lines = code_lines(source)
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    (step,) = (function for function in functions if function.name == "step")
    inside = lines & set(range(step.lineno, (step.end_lineno or 0) + 1))
    return {"step": len(inside), "rest": len(lines - inside)}


def named(file: Path, name: str) -> int:
    """Lines with code that name a constant of that name: what others must know of it. 0 where there is none."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return len({node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name})


def changed(before: str, after: str) -> int:
    """Lines that one more region changes in a text: those that are new, and those that are gone."""
    told = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    return sum(line[0] in "+-" for line in told)


def _graph_lines() -> int:
    return changed(graph(TOYS), graph({**TOYS, "doubler": CLASS}))


def _dora_lines() -> int:
    """Of the dataflow that is run."""
    text = {node.targets[0].id: ast.literal_eval(node.value)
            for node in ast.parse(DORA_NODE.read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)}
    return changed(text["NUMBERS"], text["NUMBERS"] + text["DOUBLER"])


# -- running them ------------------------------------------------------------------------------------------------------


def _regions(host: str, stop: Any) -> float:
    with toys(host, stop, {"doubler": CLASS}) as brain:
        said, heard = brain.node.publisher("bench/number", KIND, FEATURE), []
        subscription = brain.node.subscription("bench/doubled", KIND, FEATURE)

        def answered() -> bool:
            said.publish(messages.make(KIND, data=SAID))
            brain.rest(0.05)
            heard.extend(messages.decode(arrival.data, KIND).data for arrival in subscription.take())
            return bool(heard)
        brain.wait(answered, "the doubled number")
    return heard[0]


def _local(stop: Any) -> float:
    host = LocalHost({"doubler": Doubler()}, seed=1)
    host.publish("bench/number", messages.make(KIND, data=SAID))
    return host.latest("bench/doubled").data


def _bare_zenoh(stop: Any) -> float:
    endpoint, heard, come = f"tcp/127.0.0.1:{free_port()}", [], threading.Event()
    with Router([endpoint]), beside("-m", "experiments.doubler_zenoh", endpoint, environment=ONE_THREAD), \
            open_session(endpoint) as session:
        def step(sample: Any) -> None:
            heard.append(struct.unpack("<f", sample.payload.to_bytes())[0])
            come.set()
        subscriber = session.zenoh.declare_subscriber("bench/doubled", step)
        for _ in range(int(PATIENCE / 0.1)):
            session.zenoh.put("bench/number", struct.pack("<f", SAID))
            if come.wait(0.1):
                break
        del subscriber
    if not heard:
        raise NotRun("nothing came back")
    return heard[0]


def _last_number(command: list[str], more: dict[str, str]) -> float:
    done = finished(*command, patience=PATIENCE, environment=more)
    words = [line.split()[-1] for line in done.stdout.splitlines() if "42.0" in line]
    if not words:
        raise NotRun((done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()[-1])
    return float(words[-1])


def _bare_torch(stop: Any) -> float:
    script = str(HERE / "doubler_torch.py")
    more = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with beside(script, environment={**more, "RANK": "1"}):
        return _last_number([sys.executable, script], {**more, "RANK": "0"})


def _dora(stop: Any) -> float:
    with TemporaryFolder("bench") as folder:
        return _last_number([str(environment("dora")), str(DORA_NODE), "double", folder], {})


def _ros(which: str) -> float:
    return _last_number(ros_command(f"experiments.ros_doubled {which}"), ros_environment())


EXAMPLES: dict[str, tuple[str, Callable[[], int], Callable[[Any], float]]] = {
    "LocalHost": ("doubler_region.py", _graph_lines, _local),
    "ZenohHost": ("doubler_region.py", _graph_lines, lambda stop: _regions("zenoh", stop)),
    "TorchHost": ("doubler_region.py", _graph_lines, lambda stop: _regions("torch", stop)),
    "RosHost": ("doubler_region.py", _graph_lines, lambda stop: _ros("region")),
    "bare rclpy": ("ros_doubler.py", lambda: 0, lambda stop: _ros("bare")),
    "bare eclipse-zenoh": ("doubler_zenoh.py", lambda: 0, _bare_zenoh),
    "bare torch.distributed": ("doubler_torch.py", lambda: 0, _bare_torch),
    "dora": ("doubler_dora.py", _dora_lines, _dora),
}


def measure(stop: Any, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Counts and runs all examples.

    Returns:
        By ``host``: ``file``, lines of ``step`` and of the ``rest``, lines of the ``graph`` that it takes (of none: 0),
        lines of ``others`` that must name it, and ``ran``: ``yes``, or why it was not run here.

    Raises:
        NotRun: an example ran and did not double 21.
    """
    found = []
    for host, (file, graph_of, run) in EXAMPLES.items():
        try:
            got = run(stop)
            if got != EXPECTED:
                raise NotRun(f"{host}: twice {SAID:g} is not {got:g}")
            ran = "yes"
        except (NoPeer, NotThere) as why:
            ran = f"no: {why}"
        found.append({"host": host, "file": file, **counted(HERE / file), "graph": graph_of(),
                      "others": named(HERE / file, "DOUBLER"), "ran": ran})
        tell(f"{host}: {json.dumps(found[-1])}")
    return found

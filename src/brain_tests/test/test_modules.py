# SPDX-License-Identifier: Apache-2.0
"""Modules: none imports itself by way of others, none is long, and what a bringup starts loads no simulator."""
from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2]
LONGEST = 600       # lines
BRAIN = 3000        # lines of the package brain
FORBIDDEN = ("PIL", "brain_eval", "brain_sim", "brain_training", "experiments", "h5py", "matplotlib",
             "mujoco", "nir")

pytestmark = pytest.mark.skipif(not (SOURCES / "brain" / "setup.cfg").is_file(), reason="the sources are not here")


def modules() -> dict[str, Path]:
    """Files of all packages, by the modules' names."""
    found = {}
    for package in SOURCES.iterdir():
        for file in (package / package.name).rglob("*.py"):
            name = ".".join(file.relative_to(package).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = file
    return found


def imports(file: Path, known: set[str]) -> set[str]:
    """Modules of ours that a file imports, within functions too, but not for type checkers alone."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known


def test_no_module_imports_itself_by_way_of_others():
    known = modules()
    graph = {name: imports(file, set(known)) - {name} for name, file in known.items()}
    assert sum(map(len, graph.values())) > 500      # they were found
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_folders_of_brain_runtime_import_those_below_them():
    known = modules()
    rooms = ("contract", "run", "hosts", "graph", "supervision")     # from the lowest up
    above = {"brain_runtime.hosts.process_arguments"}    # a region's entry of a graph, from a command line
    odd, seen = [], set()
    for name, file in known.items():
        package, _, rest = name.partition(".")
        room = rest.partition(".")[0]
        if package != "brain_runtime" or room not in rooms or name in above:
            continue
        seen.add(room)
        for other in imports(file, set(known)):
            reached = other.removeprefix("brain_runtime.").partition(".")[0]
            if other.startswith("brain_runtime.") and reached in rooms and rooms.index(reached) > rooms.index(room):
                odd.append(f"{name} imports {other}")
    assert seen == set(rooms) and odd == []


def test_a_cycle_would_be_found():
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()


def test_no_module_is_long_and_brain_is_small():
    lines = {name: len(file.read_text(encoding="utf-8").splitlines()) for name, file in modules().items()}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}
    assert sum(count for name, count in lines.items() if name.partition(".")[0] == "brain") < BRAIN


@pytest.mark.parametrize("world", ["none", "sim"])
def test_a_bringup_loads_no_simulator_no_training_and_no_plotting(world):
    """All that a robot's processes load: the command, the supervisor's modules, each region of the graph."""
    code = f"""
import sys
from brain.cli import app
from brain import up
from brain_runtime import process
from brain_runtime.graph import launching
from brain_runtime.supervision import supervised_brain
from brain_runtime.graph.graphs import load
for spec in load("brain", {world!r}).regions:
    spec.device or spec.load()
print(sorted({{m.partition(".")[0] for m in sys.modules}} & set({FORBIDDEN!r})))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=400)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr

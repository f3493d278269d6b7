# SPDX-License-Identifier: Apache-2.0
"""Inventory of what each verb and launch file starts, as plain data: seen from outside, it outlives any change inside.

Written by ``python -m brain_tests.starts > src/brain_tests/brain_tests/golden/starts.json``.
"""
from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Iterator

from brain_tests import processes

GOLDEN = Path(__file__).parent / "golden" / "starts.json"
PATIENCE = 240.0     # s until a command has started what it starts
PARAMETERS = "/**/motor:\n  ros__parameters:\n    margin: 0.2\n"
COMMANDS = {
    "up": ["up"],
    "up, a room and a namespace": ["up", "--split", "train", "--seed", "3", "--namespace", "/r1", "--params-file",
                                   "mine.params.yaml"],
    "up, a real robot": ["up", "--world", "none", "--robot", "turtlebot3_burger", "--external", "vision,place",
                         "--state-dir", "kept"],
    "demo": ["demo"],
    "run, a sensor": ["run", "brain_sim.plugin_sensors:Sonar", "-p", "energy_budget:=1000.0", "-r", "odom:=base/odom"],
    "run, a region of the graph": ["run", "motor", "--robot", "turtlebot3_burger", "--namespace", "/r1", "--seed", "3",
                                   "--params-file", "mine.params.yaml", "--state-dir", "kept"],
}
"""What is typed after ``brain``."""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "": {"robot": "turtlebot3_burger"},
    "in the simulator": {"world": "sim", "namespace": "r1", "params": "mine.params.yaml", "seed": 7, "split": "train",
                         "state_dir": "kept", "use_sim_time": True},
    "beside others": {"robot": "diff_drive_controller", "external": ["vision", "place"], "log_level": "debug"},
}
"""Arguments of launch files."""
STILL = ("brain_runtime.process", "brain_collectives.static_group")
"""Modules in whose place something stands still: what starts them is looked at, and not what they do."""
PYTHON = """#!/bin/sh
case "$2" in
  {still}) : < "{never}";;
esac
exec "{python}" "$@"
"""
BRAIN = "import sys; sys.executable = sys.argv.pop(1); from brain.command import main; main()"


def children(pid: int) -> list[list[str]]:
    """Command lines of the processes that a process has started and that run.

    Not among them: spares, which come later, and what looks at the graph before anything is started.
    """
    lines = map(command, processes.children(pid))
    return [words for words in lines
            if words and "--standby" not in words and "brain_runtime.graph.inspect_graph" not in words]


def command(pid: int) -> list[str]:
    """Words of a process's command line, without the shell of what stands still."""
    words = processes.command(pid)
    return words[1:] if words[:1] == ["/bin/sh"] else words


def still(folder: Path) -> Path:
    """Makes a Python that runs all but :data:`STILL`."""
    python, never = folder / "python", folder / "never"
    os.mkfifo(never)        # who opens it waits for one that writes
    python.write_text(PYTHON.format(still="|".join(STILL), never=never, python=sys.executable), encoding="utf-8")
    python.chmod(0o755)
    return python


class Places:
    """Replaces what differs from run to run by names."""

    def __init__(self, folder: Path, endpoint: str, python: str = sys.executable) -> None:
        from brain_runtime.share import share_directory

        self._named = [(python, "$PYTHON"), (str(folder), "$FOLDER"),
                       *([(endpoint, "$ROUTER"), (endpoint.rpartition(":")[2], "$PORT")] if endpoint else []),
                       (str(share_directory("brain")), "$SHARE"), (sys.executable, "$PYTHON")]

    def __call__(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self(key): self(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self(inner) for inner in value]
        if isinstance(value, (str, Path)):
            text = str(value)
            for what, name in self._named:
                text = text.replace(what, name)
            return re.sub(r"(?<=/runs/)\d[\w.-]*|(?<=joined/)\d+", "N", text)
        return value


def _made(argvs: list[list[str]], folder: Path) -> dict[str, str]:
    """Contents of the parameter files that were made for what was started."""
    files = {Path(word) for argv in argvs for word in argv if word.endswith(".params.yaml")}
    return {str(file): file.read_text() for file in sorted(files) if file.is_relative_to(folder)
            and file.parent != folder}


def _started(name: str, folder: Path, port: int) -> list[Any]:
    """Processes of one of :data:`COMMANDS`, without the command's own; for ``run``, that is what it becomes."""
    from brain_wire.router import Router

    endpoint = f"tcp/127.0.0.1:{port}"
    argv = [*COMMANDS[name], "--router", endpoint, "--domain", str(port % 200)]
    argv += ["--run-dir", str(folder / "run")] if argv[0] == "up" else []
    argv += ["--runs", str(folder / "runs")] if argv[0] == "demo" else []
    router = Router([endpoint]) if argv[0] == "run" else None
    python = still(folder)
    with open(folder / "said.log", "wb") as said:
        process = subprocess.Popen([sys.executable, "-c", BRAIN, python, *argv], stdin=subprocess.DEVNULL, stdout=said,
                                   stderr=said, cwd=folder, env={**os.environ, "XDG_STATE_HOME": str(folder / "state")})
        try:
            found: list[Any] = []
            until, same = time.monotonic() + PATIENCE, 0
            while same < 10:    # nothing new for two seconds
                assert time.monotonic() < until and process.poll() is None, (folder / "said.log").read_text()
                time.sleep(0.2)
                if router is None:
                    now = sorted(children(process.pid))
                else:
                    words = command(process.pid)
                    now = [words] if "brain_runtime.process" in words else []
                same = same + 1 if now and now == found else 0
                found = now
            started, files = Places(folder, endpoint, str(python))([found, _made(found, folder)])
            return [sorted(started), files]     # by their names: where Python lies changes nothing
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            finally:
                process.kill()
                if router is not None:
                    router.close()


def commands() -> Iterator[tuple[str, list[Any]]]:
    """For each of :data:`COMMANDS` what it starts, by turns."""
    for name in COMMANDS:
        with TemporaryDirectory() as made, socket.socket() as probe:
            folder = Path(made).resolve()
            (folder / "mine.params.yaml").write_text(PARAMETERS)
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            probe.close()
            yield name, _started(name, folder, port)


def launch_files() -> dict[str, Any]:
    """For each launch file and each of :data:`ARGUMENTS`, keyword arguments of its ``launch_ros.actions.Node``s."""
    from brain_runtime.graph.launching import launched
    from brain_runtime.share import share_directory

    found: dict[str, Any] = {}
    with TemporaryDirectory() as made:
        folder = Path(made).resolve()
        (folder / "mine.params.yaml").write_text(PARAMETERS)
        for file in sorted((share_directory("brain") / "launch").glob("*.launch.py")):
            wanted = file.read_text(encoding="utf-8").partition("return description(")[2]
            if file.name == "router.launch.py":
                continue    # no region
            only = re.findall(r'(?<!=)"([^"]+)"', wanted)
            for what, arguments in ARGUMENTS.items():
                given = {**({"world": "sim"} if 'world="sim"' in wanted else {}), **arguments}
                if "params" in given:
                    given["params"] = str(folder / given["params"])
                nodes = launched(only=only, **given)
                found[f"{file.name} {what}".strip()] = Places(folder, "")([node.settings() for node in nodes])
    return found


def everything() -> dict[str, Any]:
    """All that the golden file holds."""
    return {"launch": launch_files(), "commands": dict(commands())}


def _lines(value: Any, depth: int = 0) -> str:
    """JSON with a line for each thing that is started."""
    if depth < 3 and isinstance(value, dict) and value:
        inner = ",\n".join(f"{json.dumps(key)}: {_lines(item, depth + 1)}" for key, item in value.items())
        return f"{{\n{inner}\n}}"
    if depth < 4 and isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return "[\n" + ",\n".join(_lines(item, depth + 1) for item in value) + "\n]"
    return json.dumps(value)


if __name__ == "__main__":
    print(_lines(everything()))

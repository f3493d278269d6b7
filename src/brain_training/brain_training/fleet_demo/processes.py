# SPDX-License-Identifier: Apache-2.0
"""The demo's processes: a cloud, and for each robot one that drives, one that learns and its edge, over a link.

They end with the process that has started them, however it ends.
"""
from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

from brain_cloud.checks.relay import Relay
from brain_edge.processes.asking import Asking, NoCloud
from brain_edge.processes.settings import CLOUD_VARIABLE, SECURITY_VARIABLE, TOKEN_VARIABLE
from brain_runtime.run.processes import Processes
from brain_runtime.run.workload import NEVER, Workload
from brain_training.fleet_demo.robot_folder import TEACHER, Given
from brain_wire import SessionProblem
from brain_wire.logs import Logs
from brain_wire.observers import complain
from brain_wire.router import free_port

GOODBYE = 8.0       # s that processes get to end in good order
# What an outer environment might say is not to choose the links of the demo.
OTHERS = ("BRAIN_ROUTER", "BRAIN_SECURITY", CLOUD_VARIABLE, SECURITY_VARIABLE, TOKEN_VARIABLE)
DRIVE, LEARN, EDGE = "drive", "learn", "edge"


def kept(folder: Path) -> Processes:
    """Makes what keeps the demo's processes; the name of each is that of its log in a folder."""
    return Processes((), Logs(folder, complain), environment=dict.fromkeys(OTHERS))


def _start(processes: Processes, name: str, *words: str) -> None:
    """Starts ``python -m WORDS``; its output goes behind what is in the log."""
    processes.start(Workload(name, (sys.executable, "-m", *words), restart=NEVER, grace=GOODBYE))


class Robot:
    """A robot of the demo: three processes, and the link to the cloud that all of them use.

    Args:
        given: what it is.
        folder: of its own, in that of the demo.
        processes: that it adds its own to.
        port: of the cloud, on this machine.

    Attributes:
        down: it is switched off.
    """

    def __init__(self, given: Given, folder: Path, processes: Processes, port: int) -> None:
        self.given, self.folder = given, folder
        self._processes, self.down = processes, False
        self.link = Relay(port)
        given.write(folder)

    @property
    def name(self) -> str:
        """Of the robot, in its fleet."""
        return self.given.name

    def drive(self) -> None:
        """Starts driving, and the edge."""
        self._start(DRIVE, "brain_training.fleet_demo.driver", "--folder", str(self.folder))
        self._start(EDGE, "brain_edge.processes.run_edge", "--name", self.name, "--cloud", self._cloud, "--folder",
                    str(self.folder / "edge"), "--router", f"tcp/127.0.0.1:{free_port()}")

    def learn(self) -> None:
        """Starts ``brain fleet learn``."""
        self._start(LEARN, "brain_cloud.processes.run_learn", "--learner", "driving", "--data", str(self.folder),
                    "--labels", TEACHER, "--seed", str(self.given.number), "--name", self.name, "--cloud", self._cloud)

    def die(self) -> None:
        """All its processes are killed, in the middle of what they do."""
        self.down = True
        for name in self.parts:
            self._processes.kill(name)
        self._processes.wait(None, lambda found: set(self.parts) <= found.keys())

    def rise(self) -> None:
        """It is switched on again."""
        self.down = False
        self.drive()
        self.learn()

    @property
    def parts(self) -> list[str]:
        """Names of its processes."""
        return [f"{self.name}/{part}" for part in (DRIVE, LEARN, EDGE)]

    @property
    def _cloud(self) -> str:
        return f"tcp/127.0.0.1:{self.link.port}"

    def _start(self, part: str, *words: str) -> None:
        _start(self._processes, f"{self.name}/{part}", *words)


class Cloud:
    """``brain cloud --learn``, and what is asked of it.

    Args:
        processes: that it adds its own to.
        folder: of the demo.

    Attributes:
        port: where it listens on this machine.
    """

    def __init__(self, processes: Processes, folder: Path) -> None:
        self.port = free_port()
        self._processes, self._folder = processes, folder
        self._asking: Asking | None = None

    def start(self, plan: dict[str, Any]) -> None:
        """Starts it, with the plan of what the fleet learns together."""
        path = self._folder / "plan.yaml"
        path.write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")     # JSON is YAML
        _start(self._processes, "cloud", "brain_cloud.processes.run_cloud", "--listen", f"tcp/127.0.0.1:{self.port}",
               "--folder", str(self._folder / "cloud"), "--learn", str(path))

    def look(self) -> tuple[dict[str, Any], dict[str, str]] | None:
        """Asks the cloud what the fleet learns together, and each robot's state by name; None: no answer just now."""
        try:
            if self._asking is None:
                if not _listens(self.port):     # where nobody does, a session says on the terminal what to start
                    return None
                self._asking = Asking(f"tcp/127.0.0.1:{self.port}", None)
            learning = self._asking("learning")["learning"]
            robots = {one["robot"]: one["state"] for one in self._asking("robots")["robots"]}
        except (NoCloud, SessionProblem):
            return None
        return None if learning is None else (learning, robots)

    def close(self) -> None:
        """Asks nothing more."""
        if self._asking is not None:
            self._asking.close()


def _listens(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0

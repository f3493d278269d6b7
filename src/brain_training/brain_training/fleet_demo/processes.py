# SPDX-License-Identifier: Apache-2.0
"""The demo's processes: a cloud, and for each robot one that drives, one that learns and its edge, over a link.

They end with the process that has started them, however it ends: who is killed cannot end them, so the kernel does.
"""
from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from brain_training.fleet_demo.robot_folder import TEACHER, Given
from brain_fleet.checks.relay import Relay
from brain_fleet.processes.asking import Asking, NoCloud
from brain_fleet.processes.settings import CLOUD_VARIABLE, SECURITY_VARIABLE, TOKEN_VARIABLE
from brain_runtime.run import end_with_parent
from brain_runtime.run.loop import ONE_THREAD
from brain_wire import SessionProblem
from brain_wire.router import free_port

GOODBYE = 8.0       # s that processes get to end in good order
# What an outer environment might say is not to choose the links of the demo.
OTHERS = ("BRAIN_ROUTER", "BRAIN_SECURITY", CLOUD_VARIABLE, SECURITY_VARIABLE, TOKEN_VARIABLE)
DRIVE, LEARN, EDGE = "drive", "learn", "edge"


class Processes:
    """Processes by name, each with a log in a folder. Make it, and start them, in the main thread."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, log: Path, *words: str) -> None:
        """Starts ``python -m WORDS``; its output goes behind what is in the log."""
        environment = {**ONE_THREAD, **{key: value for key, value in os.environ.items() if key not in OTHERS}}
        with log.open("ab") as file:
            self._running[name] = subprocess.Popen(
                [sys.executable, end_with_parent.__file__, str(os.getpid()), sys.executable, "-m", *words],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment,
                start_new_session=True)     # Ctrl-C is for who has started it, who then ends it

    def kill(self, name: str) -> None:
        """SIGKILL, and waits until it is gone."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def ended(self) -> dict[str, int]:
        """Status of those that have ended by themselves, by name."""
        return {name: status for name, process in self._running.items() if (status := process.poll()) is not None}

    def pids(self) -> dict[str, int]:
        """Those that run."""
        return {name: process.pid for name, process in self._running.items()}

    def close(self) -> None:
        """Ends all: in good order, or else by SIGKILL."""
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + GOODBYE
        for process in self._running.values():
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()


class Robot:
    """A robot of the demo: three processes, and the link to the cloud that all of them use.

    Args:
        given: what it is.
        folder: of its own.
        processes: that it adds its own to.
        port: of the cloud, on this machine.
    """

    def __init__(self, given: Given, folder: Path, processes: Processes, port: int) -> None:
        self.given, self.folder = given, folder
        self._processes = processes
        self.link = Relay(port)
        given.write(folder)

    @property
    def name(self) -> str:
        """Of the robot, in its fleet."""
        return self.given.name

    def drive(self) -> None:
        """Starts driving, and the edge."""
        self._start(DRIVE, "brain_training.fleet_demo.driver", "--folder", str(self.folder))
        self._start(EDGE, "brain_fleet.processes.run_edge", "--name", self.name, "--cloud", self._cloud, "--folder",
                    str(self.folder / "edge"), "--router", f"tcp/127.0.0.1:{free_port()}")

    def learn(self) -> None:
        """Starts ``brain fleet learn``."""
        self._start(LEARN, "brain_fleet.processes.run_learn", "--learner", "driving", "--data", str(self.folder),
                    "--labels", TEACHER, "--seed", str(self.given.number), "--name", self.name, "--cloud", self._cloud)

    def die(self) -> None:
        """All its processes are killed, in the middle of what they do."""
        for part in (DRIVE, LEARN, EDGE):
            self._processes.kill(f"{self.name} {part}")

    def rise(self) -> None:
        """It is switched on again."""
        self.drive()
        self.learn()

    @property
    def _cloud(self) -> str:
        return f"tcp/127.0.0.1:{self.link.port}"

    def _start(self, part: str, *words: str) -> None:
        self._processes.start(f"{self.name} {part}", self.folder / f"{part}.log", *words)


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
        self._processes.start("cloud", self._folder / "cloud.log", "brain_fleet.processes.run_cloud", "--listen",
                              f"tcp/127.0.0.1:{self.port}", "--folder", str(self._folder / "cloud"), "--learn",
                              str(path))

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

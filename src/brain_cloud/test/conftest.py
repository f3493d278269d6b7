# SPDX-License-Identifier: Apache-2.0
"""A cloud and robots as processes, which are killed, cut off, and given other databases."""
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from forked import Forked
from brain_cloud.checks.relay import Relay
from brain_edge.processes.asking import Asking, NoCloud
from brain_edge.reading import Reading
from brain_wire.router import free_port

PROGRAMS = Path(__file__).parent / "programs"
sys.path.insert(0, str(PROGRAMS))       # what tests share
PATIENCE = 240.0     # s; only ends a hang
# What an outer environment might say is not to choose the links of these tests.
OTHERS = ("BRAIN_ROUTER", "BRAIN_SECURITY", "BRAIN_CLOUD", "BRAIN_FLEET_SECURITY", "ZENOH_SESSION_CONFIG_URI",
          "ZENOH_CONFIG_OVERRIDE", "ROS_DOMAIN_ID")


def until(what: Callable[[], Any], told: Callable[[], object] = lambda: "") -> Any:
    """What ``what`` returns, as soon as that is something."""
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, f"it never came about: {told()}"
        time.sleep(0.05)
    return found


class Fleet:
    """Processes of one fleet; all are ended at the end.

    Attributes:
        whole: interpreters of their own, as the product starts them; else forks of one that has imported them.
    """

    whole = False

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.brain_port = folder, free_port(), free_port()
        self.secure: Path | None = None
        self.relay = Relay(self.port)
        self._token = ""
        self.more: dict[str, list[str]] = {}    # words that a process is given besides, by its name
        self._running: dict[str, Forked | subprocess.Popen[bytes]] = {}

    @property
    def protocol(self) -> str:
        return "tcp" if self.secure is None else "tls"

    def _start(self, name: str, *words: str) -> None:
        environment = {key: value for key, value in os.environ.items() if key not in OTHERS}
        environment["ROS_DOMAIN_ID"] = str(self.brain_port % 200)
        environment["PYTHONPATH"] = os.pathsep.join([str(PROGRAMS), environment.get("PYTHONPATH", "")])
        if self._token:
            environment["BRAIN_FLEET_TOKEN"] = self._token
        elif self.secure is not None and words[0].startswith(("brain_edge", "brain_cloud")):
            words = (*words, "--secure", str(self.secure))
        words = (*words, *self.more.get(name, ()))
        if not self.whole:
            self._running[name] = Forked("-m", *words, log=self.log(name), environment=environment)
            return
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen([sys.executable, "-m", *words], stdout=log, stderr=log,
                                                   env=environment)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text() if self.log(name).exists() else ""

    def database(self, name: str) -> Path:
        return self.folder / name

    def cloud(self, *words: str) -> None:
        if self.secure is not None and "--door" not in words:
            words = (*words, "--door", f"127.0.0.1:{free_port()}")
        self._start("cloud", "brain_cloud.processes.run_cloud", "--listen", f"{self.protocol}/127.0.0.1:{self.port}",
                    "--folder", str(self.database("cloud")), *words)

    def edge(self, name: str = "robot1", cut: bool = True, folder: str | None = None, token: str = "",
             door: int | None = None, program: str = "brain_edge.processes.run_edge") -> None:
        """Starts a robot's edge, behind the link that can be cut; with a token in place of the fleet's keys."""
        port = self.relay.port if cut else self.port
        more = () if door is None else ("--door", f"localhost:{door}")
        self._token = token
        self._start(folder or name, program, "--name", name, "--cloud",
                    f"{self.protocol}/127.0.0.1:{port}", "--folder", str(self.database(folder or name)), "--router",
                    f"tcp/127.0.0.1:{self.brain_port}", *more)
        self._token = ""

    def brain_router(self) -> None:
        self._start(f"router {self.brain_port}", "brain_wire.router", "--listen", f"tcp/127.0.0.1:{self.brain_port}")

    def region(self) -> None:
        self._start("gauge", "brain_runtime.process", "--class", "gauge:Gauge", "--name", "gauge", "--router",
                    f"tcp/127.0.0.1:{self.brain_port}")

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def end(self, name: str, how: int = signal.SIGKILL) -> int:
        process = self._running.pop(name)
        process.send_signal(how)
        return process.wait(PATIENCE)

    def ends(self, name: str) -> int:
        """Waits until it ends by itself; its status."""
        return self._running.pop(name).wait(PATIENCE)

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        """Asks the cloud, as soon as it answers."""
        def attempt() -> dict[str, Any] | None:
            try:
                with Asking(f"{self.protocol}/localhost:{self.port}", self.secure) as asking:
                    return asking(do, **more)
            except NoCloud as problem:
                if "no cloud" in str(problem):
                    return None
                raise
        return until(attempt, lambda: self.said("cloud"))

    def robot(self, name: str = "robot1") -> dict[str, Any]:
        found = [one for one in self.ask("robots")["robots"] if one["robot"] == name]
        return found[0] if found else {"state": "never came", "resources": {}}

    def until_robot(self, name: str = "robot1", **wanted: Any) -> dict[str, Any]:
        """The robot, once the cloud says of it what is wanted."""
        return until(lambda: (found := self.robot(name)).items() >= wanted.items() and found,
                     lambda: (self.robot(name), wanted, self.said("cloud"), self.said(name)))

    def until_said(self, name: str, text: str) -> None:
        """Waits for a line in a process's log: it is written after what it tells of was done."""
        until(lambda: text in self.said(name), lambda: self.said(name))

    def here(self, name: str = "robot1") -> dict[str, Any]:
        """What a robot knows by itself."""
        with Reading(self.database(name)) as reading:
            return reading.status()

    def keep_copy(self, name: str) -> None:
        """A backup of a database whose process has ended."""
        shutil.copytree(self.database(name), self.folder / f"{name}.backup")

    def restore(self, name: str) -> None:
        shutil.rmtree(self.database(name))
        shutil.move(self.folder / f"{name}.backup", self.database(name))

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait(PATIENCE)
        self.relay.close()


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """No process yet."""
    for name in OTHERS:
        monkeypatch.delenv(name, raising=False)
    found = Fleet(tmp_path)
    yield found
    found.close()


def wanted(name: str = "calm", robots: Any = ("robot1",), region: str = "gauge", **values: Any) -> dict[str, Any]:
    """Parameters of a region, as a manifest."""
    return {"apiVersion": "fleet.brain/v1", "kind": "Parameters", "metadata": {
        "name": name, "robots": robots if isinstance(robots, str) else list(robots)},
        "spec": {"region": region, "values": values or {"gain": 0.5}}}


@pytest.fixture(name="wanted")
def wanted_fixture() -> Callable[..., dict[str, Any]]:
    return wanted


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., Any]:
    return until


@pytest.fixture
def events(fleet: Fleet) -> Callable[[], list[str]]:
    """What the cloud has written down."""
    return lambda: [one["text"] for one in fleet.ask("logs")["events"]]


@pytest.fixture
def computing(fleet: Fleet) -> Iterator[Callable[[], str | None]]:
    """The first digits of the weights that the region motor computes with, as its heartbeat says."""
    from brain_edge.models.goals import GoalWatch
    from brain_wire import Node, open_session

    with open_session(f"tcp/127.0.0.1:{fleet.brain_port}", identity="looker", patience=60.0) as session, \
            Node(session, "looker", "/", fleet.brain_port % 200) as node:
        watch = GoalWatch(node, lambda ended: None)
        yield lambda: watch.weights().get("motor")


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Any]:
    """A runner of jobs in this process, which leaves nothing running."""
    from local_jobs import Jobs, left

    found = Jobs(tmp_path / "runner")
    yield found
    found.runner.stop()
    assert left(tmp_path) == []

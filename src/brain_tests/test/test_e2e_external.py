# SPDX-License-Identifier: Apache-2.0
"""One brain of two `brain up`s: each runs a half of the graph and waits for the other's."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from brain_tests import in_process
from brain_wire.router import free_port

pytestmark = pytest.mark.slow

PATIENCE = 240.0     # s; only against waiting for ever
BODY = ("world", "camera", "motor", "brainstem", "introspection")
MIND = ("vision", "language", "place", "pfc", "goals")
CONTROL = "10 regions are up and the robot is under control"
ARENA = ("--world", "arena", "--split", "val", "--seed", "2")
TOYS = """
from brain_runtime import FEATURE, Out, Region

class Ticks(Region):
    rate = 10.0
    tick = Out("tick", "std_msgs/msg/String", FEATURE)

    def step(self, inbox, state, dt, rng):
        return {"tick": self.tick(data=self.name)}, state
"""


class Halves:
    """Two `brain up`s of the same words in one domain, on the router of the first."""

    def __init__(self, folder: Path, words: tuple[str, ...] = ARENA) -> None:
        self.words = words
        port = free_port()
        self.folder = folder
        self.environment = {**os.environ, "ROS_DOMAIN_ID": str(port % 200), "XDG_STATE_HOME": str(folder),
                            "BRAIN_ROUTER": f"tcp/127.0.0.1:{port}",
                            "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.ups: dict[str, subprocess.Popen] = {}

    def up(self, name: str, external: tuple[str, ...]) -> None:
        with open(self.folder / f"{name}.out", "wb") as output:
            self.ups[name] = subprocess.Popen(
                [sys.executable, "-m", "brain", "up", "--with-parent", *self.words, "--external", ",".join(external),
                 "--run-dir", str(self.folder / name), "--state-dir", str(self.folder / f"{name}.state")],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def text(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()

    def brain(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-m", "brain", *arguments], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)

    def status(self) -> tuple[dict[str, dict], list[str]]:
        graph = ("--graph", self.words[0]) if self.words is not ARENA else ()
        done = in_process.brain("status", "--json", "--seconds", "1", *graph, environment=self.environment)
        found = json.loads(done.stdout) if done.stdout else {"regions": [], "missing": []}
        return {r["name"].strip("/"): r for r in found["regions"]}, found["missing"]

    def until(self, condition) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "\n".join(map(self.text, self.ups))
            time.sleep(0.2)

    def close(self) -> None:
        for up in self.ups.values():
            up.send_signal(signal.SIGINT)
        for up in self.ups.values():
            up.wait(PATIENCE)


@pytest.fixture
def halves(tmp_path: Path):
    made = Halves(tmp_path)
    yield made
    made.close()


def test_two_halves_of_toys_are_one_brain_and_each_looks_after_its_own(tmp_path: Path) -> None:
    (tmp_path / "toys.py").write_text(TOYS)
    (graph := tmp_path / "toys.graph.yaml").write_text("regions: {left: 'toys:Ticks', right: 'toys:Ticks'}\n")
    halves = Halves(tmp_path, (str(graph), "--world", "none"))
    halves.environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), halves.environment["PYTHONPATH"]])
    try:
        halves.up("one", ("right",))
        halves.until(lambda: {n for n, r in halves.status()[0].items() if r["state"] == "active"} == {"left"})
        assert halves.status()[1] == ["/right"], "what is external is expected all the same"
        assert "2 regions are up" not in halves.text("one")
        halves.up("other", ("left",))
        for name in halves.ups:
            halves.until(lambda: "2 regions are up" in halves.text(name))       # noqa: B023 - used within the round

        right = halves.status()[0]["right"]["pid"]
        os.kill(right, signal.SIGKILL)
        halves.until(lambda: (now := halves.status()[0].get("right", {"pid": right}))["pid"] != right
                     and now["state"] == "active")
        assert "right ended" in halves.text("other") and "right ended" not in halves.text("one")

        halves.ups["other"].send_signal(signal.SIGINT)
        halves.ups["other"].wait(PATIENCE)
        halves.until(lambda: halves.status()[1] == ["/right"])
        assert halves.ups["one"].poll() is None
        assert "right" not in {log.stem for log in (halves.folder / "one" / "logs").iterdir()}
    finally:
        halves.close()


@pytest.mark.extended
def test_two_halves_are_one_brain_and_each_looks_after_its_own(halves: Halves) -> None:
    halves.up("body", MIND)
    halves.until(lambda: {n for n, r in halves.status()[0].items() if r["state"] == "active"} == set(BODY))
    assert {name.strip("/") for name in halves.status()[1]} == set(MIND), "what is external is expected all the same"
    assert CONTROL not in halves.text("body")
    halves.up("mind", BODY)
    for name in halves.ups:
        halves.until(lambda: CONTROL in halves.text(name))
    done = halves.brain("say", "go to the red ball", "--wait", "60")
    assert done.returncode == 0, done.stdout + done.stderr

    vision = halves.status()[0]["vision"]["pid"]
    os.kill(vision, signal.SIGKILL)
    halves.until(lambda: (now := halves.status()[0].get("vision", {"pid": vision}))["pid"] != vision
                 and now["state"] == "active")
    assert "vision ended" in halves.text("mind") and "vision" not in halves.text("body")

    halves.ups["mind"].send_signal(signal.SIGINT)
    halves.ups["mind"].wait(PATIENCE)
    halves.until(lambda: set(MIND) <= {name.strip("/") for name in halves.status()[1]})
    assert halves.ups["body"].poll() is None
    assert not set(MIND) & {log.stem for log in (halves.folder / "body" / "logs").iterdir()}


def test_a_name_that_is_no_region_and_a_half_that_is_nothing_are_refused(halves: Halves) -> None:
    for external, says in ((("eyes",), "has no region 'eyes'; it has"), ((*BODY, *MIND), "all regions are external")):
        done = halves.brain("up", "--world", "arena", "--external", ",".join(external))
        assert done.returncode == 1 and says in done.stderr, done.stderr

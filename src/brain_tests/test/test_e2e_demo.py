# SPDX-License-Identifier: Apache-2.0
"""`brain demo` from start to end on a real (pseudo) terminal: both sentences, a turn of one's own, a region killed."""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from brain_wire.router import free_port

PATIENCE = 240.0    # s; only against waiting for ever

pytestmark = pytest.mark.slow


class Terminal:
    """A command on a terminal of 120 columns and, where the environment says no other, 50 lines."""

    def __init__(self, argv, environment):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        self.process = subprocess.Popen(argv, env=environment, stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True)
        os.close(slave)
        self.raw = b""

    @property
    def text(self):
        """All that was written, without the terminal's control sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.raw.decode("utf-8", "replace"))

    def read(self, seconds=0.2):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.raw += os.read(self.master, 65536)
            except OSError:
                return False  # the other end is closed
        return True

    def until(self, words):
        end = time.monotonic() + PATIENCE
        while words not in self.text:
            assert self.read() and time.monotonic() < end, f"never said {words!r}:\n{self.text[-3000:]}"
        return self.text

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        while self.read(0.1) and select.select([self.master], [], [], 0)[0]:
            continue
        return self.process.wait(1.0)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


@pytest.fixture
def environment():
    port = free_port()
    return {**os.environ, "ROS_DOMAIN_ID": str(port % 200), "BRAIN_ROUTER": f"tcp/127.0.0.1:{port}",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TERM": "xterm-256color", "COLUMNS": "120",
            "LINES": "24"}      # what people have at least


def only_run(folder):
    runs = list(folder.glob("[0-9]*"))
    assert len(runs) == 1
    return runs[0]


def test_the_demo_reaches_both_takes_a_turn_and_survives_a_kill(environment, tmp_path):
    terminal = Terminal([sys.executable, "-m", "brain", "demo", "--runs", str(tmp_path / "runs")], environment)
    try:
        terminal.until("the robot is under control")
        terminal.until("Your turn:")
        assert "NOT reached" not in terminal.text, terminal.text[-3000:]
        terminal.type("what time is it?\r")
        terminal.until("is no order")
        terminal.type("\u6b62\u307e\u3063\u3066\r")     # stop, in Japanese
        terminal.until(": stopped")
        terminal.type("2")
        terminal.until("killing vision")
        terminal.until("vision started: process")
        terminal.type("\r")
        assert terminal.end() == 0, terminal.text[-3000:]
    finally:
        terminal.close()
    assert "both reached: red ball after" in terminal.text.strip().splitlines()[-1]
    run = only_run(tmp_path / "runs")
    from PIL import Image

    for name in ("trajectory.png", "spikes.png", "demo.gif"):
        with Image.open(run / name) as picture:
            picture.load()
            assert picture.width > 400 and len(picture.convert("RGB").resize((64, 64)).getcolors(4096)) > 20
    assert (run / "demo.gif").stat().st_size < 5_000_000
    summary = json.loads((run / "summary.json").read_text())
    assert summary["reached"] is True and [s["reached"] for s in summary["sentences"]] == [True, True]
    assert summary["cpu"] and len(summary["suite_hash"]) == 64 and summary["versions"]["torch"]
    assert summary["moved_after"] is not None and summary["invariants"]["violations"] == 0
    logs = {p.name for p in (run / "logs").iterdir()}
    assert logs == {f"{n}.log" for n in ("router", "world", "camera", "vision", "language", "place", "pfc", "motor",
                                         "goals", "brainstem", "introspection", "supervisor")}


@pytest.mark.extended       # the next test shows where it is written, brain_eval's test_listening.py which part it is
def test_a_demo_that_fails_says_which_part_why_and_where_it_is_written(environment, tmp_path):
    """With a language that cannot start, the last line names it and its log."""
    (tmp_path / "mute.py").write_text(
        "from brain_regions.language import Language\n\nclass Mute(Language):\n"
        "    def step(self, inbox, state, dt, rng):\n        return {}, state\n")
    from brain_runtime.graph.graphs import find_graph

    shipped = find_graph("brain").read_text()
    graph = tmp_path / "mute.graph.yaml"
    graph.write_text(re.sub(r"language: \S+", "language: mute:Mute", shipped))
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    done = subprocess.run(
        [sys.executable, "-c", "import brain_eval.demo as d; d.LEG = d.LEGS = 3.0; from brain.cli import main; main()",
         "demo", "--graph", str(graph), "--runs", str(tmp_path / "runs")], env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    run = only_run(tmp_path / "runs")
    assert last.startswith("failed: language: it did not take the sentence up")
    log = run / "logs" / "language.log"
    assert Path(last.rsplit("see ", 1)[1]) == log and log.is_file()


def test_a_demo_whose_region_cannot_start_names_it_its_reason_and_its_log(environment, tmp_path):
    (tmp_path / "broken.py").write_text(
        "from brain_regions.place import Place\n\nclass Broken(Place):\n"
        "    def configure(self, parameters):\n        raise RuntimeError('a part is missing')\n")
    from brain_runtime.graph.graphs import find_graph

    graph = tmp_path / "broken.graph.yaml"
    graph.write_text(re.sub(r"place: \S+", "place: broken:Broken", find_graph("brain").read_text()))
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "brain", "demo", "--graph", str(graph), "--runs", str(tmp_path / "runs")],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    log = only_run(tmp_path / "runs") / "logs" / "place.log"
    assert "place is unconfigured (place failed to configure: RuntimeError: a part is missing" in last
    assert str(log) in last
    assert "a part is missing" in log.read_text()

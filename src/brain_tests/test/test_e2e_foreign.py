# SPDX-License-Identifier: Apache-2.0
"""Text of peers and people, full disks and Ctrl-C against a running `brain up`: it goes on, and says what is true."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from brain_tests import in_process
from brain_wire.router import free_port
from brain_runtime import LATCHED
from brain_runtime.contract import heartbeat
from brain_wire import messages
from brain_wire import open_node
from brain_wire.qos import STREAM

pytestmark = pytest.mark.slow

NASTY = "[/nope] \x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
REGIONS = r'''
from brain_runtime import FEATURE, LATCHED, In, Out, Region

class Rude(Region):
    rate = 5.0
    said = Out("said", "std_msgs/msg/String", FEATURE)

    def step(self, inbox, state, dt, rng):
        raise RuntimeError("\nERROR all is lost\n"
                           "cannot open [/etc/map.yaml] [red]x[/green] \x1b[2J\x1b]0;owned\x07\x9b31m")

class Mind(Region):
    """Takes up every goal and never gets there."""
    rate = 5.0
    goal = In("goal/text", "std_msgs/msg/String", LATCHED, device=True)
    status = Out("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED)

    def step(self, inbox, state, dt, rng):
        if not inbox.new("goal"):
            return {}, state
        return {"status": self.status(goal_id=1, state=1, text=inbox.get("goal").data,
                                      reason="looking [/for] \x1b[2J it")}, state
'''
GRAPH = "name: foreign\nregions:\n  mind: foreign:Mind\n  rude: foreign:Rude\n"
CALM = "name: calm\nregions:\n  mind: foreign:Mind\n"
PATIENCE = 240.0     # s; only against waiting for ever


class Place:
    """A folder with graphs, where the command runs as a process."""

    def __init__(self, folder):
        self.folder, self.port, self.started = folder, free_port(), []
        (folder / "foreign.py").write_text(REGIONS)
        (folder / "foreign.graph.yaml").write_text(GRAPH)
        (folder / "calm.graph.yaml").write_text(CALM)
        self.domain = self.port % 200
        self.router = f"tcp/127.0.0.1:{self.port}"
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
                            "ROS_DOMAIN_ID": str(self.domain), "BRAIN_ROUTER": self.router,
                            "XDG_STATE_HOME": str(folder / "home"), "NO_COLOR": "1", "COLUMNS": "250"}

    def start(self, *arguments, stdout=None, stderr=None):
        output = open(self.folder / f"{len(self.started)}.out", "wb") if stdout is None else stdout
        process = subprocess.Popen(
            [sys.executable, "-m", "brain", *arguments, *(["--with-parent"] if arguments[0] == "up" else [])],
            env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=stderr or output)
        output.close()
        self.started.append(process)
        return process

    def brain(self, *arguments):
        return subprocess.run([sys.executable, "-m", "brain", *arguments], env=self.environment, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)

    def text(self, number=0):
        return (self.folder / f"{number}.out").read_bytes()

    def until(self, condition, *, of=0):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.started[of].poll() is None, self.text(of).decode(errors="replace")
            assert time.monotonic() < end, self.text(of).decode(errors="replace")
            time.sleep(0.1)

    def states(self):
        done = in_process.brain("status", "--graph", str(self.folder / "calm.graph.yaml"), "--seconds", "0.5", "--json",
                                environment=self.environment)
        return {r["name"]: r["state"] for r in json.loads(done.stdout)["regions"]} if done.stdout else {}


@pytest.fixture
def place(tmp_path):
    found = Place(tmp_path)
    yield found
    for process in found.started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)


def safe(text):
    """Whether nothing of a text would steer a terminal."""
    decoded = text.decode()
    return not any(c in decoded for c in "\x1b\x07\x9b\u202e\x85") and "\r" not in decoded


def test_what_regions_and_peers_write_ends_nothing_and_reaches_no_terminal_raw(place):
    up = place.start("up", "foreign.graph.yaml", "--world", "none", "--run-dir", "run")
    place.until(lambda: place.text().count(b"cannot open [/etc/map.yaml]") >= 2)
    with open_node("outside", domain=place.domain, router=place.router) as node:
        beats = node.publisher("brain/heartbeat", heartbeat.TYPE, STREAM)
        listing = subprocess.Popen([sys.executable, "-m", "brain", "status", "--graph", "calm.graph.yaml", "--seconds",
                                    "3"], env=place.environment, cwd=place.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        end = time.monotonic() + PATIENCE
        while listing.poll() is None or b"another process, 7" not in place.text():
            assert time.monotonic() < end and up.poll() is None, place.text()
            for name in ("/rude", f"/{NASTY}"):
                beats.publish(messages.make(heartbeat.TYPE, name=name, host=NASTY, hostname=NASTY, reason=NASTY, pid=7,
                                            state=3, inputs=[NASTY], input_ages=[1.0]))
            time.sleep(0.1)
        out, err = listing.communicate(timeout=PATIENCE)
        assert b"[/nope]" in out and safe(out) and b"Traceback" not in err, err
    assert up.poll() is None and place.states()["/mind"] == "active"
    told = place.text()
    assert b"another process, 7 on [/nope] \\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\u202e" in told
    assert safe(told) and b"Traceback" not in told and b"\nERROR all" not in told
    for log in (place.folder / "run" / "logs").glob("*.log"):
        if log.name != "supervisor.log":
            assert safe(log.read_bytes()) and b"\nERROR all" not in log.read_bytes(), log


def test_an_answer_is_safe_and_ctrl_c_says_that_the_goal_stands(place):
    place.start("up", "calm.graph.yaml", "--world", "none", "--run-dir", "run")
    place.until(lambda: b"1 region is up" in place.text())
    assert b"there is no brainstem in the graph" in place.text() and b"robot is under control" not in place.text()
    done = place.brain("say", "go to [/x] \x1b[2J")
    assert done.returncode == 0 and b"looking [/for] \\x1b[2J it" in done.stdout and safe(done.stdout)
    with open_node("looks", domain=place.domain, router=place.router) as node:
        statuses = node.subscription("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED)
        assert statuses.wait(PATIENCE)      # of the goal before
        for more in ((), ("--json",)):
            say = place.start("say", "go on", "--wait", "60", *more)
            heard = len(place.started) - 1
            statuses.take()
            assert statuses.wait(PATIENCE)
            time.sleep(1.0)     # it has heard so too
            say.send_signal(signal.SIGINT)
            assert say.wait(PATIENCE) == 130
            told = place.text(heard).decode()
            assert "the goal still stands" in told and "brain say stop" in told and "Traceback" not in told
            if more:
                assert json.loads(told)["status"] == 130 and json.loads(told)["state"] == "searching"


def test_a_full_disk_behind_the_terminal_does_not_end_the_brain(place):
    up = place.start("up", "calm.graph.yaml", "--world", "none", "--run-dir", "run", stdout=open("/dev/full", "wb"),
                     stderr=open(place.folder / "err", "wb"))
    place.until(lambda: place.states().get("/mind") == "active")
    os.kill(int(next(r["pid"] for r in json.loads(place.brain(
        "status", "--graph", "calm.graph.yaml", "--json").stdout)["regions"])), signal.SIGKILL)
    time.sleep(1.0)
    place.until(lambda: place.states().get("/mind") == "active")
    assert up.poll() is None
    up.send_signal(signal.SIGINT)
    up.wait(PATIENCE)
    told = (place.folder / "err").read_text()
    assert "No space left on device" in told and told.count("; the brain goes on") <= 2 and "Traceback" not in told


def test_what_runs_already_is_refused_by_up_and_by_run(place):
    place.start("up", "calm.graph.yaml", "--world", "none", "--run-dir", "run", "--state-dir", "state", "--json",
                stderr=open(place.folder / "err", "wb"))
    place.until(lambda: place.text())
    told = json.loads(place.text())
    assert told["ready"] and not told["under_control"] and told["regions"] == ["/mind"]
    assert told["run_dir"] == str(place.folder / "run") and told["router"] == place.router
    for words in (("foreign:Rude", "--name", "mind"), ("mind", "--graph", "calm.graph.yaml"),
                  ("foreign:Rude", "--ros-args", "-r", "__node:=mind")):
        done = place.brain("run", *words)
        assert done.returncode == 1 and b"/mind is running already in domain" in done.stderr, done.stderr
    again = ("up", "calm.graph.yaml", "--world", "none")
    assert b"/mind is running already" in place.brain(*again).stderr
    elsewhere = (*again, "--domain", str(place.domain + 1))     # another brain, but the same folders
    for option in ("--run-dir", "--state-dir"):
        done = place.brain(*elsewhere, option, option.strip("-").removesuffix("-dir"))
        assert done.returncode == 1 and b"a brain that is running uses " in done.stderr, done.stderr
    # below another name or namespace there is room
    other = place.start("run", "foreign:Mind", "--name", "other", "--json", stderr=open(place.folder / "err2", "wb"))
    place.until(lambda: place.states().get("/other") == "active", of=1)
    assert json.loads(place.text(1)) == {"node": "/other", "class": "foreign:Mind", "hears": ["goal/text"],
                                         "says": ["goal/status"]}
    assert other.poll() is None


@pytest.mark.extended(())       # what stands in the room that is the usual one, test_e2e_demo.py shows
@pytest.mark.parametrize(("room", "says"), [((), "go to the red ball"),
                                            (("--split", "val", "--seed", "0"), "go to the yellow ball")])
def test_the_example_names_what_stands_in_the_room(place, room, says):
    place.start("up", "--run-dir", "run", "--json", *room, stderr=open(place.folder / "err", "wb"))
    place.until(place.text)
    told = json.loads(place.text())
    assert told["under_control"] and told["example"] == says
    said = (place.folder / "err").read_text()
    assert f'brain say --router {place.router} --domain {place.domain} "{says}".' in said


def test_latched_goals_of_others_are_safe_in_the_view(place):
    place.start("up", "calm.graph.yaml", "--world", "none", "--run-dir", "run")
    place.until(lambda: b"1 region is up" in place.text())
    with open_node("outside", domain=place.domain, router=place.router) as node:
        goal = node.publisher("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED)
        goal.publish(messages.make("brain_interfaces/msg/GoalStatus", goal_id=9, state=1, text=NASTY, reason=NASTY))
        done = place.brain("say", NASTY, "--wait", "2")
    assert done.returncode == 1 and safe(done.stdout) and b"Traceback" not in done.stderr

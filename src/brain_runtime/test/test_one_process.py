# SPDX-License-Identifier: Apache-2.0
"""Regions in one process: each is told apart, fails and begins anew alone; all end at a signal."""
import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from brain_runtime import FEATURE, LATCHED
from brain_runtime.graph.command_lines import apart, command, one_process
from brain_runtime.graph.dry_run import lines
from brain_runtime.contract.heartbeat import ACTIVE, ERROR
from brain_runtime.run.health import Limits
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_runtime.run.workload import Workload
from brain_runtime.supervision.supervised_brain import ONE_PROCESS, region_children
from brain_runtime.supervision.supervisor import Heartbeats, Supervisor, Together
from brain_wire import messages, open_node
from brain_wire.router import Router, free_port

STRING = "std_msgs/msg/String"
PATIENCE = 240.0     # s; only against waiting for ever
TOYS = '''
import logging
from dataclasses import dataclass
from brain_runtime import FEATURE, LATCHED, In, Out, Region, parameter

class Toy(Region):
    """Says its word once, and tells the log what it hears; raises if that is its own name."""
    rate = 20.0
    word = Out("word", "std_msgs/msg/String", LATCHED)
    heard = In("heard", "std_msgs/msg/String", FEATURE, trigger=True, device=True)

    @dataclass(frozen=True)
    class Parameters:
        text: str = parameter("none", "what it says")

    def step(self, inbox, state, dt, rng):
        if inbox.new("heard"):
            logging.info("I heard %s", inbox.get("heard").data)
            if inbox.get("heard").data == self.name:
                raise ValueError("that is me")
        return {"word": self.word(data=self.parameters.text)}, state
'''


class Process:
    """A process of three toys, one of which cannot start, and a node beside it."""

    def __init__(self, folder):
        port = free_port()
        self.endpoint, self.domain, self.log = f"tcp/127.0.0.1:{port}", port % 200, folder / "log"
        (folder / "toys.py").write_text(TOYS)
        self.router = Router([self.endpoint])
        ros = ["--ros-args", "-r", "__ns:=/robot", "-r", "word:=%s_word", "-p", "text:=I am %s"]
        argv = one_process([["python", "-m", "brain_runtime.process", "--class", f"toys:{cls}", "--name", name,
                             "--router", self.endpoint, *(word % name if "%" in word else word for word in ros)]
                            for name, cls in (("ann", "Toy"), ("bob", "Toy"), ("eve", "Nobody"))])
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *argv[1:]], stdout=log, stderr=log,
                env={**os.environ, "ROS_DOMAIN_ID": str(self.domain),
                     "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])})
        self.exits = contextlib.ExitStack()
        self.node = self.exits.enter_context(open_node("tester", "/robot", domain=self.domain, router=self.endpoint,
                                                       patience=PATIENCE))

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert self.process.poll() is None and time.monotonic() < end, f"never: {what}\n{self.log.read_text()}"
            time.sleep(0.05)
        return found

    def close(self):
        self.exits.close()
        self.process.kill()
        self.process.wait()
        self.router.close()


@pytest.fixture
def toys(tmp_path):
    found = Process(tmp_path)
    yield found
    found.close()


@pytest.mark.slow
def test_each_is_told_apart_and_begins_anew_alone(toys):
    beats = toys.node.subscription("brain/heartbeat", "brain_interfaces/msg/Heartbeat", FEATURE.with_depth(10))
    rosout = toys.node.subscription("/rosout", "rcl_interfaces/msg/Log", LATCHED.with_depth(100))
    say = toys.node.publisher("heard", STRING, FEATURE)
    newest, told = {}, set()

    def listen():
        for beat in beats.messages(timeout=0.1):
            newest[beat.name] = beat
        told.update((one.name, one.msg) for one in rosout.messages(timeout=0.05))
        return newest

    for name in ("ann", "bob"):
        word = toys.node.subscription(f"{name}_word", STRING, LATCHED)
        assert messages.decode(word.wait(PATIENCE)[0].data, STRING).data == f"I am {name}"
    toys.until(lambda: {n for n, b in listen().items() if b.state == ACTIVE} == {"/robot/ann", "/robot/bob"}, "both")
    assert {beat.pid for beat in newest.values()} == {toys.process.pid}
    assert "ERROR [eve] cannot start: region eve: toys has no class 'Nobody'" in toys.log.read_text()
    steps = newest["/robot/ann"].step
    say.publish(messages.make(STRING, data="bob"))
    toys.until(lambda: listen()["/robot/bob"].restarts == 1 and newest["/robot/bob"].state == ACTIVE, "bob, anew")
    toys.until(lambda: listen()["/robot/ann"].step > steps, "ann goes on")
    assert newest["/robot/ann"].restarts == 0
    log = toys.log.read_text()
    assert "INFO [ann] I heard bob" in log and "INFO [bob] I heard bob" in log
    assert "[bob] ended with status 1; starting it again in 0.2 s" in log
    toys.until(lambda: listen() and ("robot.bob", "I heard bob") in told, "bob's line on /rosout")
    assert [name for name, text in told if text.startswith("toys:Toy runs as /robot/ann")] == ["robot.ann"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_every_signal_ends_all_in_good_order(toys, number):
    toys.until(lambda: toys.log.read_text().count("runs as") == 2, "both")
    toys.process.send_signal(number)
    assert toys.process.wait(PATIENCE) == 0, toys.log.read_text()
    assert "Traceback" not in toys.log.read_text()


def region(name, **more):
    return ResolvedRegion(name, f"toys:{name}", **more)


def test_what_moves_stands_apart_or_may_not_be_started_again_has_a_process_of_its_own(tmp_path):
    brain = Resolved("brain", (region("camera", device=True), region("eye"), region("mind"), region("stem", moves=True),
                               region("once", restart="never"), region("wide", shards=2)))
    given = {"seed": 3, "folder": tmp_path, "state_dir": tmp_path / "state", "router": "tcp/x:1"}
    apart_from_it = region_children(brain, **given)
    assert [child.name for child in apart_from_it] == [one.name for one in brain.regions]
    children = {child.name: child for child in region_children(brain, **given, one_process=True)}
    assert list(children) == ["camera", "stem", "once", "wide", ONE_PROCESS]
    one = children[ONE_PROCESS]
    assert [probe.node for probe in one.probe.regions] == ["/eye", "/mind"]
    assert apart(one.argv[3:]) == [list(child.argv[3:]) for child in apart_from_it if child.name in ("eye", "mind")]
    assert not (one.spare or one.lingers or one.stop_order)
    assert lines(brain, one_process=True)[0].endswith("6 processes would be started")
    assert lines(brain)[0].endswith("7 processes would be started")


def test_arguments_of_each_are_found_again():
    commands = [command(region("a", own={"text": "+ b"}), seed=1), command(region("b", namespace="/r"))]
    assert apart(one_process(commands)[3:]) == [list(one[3:]) for one in commands]


@pytest.fixture
def watched(tmp_path):
    """Process of two regions beside one of another, and what tells of them: ``beat`` and ``look``."""
    argv = (sys.executable, "-S", "-c", "import time; time.sleep(600)")
    supervisor = Supervisor([
        Workload("one", argv, probe=Together((Heartbeats("/a", 10.0), Heartbeats("/b", 10.0)))),
        Workload("other", argv, probe=Heartbeats("/c", 10.0))], tmp_path / "logs",
        limits=Limits(start=3.0, silence=0.4, step=0.3))
    supervisor.start()

    def beat(name, **more):
        pid = supervisor.pid(supervisor.nodes[f"/{name}"])
        supervisor.token(f"/{name}", True)
        supervisor.beat(messages.make("brain_interfaces/msg/Heartbeat", name=f"/{name}", pid=pid, **{
            "state": ACTIVE, **more}))

    def look(rounds, *beats):
        """Rounds; what is wrong with the process of two, or empty."""
        for step in range(rounds):
            for name, more in beats:
                beat(name, **{"step": step, **more})
            supervisor.round(0.05)
        return supervisor.fault("one")

    yield look
    supervisor.stop(grace=0.1)


@pytest.mark.slow
def test_one_that_is_stuck_is_the_fault_of_its_process(watched):
    assert "stuck: step 2 takes more than" in watched(60, ("a", {}), ("b", {"stepping": True, "step": 1}), ("c", {}))


@pytest.mark.slow
def test_a_held_lock_silences_all_of_them_and_is_no_flood(watched):
    assert not watched(30, ("a", {}), ("b", {}), ("c", {}))
    assert "hung: no heartbeat" in watched(60, ("c", {}))


@pytest.mark.slow
def test_one_that_begins_anew_or_could_not_start_is_not_held_against_its_process(watched):
    assert not watched(100, ("a", {}), ("c", {}))                # b was given up
    assert not watched(3, ("a", {}), ("b", {"state": ERROR}), ("c", {}))
    assert not watched(30, ("a", {}), ("c", {}))                 # b begins anew
    assert "hung: no heartbeat for 3 s (/b)" in watched(100, ("a", {}), ("c", {}))

# SPDX-License-Identifier: Apache-2.0
"""ZenohHost as processes over a real router: triggers, latched topics, faults, snapshots, a clean end."""
import os
import signal
import socket
import time

import numpy as np
import pytest

from forked import Forked
from brain_runtime import LATCHED, STREAM
from brain_runtime.interfaces import Heartbeat
from brain_wire import messages
from brain_wire import Watch, open_node

FEATURES = "brain_interfaces/msg/SensorFeatures"
REGIONS = '''
import os
import time
from dataclasses import dataclass
import numpy as np
from brain_runtime import FEATURE, LATCHED, In, Out, Region, parameter

class Echo(Region):
    rate = 10.0
    heard = In("in", "brain_interfaces/msg/SensorFeatures", FEATURE, trigger=True, device=True)
    goal = In("goal/text", "std_msgs/msg/String", LATCHED, device=True)
    said = Out("out", "brain_interfaces/msg/SensorFeatures", FEATURE)
    kept = Out("kept", "std_msgs/msg/String", LATCHED)

    @dataclass(frozen=True)
    class Parameters:
        gain: float = parameter(1.0, "scales", low=0.0, high=10.0)

    def initial_state(self):
        return {"count": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        out = {}
        if inbox.new("goal"):
            out["kept"] = self.kept(data=inbox.get("goal").data.upper())
        if inbox.new("heard"):
            message = inbox.get("heard")
            if message.source == "raise":
                raise ValueError("told to")
            if message.source == "hang":
                time.sleep(60)
            state = {"count": state["count"] + 1}
            out["said"] = self.said(source=self.name, confidence=float(state["count"][0]),
                                    hazard=message.hazard * self.parameters.gain)
        return out, state

class OnABusyDisk(Echo):
    """Its disk says that something is safe while there is a file "quiet"; a file "asked" says that it was asked."""

    def configure(self, parameters):
        super().configure(parameters)
        os.fsync = self.fsync

    def fsync(self, descriptor):
        (self.storage / "asked").touch()
        while not (self.storage / "quiet").exists():
            time.sleep(0.02)
'''


@pytest.fixture
def wire(tmp_path, monkeypatch):
    """A router and a domain of the test's own; ``start`` runs regions, ``node`` is ours."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "regions.py").write_text(REGIONS)
    monkeypatch.syspath_prepend(str(tmp_path))

    class Wire:
        endpoint = f"tcp/127.0.0.1:{port}"
        domain = port % 200
        children: list = []

        def spawn(self, *argv):
            environment = {**os.environ, "ROS_DOMAIN_ID": str(self.domain)}
            log = tmp_path / f"{len(self.children)}.log"
            log.touch()
            child = Forked("-m", *argv, log=log, environment=environment)
            child.log = log
            self.children.append(child)
            return child

        def router(self):
            return self.spawn("brain_wire.router", "--listen", self.endpoint)

        def echo(self, *argv, of="Echo"):
            return self.spawn("brain_runtime.process", "--class", f"regions:{of}", "--name", "echo", "--router",
                              self.endpoint, *argv)

        def node(self, name="tester"):
            return open_node(name, domain=self.domain, router=self.endpoint, patience=30)

    wire = Wire()
    wire.children = []
    yield wire
    for child in wire.children:
        child.kill()
        child.wait()


def ask(node, source="tester", hazard=0.5, timeout=120.0):
    """Asks the echo until it answers."""
    answers = node.subscription("out", FEATURES)
    question = node.publisher("in", FEATURES)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        question.publish(messages.make(FEATURES, source=source, hazard=np.full(36, hazard)))
        for answer in answers.messages(timeout=0.2):
            return answer
    raise AssertionError("the echo did not answer")


def until(condition, timeout=120.0):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_answers_with_parameters_and_under_remapped_names(wire):
    wire.router()
    wire.echo("--ros-args", "-p", "gain:=0.5", "-r", "__ns:=/robot", "-r", "in:=/in", "-r", "out:=/out")
    with wire.node() as node:
        assert ask(node).hazard[0] == pytest.approx(0.25)
        watch = Watch(node.session, wire.domain)
        assert watch.wait_for(lambda w: "/robot/echo" in w.nodes(), 10)
        watch.close()


def test_latched_both_ways(wire):
    wire.router()
    with wire.node() as node:
        node.publisher("goal/text", "std_msgs/msg/String", LATCHED).publish(
            messages.make("std_msgs/msg/String", data="go"))
        wire.echo()     # joins after it was said
        ask(node)
        late = node.subscription("kept", "std_msgs/msg/String", LATCHED)
        assert next(late.messages(timeout=10)).data == "GO"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ends_in_good_order_and_comes_back_as_it_was(wire, tmp_path, number):
    wire.router()
    first = wire.echo("--state-dir", str(tmp_path / "state"))
    with wire.node() as node:
        count = ask(node).confidence
        count = ask(node).confidence
        first.send_signal(number)
        assert first.wait(120) == 0
        wire.echo("--state-dir", str(tmp_path / "state"))
        assert ask(node).confidence > count


def test_kill_9_loses_at_most_what_came_since_the_last_snapshot(wire, tmp_path):
    wire.router()
    first = wire.echo("--state-dir", str(tmp_path / "state"))
    file = tmp_path / "state" / "echo.safetensors"
    with wire.node() as node:
        for _ in range(5):
            ask(node)
        until(file.exists)
        before = file.stat().st_mtime_ns
        until(lambda: file.exists() and file.stat().st_mtime_ns > before)
        first.kill()
        first.wait()
        wire.echo("--state-dir", str(tmp_path / "state"))
        assert ask(node).confidence >= 6


def test_a_disk_that_does_not_answer_stops_neither_heart_nor_end(wire, tmp_path):
    wire.router()
    folder = tmp_path / "state"
    file, quiet = folder / "echo.safetensors", folder / "quiet"
    child = wire.echo("--state-dir", str(folder), of="OnABusyDisk")
    with wire.node() as node:
        until((folder / "asked").exists)
        beats = node.subscription("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
        heard = beats.messages(timeout=20.0)
        for _ in range(20):
            next(heard)
        ask(node)
        assert not file.exists()
        quiet.touch()
        until(file.exists)
        quiet.unlink()
        (folder / "asked").unlink()
        until((folder / "asked").exists)
        kept = file.read_bytes()
        child.send_signal(signal.SIGTERM)
        assert child.wait(120) == 0
        assert file.read_bytes() == kept and "has not taken the snapshot" in child.log.read_text()
        wire.echo("--state-dir", str(folder), of="OnABusyDisk")
        ask(node)
    assert "restored the state" in wire.children[-1].log.read_text()


def test_a_step_that_raises_ends_the_process_with_the_reason_in_its_heartbeat(wire):
    wire.router()
    child = wire.echo()
    with wire.node() as node:
        beats = node.subscription("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
        ask(node)
        question = node.publisher("in", FEATURES)
        question.publish(messages.make(FEATURES, source="raise"))
        assert child.wait(120) == 1
        reasons = [b.reason for b in beats.messages(timeout=1.0) if b.state == Heartbeat.STATE_ERROR]
        assert reasons and "ValueError: told to" in reasons[0]


@pytest.mark.slow
def test_a_stuck_step_shows_in_the_heartbeat_and_does_not_hold_up_the_end(wire):
    wire.router()
    child = wire.echo()
    with wire.node() as node:
        ask(node)
        beats = node.subscription("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
        node.publisher("in", FEATURES).publish(messages.make(FEATURES, source="hang"))
        assert any(b.stepping and b.step_age > 0.5 for b in beats.messages(timeout=20.0))
        child.send_signal(signal.SIGTERM)
        assert child.wait(120) == 1


def test_broken_bytes_wrong_sizes_and_floods_do_no_harm(wire):
    wire.router()
    child = wire.echo()
    with wire.node() as node:
        ask(node)
        publisher = node.publisher("in", FEATURES)
        time.sleep(1.0)     # the echo learns who publishes, so that it can name us
        for data in (b"", b"\0\1\0\0", b"garbage that is no message", os.urandom(400), bytes(17 * 2**20)):
            publisher.publish_bytes(data)
            time.sleep(0.1)
        flood = messages.make(FEATURES, source="flood")
        for _ in range(3000):
            publisher.publish(flood)
        assert ask(node).source == "echo"
        assert child.poll() is None
    text = child.log.read_text()
    assert "/in: dropped a message of /tester" in text and FEATURES in text


def test_survives_the_router(wire):
    router = wire.router()
    child = wire.echo()
    with wire.node() as node:
        ask(node)
    router.kill()
    router.wait()
    wire.router()
    with wire.node() as node:
        assert ask(node).source == "echo"
    assert child.poll() is None


def test_waits_for_a_router_that_comes_later_and_ends_while_waiting(wire):
    child = wire.echo()
    until(lambda: "waiting for a Zenoh router" in child.log.read_text())
    wire.router()
    with wire.node() as node:
        ask(node)
    other = wire.spawn("brain_runtime.process", "--class", "regions:Echo", "--router", "tcp/127.0.0.1:9")
    until(lambda: "waiting for a Zenoh router" in other.log.read_text())
    other.send_signal(signal.SIGTERM)
    assert other.wait(120) == 0


@pytest.mark.parametrize("argv, said", [
    (["--class", "regions:Nobody"], "has no class 'Nobody'"),
    (["--class", "nowhere:Echo"], "cannot import nowhere"),
    (["--class", "regions:Echo", "--ros-args", "-p", "gian:=1.0"], "did you mean gain"),
    (["--class", "regions:Echo", "--name", "not a name"], "not a name"),
])
def test_what_cannot_start_says_why_with_status_2(wire, argv, said):
    wire.router()
    child = wire.spawn("brain_runtime.process", "--router", wire.endpoint, *argv)
    assert child.wait(120) == 2
    assert said in child.log.read_text()


def test_a_torn_or_foreign_snapshot_is_set_aside_and_the_one_before_is_used(wire, tmp_path):
    wire.router()
    folder = tmp_path / "state"
    first = wire.echo("--state-dir", str(folder))
    with wire.node() as node:
        for _ in range(3):
            ask(node)
        until(lambda: (folder / "echo.safetensors.previous").exists())
        first.send_signal(signal.SIGTERM)
        first.wait(120)
        whole = (folder / "echo.safetensors").read_bytes()
        (folder / "echo.safetensors").write_bytes(whole[:len(whole) // 2])
        again = wire.echo("--state-dir", str(folder))
        assert ask(node).confidence >= 2
    assert (folder / "echo.safetensors.refused-1").read_bytes() == whole[:len(whole) // 2]
    assert "torn" in again.log.read_text()

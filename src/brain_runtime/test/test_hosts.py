# SPDX-License-Identifier: Apache-2.0
"""The host interface: what a new host must define and what it is given; when a step starts, and in which thread."""
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from brain_runtime import FEATURE, In, Out, Region, hosts
from brain_runtime.hosts.input import Ring, received
from brain_runtime.hosts.node_parameters import NodeParameters, split
from brain_runtime.hosts.process import ProcessHost
from brain_wire import messages

STRING = "std_msgs/msg/String"
PATIENCE = 120.0     # s; only ends a hang


class SocketHost(ProcessHost):
    """All that a host has to define: one socket carries a topic in, another one out, without names or discovery."""

    kind = "socket"

    def __init__(self, region, into, out):
        values, _, _ = split(region.name, region.Parameters, {})
        self._into, self._out = into, out
        super().__init__(region, name=None, namespace="/", seed=0, state_dir=None, critical=False, restarts=0,
                         autostart=True)
        self._values = NodeParameters(self, values, {})
        self._life = self.lifecycle()

    fqn = property(lambda self: f"/{self.region.name}")

    def publish(self, topic, type_name, qos):
        return Sent(topic, self._out if topic == "out" else None, messages.encoder(type_name))

    def subscribe(self, inbound):
        ring = Ring(inbound.port.topic, inbound.port.qos.depth, lambda: self._into.shutdown(socket.SHUT_RD))
        threading.Thread(target=self._receive, args=(inbound, ring), name="receives", daemon=True).start()
        return ring

    def _receive(self, inbound, ring):
        while size := self._into.recv(4, socket.MSG_WAITALL):
            arrival = received(self._into.recv(struct.unpack("<I", size)[0], socket.MSG_WAITALL))
            if not self.deliver(inbound, arrival):
                ring.keep(arrival)
                self.deliver(inbound)

    def serve(self, name, act):
        raise NotImplementedError("no action in this test")

    def clock(self):
        return time.time()

    def parameters(self):
        return self._values.region()

    def change(self, transition):
        return self._life.change(transition)

    def _close(self):
        self._out.close()


class Sent:
    def __init__(self, topic, out, encode):
        self.topic, self._out, self._encode = topic, out, encode

    def send(self, message):
        self.send_encoded(message, self._encode(message))

    def send_encoded(self, message, data):
        if self._out is not None:
            self._out.sendall(struct.pack("<I", len(data)) + data)

    def heard(self):
        return True

    def others(self):
        return []

    def close(self):
        """Nothing."""


class Echo(Region):
    """Says back what it hears, and remembers which thread made the step."""

    heard = In("in", STRING, FEATURE.with_depth(100), trigger=True, every=True, device=True)
    said = Out("out", STRING, FEATURE)
    takes = 0.0     # s a step

    def step(self, inbox, state, dt, rng):
        time.sleep(self.takes)
        self.threads.append(threading.current_thread().name)
        return {"said": [self.said(data=r.message.data) for r in inbox.each("heard") if r.new]}, state


@pytest.fixture
def echo():
    """A running host, and functions that say something to it and hear what it says; how long its steps take is open."""
    (ours, its), (hears, says) = socket.socketpair(), socket.socketpair()
    region = Echo("echo")
    region.threads = []
    host = SocketHost(region, its, says)
    thread = threading.Thread(target=host.run)
    thread.start()
    hears.settimeout(PATIENCE)
    encode, decode = messages.encoder(STRING), messages.decoder(STRING)

    def say(text):
        data = encode(messages.make(STRING, data=text))
        ours.sendall(struct.pack("<I", len(data)) + data)

    def hear():
        size = struct.unpack("<I", hears.recv(4, socket.MSG_WAITALL))[0]
        return decode(hears.recv(size, socket.MSG_WAITALL)).data
    yield region, say, hear
    host.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive() and host.failure is None


def test_a_host_is_its_verbs_and_steps_are_made_where_they_are_quick(echo):
    region, say, hear = echo
    end = time.monotonic() + PATIENCE
    while "receives" not in region.threads:     # steps are not quick while the machine is busy with others
        say("a word")
        assert hear() == "a word"
        assert time.monotonic() < end, set(region.threads)
    assert region.threads[0] == "step", "how long a step takes is not known before the first"


def test_slow_steps_are_the_workers(echo):
    region, say, hear = echo
    region.takes = 0.02
    for number in range(10):
        say(str(number))
        assert hear() == str(number)
    assert set(region.threads) == {"step"}


def test_nothing_is_lost_while_a_step_is_made(echo):
    region, say, hear = echo
    region.takes = 0.01
    for number in range(60):
        say(str(number))
    assert [hear() for _ in range(60)] == [str(number) for number in range(60)]
    assert len(region.threads) < 60


@pytest.mark.parametrize("verb", ["publish", "subscribe", "serve", "clock", "parameters", "change"])
def test_a_host_that_lacks_a_verb_cannot_be_made(verb):
    cls = type("Lacks", (SocketHost,), {verb: getattr(ProcessHost, verb)})
    with pytest.raises(TypeError, match=verb):
        cls(Echo("echo"), *socket.socketpair())


def test_the_package_loads_no_wire_and_no_torch():
    code = ("import sys, brain_runtime.hosts\nfrom brain_runtime.hosts import Host, LocalHost\n"
            "LocalHost({}).advance(1)\nprint(sorted({'zenoh', 'torch', 'rclpy', 'mujoco'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=400)
    assert done.stdout.strip() == "[]", done.stderr
    with pytest.raises(AttributeError, match="no attribute 'TorchHots'; it has Host"):
        getattr(hosts, "TorchHots")    # noqa: B009 - as an attribute it would be an expression without use

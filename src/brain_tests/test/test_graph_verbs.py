# SPDX-License-Identifier: Apache-2.0
"""``brain topic``, ``brain node`` and ``brain param`` on real nodes, and what they say that others have."""
from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from brain_observe.graph.live import complete_node, complete_topic
from brain_tests.in_process import brain
from brain_wire import names, open_node
from brain_wire.definitions import IN_BOUNDED
from brain_wire.messages import MessageError, make, type_hash
from brain_wire.parameters import NoParameters, parameter
from brain_wire.qos import FEATURE, SENSOR, QoS
from brain_wire.router import Router, free_port
from brain_wire.server import Server
from brain_wire.type_descriptions import MOST_TYPES, description, learn
from brain_wire.watch import Watch

DOMAIN = 83
STRANGER = Path(__file__).parent / "programs" / "stranger.py"


@dataclass(frozen=True)
class Speeds(NoParameters):
    """Of the node that is asked."""

    fast: float = parameter(0.5, "how fast it goes", unit="m/s", low=0.0, high=2.0)
    name: str = parameter("it", "how it is called")
    sizes: tuple = parameter((1.0, 2.0), "of its parts")
    fixed: int = parameter(3, "what stays", live=False)


class Someone:
    """A node that publishes, hears and serves parameters, in a thread."""

    def __init__(self, endpoint):
        self._stop, self.given = threading.Event(), []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(endpoint,))
        self._thread.start()
        assert self._ready.wait(20)

    def _run(self, endpoint):
        with open_node("someone", "/r1", domain=DOMAIN, router=endpoint, patience=10) as node:
            said = node.publisher("said", "geometry_msgs/msg/PoseStamped", SENSOR)
            wished = node.subscription("wished", "std_msgs/msg/String", FEATURE)
            deaf = node.subscription("said", "geometry_msgs/msg/PoseStamped", FEATURE)
            server = Server(node)
            server.parameters(Speeds())
            self._ready.set()
            number = 0
            while not self._stop.is_set():
                message = make("geometry_msgs/msg/PoseStamped")
                message.header.frame_id, message.pose.position.x = "\x1b[31mmap", float(number)
                said.publish(message)
                number += 1
                server.serve(0.05)
                for arrival in wished.take():
                    self.given.append(arrival.data)
                deaf.take()

    def close(self):
        self._stop.set()
        self._thread.join()


@pytest.fixture(scope="module")
def endpoint():
    where = f"tcp/127.0.0.1:{free_port()}"
    with Router([where]):
        yield where


@pytest.fixture(scope="module")
def someone(endpoint):
    made = Someone(endpoint)
    yield made
    made.close()


@pytest.fixture
def ask(endpoint, someone):
    def asked(*words, status=0):
        done = brain(*words, environment={"BRAIN_ROUTER": endpoint, "ROS_DOMAIN_ID": str(DOMAIN)})
        assert done.returncode == status, (done.stdout, done.stderr)
        return done.stderr if status else done.stdout

    return asked


def test_topics_are_listed_and_told_of(ask):
    assert ask("topic", "list", "-t").splitlines() == [
        "/parameter_events [rcl_interfaces/msg/ParameterEvent]",
        "/r1/said [geometry_msgs/msg/PoseStamped]", "/r1/wished [std_msgs/msg/String]"]
    assert json.loads(ask("topic", "list", "--json"))["topics"]["/r1/wished"] == ["std_msgs/msg/String"]
    assert ask("topic", "list", "-c").strip() == "3"
    assert ask("topic", "type", "said", "--namespace", "/r1").strip() == "geometry_msgs/msg/PoseStamped"
    told = ask("topic", "info", "/r1/said", "-v")
    assert told.startswith("Type: geometry_msgs/msg/PoseStamped\nPublisher count: 1\n")
    assert "Subscription count: 1\n" in told and "Reliability: BEST_EFFORT" in told
    assert "/r1/someone would not hear /r1/someone on DDS: the subscription is reliable" in told
    assert "there is no topic /r1/sad; did you mean /r1/said" in ask("topic", "info", "/r1/sad", status=1)
    assert "there is no topic /nothing.like; " not in ask("topic", "info", "/no//name", status=2)


def test_messages_are_shown_as_yaml_and_json_and_measured(ask):
    told = ask("topic", "echo", "/r1/said", "--once")
    assert told.endswith("---\n") and "\x1b" not in told
    message = yaml.safe_load(told.removesuffix("---\n"))
    assert list(message) == ["header", "pose"] and message["pose"]["orientation"]["w"] == 0.0
    value = json.loads(ask("topic", "echo", "/r1/said", "--once", "--json", "--field", "pose.position"))
    assert value["x"] > 0 and value["y"] == 0.0
    assert "there is no field 'pose.place'" in ask("topic", "echo", "/r1/said", "--field", "pose.place", status=2)
    assert "carries geometry_msgs/msg/PoseStamped, not std_msgs/msg/String" in ask(
        "topic", "echo", "/r1/said", "std_msgs/msg/String", status=1)
    found = json.loads(ask("topic", "hz", "/r1/said", "--seconds", "1.5", "--json"))
    assert found["messages"] >= 5 and 2.0 < found["rate"] < 25.0 and found["min"] <= 1 / found["rate"] <= found["max"]
    assert "average rate: " in ask("topic", "hz", "/r1/said", "--seconds", "1.5")
    found = json.loads(ask("topic", "bw", "/r1/said", "--seconds", "1.5", "--json"))
    assert found["mean"] == found["max"] and found["bytes_per_second"] > found["mean"]


def test_what_is_published_arrives(ask, someone):
    before = len(someone.given)
    told = ask("topic", "pub", "--times", "2", "--rate", "20", "/r1/wished", "std_msgs/msg/String", "{data: hello}")
    assert "publishing #1: " in told and "publishing #2: " in told
    end = time.monotonic() + 20
    while len(someone.given) < before + 1 and time.monotonic() < end:
        time.sleep(0.05)
    assert b"hello" in someone.given[-1]
    for kind, values, words in (("std_msgs/msg/String", "{date: x}", "has no field date"),
                                ("std_msgs/msg/String", "[1]", "needs values by field"),
                                ("std_msgs/msg/String", "{data: [}", "expected"),
                                ("std_msgs/msg/Strong", "{}", "unknown message type")):
        assert words in ask("topic", "pub", "--once", "/r1/wished", kind, values, status=2)


def test_nodes_are_listed_and_told_of(ask):
    assert ask("node", "list").split() == ["/r1/someone"]
    told = ask("node", "info", "/r1/someone")
    assert told.splitlines()[0] == "/r1/someone"
    assert "  Publishers:\n    /parameter_events: " in told and "    /r1/said: geometry_msgs/msg/PoseStamped\n" in told
    assert "    /r1/someone/get_parameters: rcl_interfaces/srv/GetParameters\n" in told
    found = json.loads(ask("node", "info", "someone", "--namespace", "r1", "--json"))
    assert found["subscribers"]["/r1/wished"] == "std_msgs/msg/String" and found["action_servers"] == {}
    assert "did you mean /r1/someone" in ask("node", "info", "/r1/somone", status=1)


def test_parameters_are_read_and_changed(ask):
    assert ask("param", "list", "/r1/someone").split() == ["fast", "fixed", "name", "sizes"]
    assert ask("param", "list").splitlines()[0] == "/r1/someone:"
    assert ask("param", "get", "/r1/someone", "fast").strip() == "Double value is: 0.5"
    assert ask("param", "get", "/r1/someone", "sizes").strip() == "Double values are: [1.0, 2.0]"
    assert ask("param", "set", "/r1/someone", "fast", "0.75").strip() == "Set parameter successful"
    assert json.loads(ask("param", "get", "/r1/someone", "fast", "--json"))["value"] == 0.75
    assert "Setting parameter failed" in ask("param", "set", "/r1/someone", "fast", "7.0", status=1)
    assert "Setting parameter failed" in ask("param", "set", "/r1/someone", "fixed", "4", status=1)
    assert "is no value of a parameter" in ask("param", "set", "/r1/someone", "fast", "{a: 1}", status=2)
    assert "did you mean fast" in ask("param", "get", "/r1/someone", "fasst", status=1)
    written = yaml.safe_load(ask("param", "dump", "/r1/someone"))
    assert written == {"/r1/someone": {"ros__parameters": {
        "fast": 0.75, "fixed": 3, "name": "it", "sizes": [1.0, 2.0]}}}
    told = ask("param", "describe", "/r1/someone", "fast", "fixed")
    assert "Max value: 2.0" in told and "Min value: 0.0" in told and "Description: how fast it goes (m/s)" in told
    assert "Additional constraints: cannot be changed while the node is active" in told


def test_a_shell_completes_names_of_the_graph(endpoint, someone, monkeypatch):
    monkeypatch.setenv("BRAIN_ROUTER", endpoint)
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    end = time.monotonic() + 30.0       # a shell waits no longer than a moment, and then has none
    while not (complete_topic("/r1/w") == ["/r1/wished"] and complete_node("/r") == ["/r1/someone"]):
        assert time.monotonic() < end
    monkeypatch.setenv("BRAIN_ROUTER", f"tcp/127.0.0.1:{free_port()}")
    assert complete_topic("/r1") == []      # and no line of ours in a prompt


@pytest.fixture
def stranger(endpoint, tmp_path):
    folder = tmp_path / "msg"
    folder.mkdir()
    (folder / "Inner.msg").write_text("float64[2] values\n")
    (folder / "Odd.msg").write_text("string<=8 name\nInner inner\nInner[<=4] many\nuint8[] bytes\n")
    process = subprocess.Popen([sys.executable, str(STRANGER), str(tmp_path), endpoint, str(DOMAIN)])
    with open_node("ear", domain=DOMAIN, router=endpoint) as node, Watch(node.session, DOMAIN) as watch:
        assert watch.wait_for(lambda watch: bool(watch.endpoints("/odd")), 30.0)
    yield process
    process.kill()
    process.wait()


def test_a_type_that_is_not_known_here_is_learned_from_who_publishes_it(ask, stranger):
    found = json.loads(ask("topic", "bw", "/odd", "--seconds", "2", "--json"))
    assert found["messages"] >= 2 and found["mean"] > 200      # of bytes that nobody here can read
    message = json.loads(ask("topic", "echo", "/odd", "--once", "--json"))
    assert message["name"] == "it" and message["inner"] == {"values": [1.5, 2.5]}
    assert [one["values"] for one in message["many"]] == [[0.0, 0.0], [3.0, 4.0]]
    assert len(message["bytes"]) == 129 and message["bytes"][-1] == "..."
    assert len(json.loads(ask("topic", "echo", "/odd", "--once", "--json", "--full-length"))["bytes"]) == 200


def test_what_a_stranger_tells_of_types_is_not_believed():
    sound, name = description("geometry_msgs/msg/PoseStamped"), "geometry_msgs/msg/PoseStamped"
    assert learn(sound, type_hash(name)) == name        # known, and stays
    with pytest.raises(MessageError, match="described with the hash"):
        learn(sound, type_hash("std_msgs/msg/String"))

    def refused(change, words):
        told = copy.deepcopy(sound)
        change(told)
        with pytest.raises(MessageError, match=words):
            learn(told, type_hash(name))

    refused(lambda told: setattr(told.type_description, "type_name", "../x"), "not described as a type")
    refused(lambda told: setattr(told.type_description.fields[0].type, "type_id", 47), "not known here")
    refused(lambda told: setattr(told.type_description.fields[0], "name", "a b"), "that is none")
    refused(lambda told: setattr(told.type_description.fields[0].type, "type_id", 1 + IN_BOUNDED), "hash")
    refused(lambda told: setattr(told.type_description.fields[0].type, "capacity", 2 ** 60), "that is none")
    refused(lambda told: told.referenced_type_descriptions.extend([told.type_description] * MOST_TYPES), "most")
    # one that would give a name that is known another meaning
    told = description("geometry_msgs/msg/Point")
    told.type_description.fields.pop()
    from brain_wire.definitions import type_hash as hash_of
    from brain_wire.messages import fields_of
    other = hash_of("geometry_msgs/msg/Point", lambda of: fields_of(of)[:-1])
    with pytest.raises(MessageError, match="another version"):
        learn(told, other)
    assert len(fields_of("geometry_msgs/msg/Point")) == 3


def test_a_type_that_is_no_name_is_not_listened_to(endpoint):
    with open_node("odd", domain=DOMAIN, router=endpoint, patience=10) as node:
        for kind, digest in (("**", "RIHS01_0"), ("a::msg::dds_::B_", "x/*"), ("", "RIHS01_0")):
            told = names.Endpoint(DOMAIN, "1", 0, 0, names.PUBLISHER, "/", "it", "/topic", kind, digest, FEATURE)
            with pytest.raises(names.NameProblem, match="no type of a topic"):
                node.raw_subscription(told, FEATURE)


def test_a_latched_topic_tells_what_it_kept(ask, endpoint):
    with open_node("keeper", domain=DOMAIN, router=endpoint, patience=10) as node:
        port = node.publisher("kept", "std_msgs/msg/String", QoS(reliable=True, latched=True, depth=1))
        port.publish(make("std_msgs/msg/String", data="kept for you"))
        assert ask("topic", "echo", "/kept", "--once") == "data: kept for you\n---\n"
        assert names.PUBLISHER == port.endpoint.kind

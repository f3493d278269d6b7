# SPDX-License-Identifier: Apache-2.0
"""The examples run as they stand, over a real router, and do with each other what they say."""
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from brain_wire import NoAnswer, open_node
from brain_wire.messages import make
from brain_wire.router import Router

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LONGEST = 25        # lines of an example without its first, the licence
PATIENCE = 120.0     # s


@pytest.fixture(scope="module")
def place():
    """Environment of processes that talk over a router of their own; endpoint and domain."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"tcp/127.0.0.1:{port}"
    with Router([endpoint]):
        yield {**os.environ, "BRAIN_ROUTER": endpoint, "ROS_DOMAIN_ID": str(port % 200)}, endpoint, port % 200


@contextmanager
def running(name, place, tmp_path):
    """An example in a process of its own; gives its output so far."""
    said = tmp_path / f"{name}.txt"
    with open(said, "wb") as out:
        process = subprocess.Popen([sys.executable, EXAMPLES / name], env=place[0], stdout=out, stderr=out)
        try:
            yield lambda: said.read_text()
            assert process.poll() is None, said.read_text()
        finally:
            process.kill()
            process.wait()


def until(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def run(name, place, *arguments):
    return subprocess.run([sys.executable, EXAMPLES / name, *arguments], env=place[0], capture_output=True, text=True,
                          timeout=PATIENCE)


@pytest.fixture
def node(place):
    with open_node("test_examples", router=place[1], domain=place[2]) as made:
        yield made


def test_they_are_short_and_each_is_tested():
    files = sorted(EXAMPLES.glob("*.py"))
    tested = Path(__file__).read_text(encoding="utf-8")
    assert files and all(f'"{file.name}"' in tested for file in files)
    assert {file.name: n for file in files if (n := len(file.read_text().splitlines()) - 1) > LONGEST} == {}


def test_talker_and_listener(place, tmp_path):
    with running("listener.py", place, tmp_path) as heard, running("talker.py", place, tmp_path):
        until(lambda: re.search(r"heard hello \d", heard()))


def test_a_broken_message_does_not_end_the_listener(place, tmp_path, node):
    chatter = node.publisher("chatter", "std_msgs/msg/String")
    with running("listener.py", place, tmp_path) as heard:
        until(lambda: chatter.publish(make("std_msgs/msg/String", data="first")) or "heard first" in heard())
        two_gigabytes = b"\x00\x01\x00\x00\xff\xff\xff\x7f"
        until(lambda: chatter.publish_bytes(two_gigabytes) or "left out a message" in heard())
        until(lambda: chatter.publish(make("std_msgs/msg/String", data="second")) or "heard second" in heard())


def test_service(place, tmp_path):
    with running("add_server.py", place, tmp_path):
        done = until(lambda: (d := run("add_client.py", place)).returncode == 0 and d)
    assert done.stdout == "5\n"


def test_action(place, tmp_path):
    with running("fibonacci_server.py", place, tmp_path):
        done = run("fibonacci_client.py", place)
    assert done.stdout.startswith("[0, 1, 1, 2, 3, 5, 8, 13] SUCCEEDED"), done.stderr


def test_parameters(place, tmp_path, node):
    def change(rate):
        client = node.client("/blinker/set_parameters_atomically", "rcl_interfaces/srv/SetParametersAtomically")
        value = make("rcl_interfaces/msg/ParameterValue", type=3, double_value=rate)
        return client.call(make(client.type.request, parameters=[
            make("rcl_interfaces/msg/Parameter", name="rate", value=value)]), PATIENCE).result

    with running("parameters.py", place, tmp_path) as said:
        assert change(5.0).successful
        until(lambda: "rate is 5.0" in said())
        refused = change(50.0)
        assert not refused.successful and "must be between 0.1 and 20.0 Hz" in refused.reason


def test_lifecycle(place, tmp_path, node):
    def change(label):
        client = node.client("/lamp/change_state", "lifecycle_msgs/srv/ChangeState")
        transition = make("lifecycle_msgs/msg/Transition", label=label)
        return client.call(make(client.type.request, transition=transition), PATIENCE).success

    with running("lifecycle.py", place, tmp_path) as said:
        assert not change("activate") and change("configure") and change("activate")
        until(lambda: "there is a bulb" in said() and "the lamp is on" in said())


def test_a_goal_that_is_given_up_and_one_that_nobody_serves(place, tmp_path, node):
    from brain_wire import ActionClient, register

    register("example_interfaces", EXAMPLES / "example_interfaces")
    client = ActionClient(node, "fibonacci", "example_interfaces/action/Fibonacci")
    with pytest.raises(NoAnswer, match="nobody serves"):
        client.ask(0.2, order=5)
    with running("fibonacci_server.py", place, tmp_path):
        asked = until(lambda: client.ask(order=10_000))
        until(lambda: asked.feedback)
        assert asked.cancel()
        assert asked.wait(PATIENCE).sequence.tolist()[:3] == [0, 1, 1] and asked.status.name == "CANCELED"

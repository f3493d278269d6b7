# SPDX-License-Identifier: Apache-2.0
"""What ``brain say`` makes of each state of a goal, told over a real router."""
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from brain_wire.router import free_port
from brain_runtime import FEATURE, LATCHED
from brain_runtime.contract import heartbeat as beat
from brain_runtime.interfaces import GoalStatus
from brain_runtime.supervision.speaker import LANGUAGE, Speaker
from brain_wire import messages
from brain_wire import open_node
from brain_wire.router import Router

TEXT = "go to the red ball"


class Brain:
    """Answers each sentence with one state, and has the heartbeat of one region."""

    def __init__(self, node, state):
        self._texts = node.subscription("goal/text", "std_msgs/msg/String", LATCHED)
        self._statuses = node.publisher("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED)
        self._beats = node.publisher(beat.PORT.topic, beat.PORT.type, beat.PORT.qos)
        self._state, self._end = state, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def _run(self):
        while not self._end.is_set():
            self._beats.publish(messages.make(beat.PORT.type, name="/pfc", state=beat.ACTIVE))
            for arrival in self._texts.wait(0.1):
                text = messages.decode(arrival.data, "std_msgs/msg/String").data
                for state in (GoalStatus.STATE_APPROACHING, self._state):
                    self._statuses.publish(messages.make("brain_interfaces/msg/GoalStatus", goal_id=1, text=text,
                                                         state=state, reason="because"))
                    time.sleep(0.2)


def test_what_is_no_order_is_answered_while_another_goal_goes_on():
    """By language, which leaves the goal and its status as they are."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]), open_node("language", domain=0, router=endpoint, patience=30.0) as node:
        features = node.publisher("lang/features", LANGUAGE, FEATURE)
        said = messages.make(LANGUAGE, goal_id=7, text="exactly", understood=True, verb=1, reason="no order")
        with open_node("asker", domain=0, router=endpoint, patience=30.0) as other:
            speaker = Speaker(other, look=lambda: features.publish(said))
            answer = speaker.ask("exactly", 20.0)
    assert (answer.status, answer.state, answer.reason) == (2, "not understood", "no order") and answer.seconds < 15.0


@pytest.mark.parametrize("state, code, word", [
    (GoalStatus.STATE_REACHED, 0, "reached"), (GoalStatus.STATE_WRONG, 1, "wrong"),
    (GoalStatus.STATE_NOT_FOUND, 1, "not found"),
    (GoalStatus.STATE_NOT_UNDERSTOOD, 2, "not understood")])
def test_the_exit_status_tells_how_it_went(state, code, word):
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    environment = {**os.environ, "BRAIN_ROUTER": endpoint}
    environment.pop("ROS_DOMAIN_ID", None)
    with Router([endpoint]), open_node("pfc", domain=0, router=endpoint, patience=30.0) as node, Brain(node, state):
        done = subprocess.run([sys.executable, "-m", "brain", "say", TEXT, "--wait", "30", "--json"], env=environment,
                              capture_output=True, text=True, timeout=400)
    assert done.returncode == code, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["state"], answer["reason"]) == (code, word, "because")

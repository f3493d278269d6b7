# SPDX-License-Identifier: Apache-2.0
"""A peer that does what it likes, on a real router: who watches, hears and shows goes on all the same."""
import itertools
import random
import time

import pytest

from brain_observe.record import Recorder
from brain_observe.show import View
from brain_runtime import LATCHED
from brain_runtime.contract import constants
from brain_runtime.supervision.listen import Ear
from brain_runtime.supervision.speaker import Speaker
from brain_tests import hostile
from brain_wire import messages
from brain_wire import Node, Watch, names
from brain_wire import watch as wire_watch
from brain_wire.clock import SimulatedTime
from brain_wire.messages import make

PATIENCE = 120.0     # s; only against waiting for ever
DOMAIN = 7
STRING = "std_msgs/msg/String"


def nodes_of(session, count, prefix="flood"):
    return [session.zenoh.liveliness().declare_token(
        names.Endpoint(DOMAIN, session.zid, n, n, names.NODE, "/", f"{prefix}_{n}").token()) for n in range(count)]


@pytest.mark.parametrize("token", [
    "ab/{n}/0/NN/%/%/talker", "ab/0/{n}/NN/%/%/talker", "ab/0/1/MP/%/%/talker/%x/t/h/::,{n}:,:,:,,",
    "ab/0/0/NN/%/%/ta\x1b[2Jlker", "x", "ab/0/0/NN/%/%/" + "a" * 50000, "ab/0/0/NN/%/%/日本", "ab/\u0663/0/NN/%/%/x"])
def test_a_watch_outlives_any_token(sessions, token):
    ours, theirs = sessions
    came = []
    with Watch(ours, DOMAIN, on_node=lambda name, alive: came.append((name, alive))) as watch:
        theirs.zenoh.liveliness().declare_token(f"@ros2_lv/{DOMAIN}/" + token.replace("{n}", "9" * 5000))
        with Node(theirs, "sound", domain=DOMAIN):
            assert watch.wait_for(lambda w: "/sound" in w.nodes(), PATIENCE)
        assert watch.wait_for(lambda w: not w.nodes(), PATIENCE)
    assert came == [("/sound", True), ("/sound", False)]


def test_a_watch_outlives_who_is_told(sessions, caplog):
    ours, theirs = sessions

    def told(name, alive):
        raise RuntimeError(f"[{name}] breaks who is told of it")

    with Watch(ours, DOMAIN, on_node=told) as watch, Node(theirs, "first", domain=DOMAIN), \
            Node(theirs, "second", domain=DOMAIN):
        assert watch.wait_for(lambda w: w.nodes() == ["/first", "/second"], PATIENCE)
    assert caplog.text.count("a liveliness token could not be taken in") == 1     # of two, within seconds


def test_a_flood_of_tokens_is_bounded_and_what_was_missed_is_seen_after_it(sessions, monkeypatch):
    ours, theirs = sessions
    monkeypatch.setattr(wire_watch, "MOST", 50)
    with Watch(ours, DOMAIN) as watch:
        flood = nodes_of(theirs, 300)
        assert watch.wait_for(lambda w: len(w.nodes()) >= 50, PATIENCE)
        with Node(theirs, "late", domain=DOMAIN):
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                watch.poll()
                time.sleep(0.02)
            assert len(watch._endpoints) <= 50 and "/late" not in watch.nodes()
            for number, token in enumerate(flood):
                token.undeclare()
                if number % 30 == 0:
                    watch.poll()    # some leave while it asks who is there
            assert watch.wait_for(lambda w: w.nodes() == ["/late"], PATIENCE)


def test_one_look_takes_in_so_many_and_nothing_is_lost(sessions, monkeypatch):
    ours, theirs = sessions
    monkeypatch.setattr(wire_watch, "AT_A_LOOK", 10)
    monkeypatch.setattr(wire_watch, "CAPACITY", 20)     # of 200, those that wait longest are dropped
    with Watch(ours, DOMAIN) as watch:
        flood = nodes_of(theirs, 200)
        with Node(theirs, "late", domain=DOMAIN):
            time.sleep(0.5)
            watch.poll()
            assert len(watch.nodes()) == 10
            monkeypatch.setattr(wire_watch, "AT_A_LOOK", 20)
            monkeypatch.setattr(wire_watch, "CAPACITY", 16384)  # of what is asked for
            assert watch.wait_for(lambda w: len(w.nodes()) == 201, PATIENCE)
            for token in flood:
                token.undeclare()
        assert watch.wait_for(lambda w: not w.nodes(), PATIENCE)


def test_a_subscription_outlives_what_a_message_brings_about(sessions):
    ours, theirs = sessions
    heard = []

    def at_once(payload, received):
        text = messages.decode(payload.to_bytes(), STRING).data
        if text == "break":
            raise SystemError(text)
        heard.append(text)
        return True

    with Node(ours, "ear", domain=DOMAIN) as ear, Node(theirs, "mouth", domain=DOMAIN) as mouth:
        ear.subscription("talk", STRING, at_once=at_once)
        out = mouth.publisher("talk", STRING)
        end = time.monotonic() + PATIENCE
        while "sound" not in heard and time.monotonic() < end:
            out.publish_bytes(b"\0\1\0\0nonsense")
            out.publish(make(STRING, data="break"))
            out.publish(make(STRING, data="sound"))
            time.sleep(0.02)
        assert "sound" in heard


def test_simulated_time_outlives_nonsense(sessions):
    ours, theirs = sessions
    with Node(ours, "ear", domain=DOMAIN) as ear, Node(theirs, "clock", domain=DOMAIN) as clock:
        now = SimulatedTime(ear)
        out = clock.publisher("/clock", "rosgraph_msgs/msg/Clock")
        end = time.monotonic() + PATIENCE
        while now() != 5.0 and time.monotonic() < end:
            out.publish_bytes(b"\0\1\0\0")
            out.publish(make("rosgraph_msgs/msg/Clock", clock=make("builtin_interfaces/msg/Time", sec=5)))
            time.sleep(0.02)
        assert now() == 5.0


# -- who looks on -----------------------------------------------------------------------------------------------------

def test_who_looks_on_outlives_any_message(sessions):
    """What hears and shows a brain: an ear, a recorder with its view, one who has said a sentence."""
    ours, theirs = sessions
    draw = random.Random(0)
    with Node(ours, "looks", domain=DOMAIN) as node, Node(theirs, "tells", domain=DOMAIN) as tells:
        ear, recorder, speaker = Ear(node), Recorder(node), Speaker(node)
        view = View(ear, recorder, ["/vision"], DOMAIN, "")
        heard = {e.topic: e for e in node.endpoints if e.kind == names.SUBSCRIPTION}
        mouths = {topic: tells.publisher(topic, e.type, e.qos) for topic, e in heard.items()}
        texts = ["[]", "5", "{}", '{"verdicts": [5]}', '{"verdicts": 5}', '{"room": 5, "xml": 5, "request": 5}',
                 "[" * 9999, "9" * 9999, '{"room": {}, "xml": "x", "request": {}}']
        states, end = set(), time.monotonic() + PATIENCE
        for number in itertools.count():
            for topic, mouth in mouths.items():
                message = hostile.any_message(draw, mouth.type)
                if mouth.type == STRING:
                    message.data = draw.choice(texts)
                elif mouth.type.endswith("Heartbeat"):
                    message.name = f"/outside_{number}_{draw.randrange(99)}"
                elif mouth.type.endswith("GoalStatus"):
                    message.state, message.text = draw.choice((3, 200)), "go"
                elif mouth.type.endswith("Image") and draw.random() < 0.5:
                    message = make(mouth.type, encoding="rgb8")
                mouth.publish(message)
            ear.listen(0.01)
            recorder.take()
            for status in speaker.hear():
                view.status = status
                states.add(status.state)
            assert view.line() and view.render() is not None and view.report()["regions"] is not None
            if number > 150 and {3, 200} <= states:
                break
            assert time.monotonic() < end, states
        assert len(ear.regions) <= 256 and recorder.broken
        ear.close()


@pytest.mark.parametrize("named, number, name", [
    (constants.goal_state, 3, "reached"), (constants.goal_state, 200, "state 200"),
    (constants.goal_state, -1, "state -1"), (constants.heartbeat_state, 2, "active"),
    (constants.heartbeat_state, 255, "state 255"),
    (constants.trace_action, 5, "refused"), (constants.trace_action, 6, "action 6"),
    (constants.control_mode, 4, "avoid"), (constants.control_mode, 77, "mode 77")])
def test_every_number_has_a_name(named, number, name):
    assert named(number) == name


def test_a_goal_in_a_state_that_there_is_not(sessions):
    """`brain say` while somebody publishes a GoalStatus with state 200."""
    ours, theirs = sessions
    with Node(ours, "says", domain=DOMAIN) as node, Node(theirs, "pfc", domain=DOMAIN) as pfc:
        speaker = Speaker(node)
        statuses = pfc.publisher("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED)
        statuses.publish(make("brain_interfaces/msg/GoalStatus", goal_id=1, text="go", state=200))
        answer = speaker.ask("go", 2.0)
        assert (answer.status, answer.state) == (1, "state 200")

# SPDX-License-Identifier: Apache-2.0
"""One suite for every host: ports, QoS, late joining, staleness, order, restart, parameters, failure, shutdown.

From the sources it runs on LocalHost, ZenohHost and TorchHost; under colcon, where there is rclpy, on RosHost too.
"""
import importlib.util

import numpy as np
import pytest

from brain_runtime import FEATURE, LATCHED, SENSOR
from brain_runtime.contract import snapshot
from brain_tests.regions import FEATURES, STRING, Mirror, held, stamp
from brain_tests.stage_of import NOT_ON_A_STATIC_GROUP, make_stage
from brain_tests.stages import ProcessStage
from brain_wire import messages
from brain_wire.goals import Status

ROS = [pytest.param("ros", marks=pytest.mark.colcon)] if importlib.util.find_spec("rclpy") else []
HOSTS = ["local", "zenoh", "torch", *ROS]
MIRROR, MOVES, SHOWS, CHATTER, WAITS = (f"brain_tests.regions:{name}"
                                        for name in ("Mirror", "Moves", "Shows", "Chatter", "Waits"))


@pytest.fixture(params=HOSTS)
def stage(request, tmp_path):
    why = NOT_ON_A_STATIC_GROUP.get(request.node.originalname) if request.param == "torch" else None
    if why:
        pytest.skip(f"not on a static group: {why}")
    made = make_stage(request.param, tmp_path)
    yield made
    made.close()


def features(source="test", number=0.5, seconds=None):
    message = messages.make(FEATURES, source=source, confidence=number)
    message.hazard[3] = number
    if seconds is not None:
        message.header.stamp = messages.time_message(seconds)
    return message


def text(data):
    return messages.make(STRING, data=data)


def ask(stage, heard, message=None):
    """Says something until it is answered; the newest answer."""
    before = len(heard)

    def answered():
        stage.say("heard", message or features(), FEATURE)
        stage.pause(0.05)
        return len(heard) > before
    stage.until(answered)
    return heard[-1]


def test_a_message_triggers_a_step_and_its_stamp_is_carried_over(stage):
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    question = features("me", 0.25, seconds=1234.5)
    question.origins = [messages.make("brain_interfaces/msg/Origin", source="eye", stamp=messages.time_message(1233.0))]
    answer = ask(stage, said, question)
    assert (answer.source, answer.modality, float(answer.hazard[3])) == ("mirror", "me", 0.25)
    assert stamp(answer) == 1234.5
    assert [(o.source, o.stamp.sec) for o in answer.origins] == [("eye", 1233)]


def test_a_rate_makes_steps_without_input_and_time_goes_on(stage):
    told = stage.hear("held", STRING, LATCHED)
    stage.start(MIRROR)
    stage.until(lambda: len(told) > 12)
    states = [held(m) for m in told]
    assert all(b["steps"] > a["steps"] and b["clock"] >= a["clock"] for a, b in zip(states, states[1:]))
    assert states[-1]["dt"] > 0 and states[-1]["goal"] is None and not states[-1]["fresh"] and states[-1]["age"] == 1e6


def test_latched_topics_reach_who_comes_late_both_ways(stage):
    stage.say("goal", text("an old goal"), LATCHED)
    stage.pause(0.2)
    stage.start(MIRROR)
    first = stage.hear("held", STRING, LATCHED)
    stage.until(lambda: first and held(first[-1])["goal"] == "an old goal")
    late = stage.hear("held", STRING, LATCHED)
    stage.until(lambda: late)
    assert held(late[0])["goal"] == "an old goal"
    stage.say("goal", text("a new goal"), LATCHED)
    stage.until(lambda: held(late[-1])["goal"] == "a new goal")


def test_what_is_latched_triggers_a_step_of_who_comes_late(stage):
    told = stage.hear("held", STRING, LATCHED)
    stage.say("goal", text("an old goal"), LATCHED)
    stage.pause(0.2)
    stage.start(WAITS)
    stage.until(lambda: [held(m)["goal"] for m in told] == ["an old goal"])
    stage.say("goal", text("a new goal"), LATCHED)
    stage.until(lambda: [held(m)["goal"] for m in told] == ["an old goal", "a new goal"])


def test_volatile_topics_do_not(stage):
    stage.say("heard", features("before"), FEATURE)
    stage.pause(0.2)
    told, said = stage.hear("held", STRING, LATCHED), stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    stage.until(lambda: len(told) > 5)
    assert held(told[-1])["age"] == 1e6 and not said


def test_what_was_heard_grows_stale(stage):
    told, said = stage.hear("held", STRING, LATCHED), stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    ask(stage, said)
    stage.until(lambda: held(told[-1])["age"] > 0.6)
    assert not held(told[-1])["fresh"]
    ask(stage, said)
    stage.until(lambda: held(told[-1])["age"] < 0.5 and held(told[-1])["fresh"])


def test_every_message_in_order_where_a_port_asks_for_it(stage):
    told, said = stage.hear("held", STRING, LATCHED), stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    ask(stage, said)
    stage.until(lambda: stage.say("stream", text("first"), FEATURE.with_depth(20)) or held(told[-1])["all"])
    begin = len(held(told[-1])["all"])
    for number in range(12):
        stage.say("stream", text(str(number)), FEATURE.with_depth(20))
    stage.until(lambda: held(told[-1])["all"][-1] == "11")
    numbers = [n for n in held(told[-1])["all"] if n != "first"]
    assert numbers == [str(n) for n in range(12)] and begin >= 1


def test_the_newest_of_each_publisher_where_a_port_tells_them_apart(stage):
    told, said = stage.hear("held", STRING, LATCHED), stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    ask(stage, said)

    def heard():
        for source, number in (("b", 0.1), ("a", 0.2), ("b", 0.3)):
            stage.say("many", features(source, number), SENSOR.with_depth(5))
        stage.pause(0.1)
        return held(told[-1])["many"] == [["a", 0.2], ["b", 0.3]]
    stage.until(heard)      # best effort: what is lost is said again


def test_parameters_at_the_start(stage):
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR, gain=3.0)
    assert float(ask(stage, said).hazard[3]) == 1.5


def test_ports_are_those_of_the_configured_region(stage):
    said = stage.hear("said", STRING, FEATURE)
    stage.start(MIRROR, bare=True)
    assert ask(stage, said, text("a text")).data == "A TEXT"


def test_parameters_change_while_it_runs_or_are_refused_with_the_reason(stage):
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    ask(stage, said)
    assert stage.change(gain=2.0) == ""
    assert float(ask(stage, said).hazard[3]) == 1.0
    assert "10.0" in stage.change(gain=11.0)    # rclpy looks at ranges itself, and has its own words
    assert "cannot be changed while it runs" in stage.change(names=("c",))
    assert "must be one of plain, fancy" in stage.change(mode="odd")
    assert float(ask(stage, said).hazard[3]) == 1.0


def test_goals_of_an_action_are_done_given_up_and_canceled(stage):
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    ask(stage, said)
    done = stage.ask("now")
    stage.until(lambda: done.result)
    assert (done.status, done.result.outcome, done.result.reason) == (Status.SUCCEEDED, 3, "at once")
    never = stage.ask("never")
    stage.until(lambda: never.result)
    assert (never.status, never.result.outcome) == (Status.ABORTED, 4)
    long, other = stage.ask("long"), stage.ask("other")
    stage.until(lambda: len(long.feedback) > 2 and len(other.feedback) > 2)
    assert long.result is None and {(f.seen, float(f.distance)) for f in long.feedback} == {("long", 2.5)}
    long.cancel()
    stage.until(lambda: long.result)
    assert (long.status, long.result.outcome) == (Status.CANCELED, 6) and other.result is None
    other.cancel()
    stage.until(lambda: other.result)


def test_state_comes_back_after_a_death_without_a_word(stage, tmp_path):
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR, state_dir=tmp_path / "state")
    while not said or said[-1].confidence < 5:
        ask(stage, said)
    if isinstance(stage, ProcessStage):
        kept, mirror = tmp_path / "state" / "mirror.safetensors", Mirror("mirror")
        mirror.configure({})
        stage.until(lambda: kept.exists() and snapshot.read(kept, mirror)["count"][0] >= 5)
    stage.kill()
    said.clear()
    stage.start(MIRROR, state_dir=tmp_path / "state")
    assert ask(stage, said).confidence >= 6


def test_a_step_that_raises_ends_the_region_and_names_it_and_the_reason(stage):
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    ask(stage, said)
    stage.say("heard", features("raise"), FEATURE)
    words = stage.failed()
    assert "mirror failed in step" in words and "ValueError: told to" in words


def test_an_end_in_good_order(stage):
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    ask(stage, said)
    stage.end()
    stage.pause(0.2)
    said.clear()
    stage.say("heard", features(), FEATURE)
    stage.pause(0.3)
    assert not said
    stage.start(MIRROR)
    assert ask(stage, said).confidence >= 1


@pytest.mark.parametrize("way", ["asked", "raises", "killed"])
def test_what_a_region_moves_is_at_rest_however_it_ends(stage, way):
    if way == "killed" and not isinstance(stage, ProcessStage):
        pytest.skip("the region is no process of its own")
    wheel = stage.hear("wheel", FEATURES, FEATURE)
    stage.start(MOVES)
    stage.until(lambda: len(wheel) > 3)
    assert all(command.confidence == 1.0 for command in wheel)
    if way == "asked":
        stage.end()
    elif way == "killed":
        stage.kill()
        stage.until(lambda: wheel[-1].confidence == 0.0)
    else:
        stage.say("heard", features("raise"), FEATURE)
        stage.failed()
    stage.pause(0.3)
    assert wheel[-1].confidence == 0.0


def test_whoever_does_not_latch_is_heard_on_a_latched_topic_and_each_publication_counts_once(stage):
    told = stage.hear("held", STRING, LATCHED)
    stage.say("goal", text("latched before"), LATCHED)
    stage.start(MIRROR)
    stage.until(lambda: told and held(told[-1])["goal"] == "latched before")
    ordinary = []

    def heard():    # until both know of each other, an ordinary publication is lost
        ordinary.append(f"ordinary {len(ordinary)}")
        stage.say("button", text(ordinary[-1]), FEATURE)
        stage.pause(0.2)
        return ordinary[-1] in held(told[-1])["pressed"]
    stage.until(heard)
    for number in range(5):
        stage.say("button", text(f"again {number}"), FEATURE)
        stage.say("button", text("the same"), FEATURE)
        stage.pause(0.2)
    stage.pause(0.3)
    pressed = held(told[-1])["pressed"]
    assert [p for p in pressed if p.startswith("again")] == [f"again {number}" for number in range(5)]
    assert pressed.count("the same") == 5 and pressed.count(ordinary[-1]) == 1


def test_a_latched_publication_counts_once(stage):
    told = stage.hear("held", STRING, LATCHED)
    stage.say("button", text("before"), LATCHED.with_depth(10))
    stage.start(MIRROR)
    stage.until(lambda: told and "before" in held(told[-1])["pressed"])
    for number in range(5):
        stage.say("button", text(f"press {number}"), LATCHED.with_depth(10))
        stage.pause(0.1)
    stage.until(lambda: "press 4" in held(told[-1])["pressed"])
    stage.pause(0.3)
    assert held(told[-1])["pressed"] == ["before", *(f"press {number}" for number in range(5))]


def test_what_is_made_on_demand_is_made_and_fed_only_while_somebody_listens(stage):
    told = stage.hear("held", STRING, LATCHED)
    stage.say("goal", text("an old goal"), LATCHED)
    stage.start(SHOWS)

    def fed(wanted, seen):
        """Whether the region, which is spoken to, says so."""
        stage.say("seen", features(), SENSOR)
        stage.pause(0.05)
        return told and held(told[-1]) == {"seen": seen, "goal": bool(wanted), "wanted": wanted}
    stage.until(lambda: fed([], False))
    for _ in range(8):
        assert fed([], False)
    shown = stage.hear("shown", STRING, FEATURE)
    stage.until(lambda: fed(["shown"], True))
    stage.until(lambda: shown and held(shown[-1]) == {"seen": True, "goal": True})
    other = stage.hear("other", STRING, FEATURE)
    stage.until(lambda: fed(["other", "shown"], True) and other)
    stage.unhear("shown")
    stage.until(lambda: fed(["other"], False))
    stage.unhear("other")
    stage.until(lambda: fed([], False))
    again = stage.hear("shown", STRING, FEATURE)
    stage.until(lambda: fed(["shown"], True) and again)


@pytest.mark.parametrize("budget", [1.0, 0.0])
def test_what_may_wait_for_an_energy_budget_does_and_what_must_not_does_not(stage, budget):
    numbers, alarms = (stage.hear(topic, FEATURES, FEATURE) for topic in ("number", "alarm"))
    stage.start(CHATTER, energy_budget=budget)
    stage.until(lambda: len(alarms) > 8)
    first = round(float(alarms[0].confidence))
    told = [round(float(m.confidence)) for m in numbers if m.confidence >= first]
    assert told == sorted(set(told))
    assert [round(float(m.confidence)) for m in alarms] == list(range(first, first + 30 * len(alarms), 30))
    assert set(range(first, told[-1] + 1, 30)) <= set(told), "what is urgent is never held back"
    missing = told[-1] - first + 1 - len(told)
    assert missing > 60 if budget else missing == 0


def test_numbers_survive_the_way_bit_by_bit(stage):
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    message = features()
    message.hazard = np.random.default_rng(0).random(36, np.float32)
    assert ask(stage, said, message).hazard.tobytes() == message.hazard.tobytes()

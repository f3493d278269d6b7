# SPDX-License-Identifier: Apache-2.0
"""Stepper and LocalHost: triggers, rates, ages, latched topics, origins, errors, determinism."""
from dataclasses import dataclass

import numpy as np
import pytest

from brain_runtime import Ask, FEATURE, In, LATCHED, Out, ParameterError, Region, SENSOR, parameter
from brain_runtime.hosts.local import LocalHost
from brain_runtime.contract.stepper import RegionError
from brain_wire import messages

STRING = "std_msgs/msg/String"
SCAN = "sensor_msgs/msg/LaserScan"
FEATURES = "brain_interfaces/msg/SensorFeatures"


class Clock(Region):
    rate = 20.0
    out = Out("tick", "brain_interfaces/msg/SensorFeatures", FEATURE)

    def step(self, inbox, state, dt, rng):
        count = state["count"] + 1
        return {"out": self.out(source=self.name, confidence=float(rng.random()))}, {"count": count}

    def initial_state(self):
        return {"count": np.zeros(1, np.float32)}


class Follower(Region):
    tick = In("tick", FEATURES, FEATURE, trigger=True, key="source")
    goal = In("goal/text", STRING, LATCHED, device=True)
    scan = In("scan", SCAN, SENSOR, device=True)
    out = Out("echo", FEATURES, FEATURE)

    @dataclass(frozen=True)
    class Parameters:
        gain: float = parameter(1.0, "scales what is echoed", low=0.0, high=2.0)
        size: int = parameter(3, "cannot change", live=False)

    def step(self, inbox, state, dt, rng):
        self.seen = [(r.message.source, round(r.age, 3), r.new) for r in inbox.each("tick")]
        self.goal_text = inbox.get("goal") and inbox.get("goal").data
        self.dt = dt
        return {"out": self.out(source="follower")}, state


def test_trigger_chain_runs_in_the_same_instant():
    follower = Follower()
    host = LocalHost({"clock": Clock(), "follower": follower})
    host.advance(1.0)
    assert host.stepper("clock").steps == 21            # at 0, 0.05, ..., 1.0
    assert host.stepper("follower").steps == 21
    assert follower.seen == [("clock", 0.0, True)]
    assert follower.dt == pytest.approx(0.05)


class Look(Region):
    echo = In("echo", FEATURES, FEATURE, trigger=True, feeds=("shown",))
    shown = Out("shown", STRING, FEATURE, on_demand=True)

    def step(self, inbox, state, dt, rng):
        return {"shown": self.shown(data=inbox.get("echo").source)}, state


class LookAgain(Region):
    first = In("shown", STRING, FEATURE, trigger=True, feeds=("again",))
    again = Out("again", STRING, FEATURE, on_demand=True)

    def step(self, inbox, state, dt, rng):
        return {"again": self.again(data=inbox.get("first").data)}, state


def test_who_is_listened_to_only_for_others_is_wanted_when_they_are():
    host = LocalHost({"again": LookAgain(), "look": Look(), "clock": Clock(), "follower": Follower()})
    host.advance(1.0)
    assert host.stepper("look").steps == host.stepper("again").steps == 0
    seen = []
    end = host.listen("again", lambda m: seen.append(m.data))
    host.advance(0.5)
    assert seen == ["follower"] * 10
    assert host.regions["look"].wanted == {"shown"} and host.regions["again"].wanted == {"again"}
    end()
    host.advance(1.0)
    assert len(seen) == 10 and not host.regions["look"].wanted and host.stepper("look").steps == 10


def test_an_input_that_is_connected_while_nothing_waits_makes_no_step():
    """All ranks of TorchHost work through the same schedule, and only one of them connects the input."""
    host = LocalHost({"look": type("LookByRate", (Look,), {"rate": 5.0})()})
    host.listen("shown", lambda m: None)
    host.publish("something/else", messages.make(STRING, data=""))
    assert host.stepper("look").steps == 0
    host.publish("echo", messages.make(FEATURES, source="tester"))
    assert host.stepper("look").steps == 1


def test_ports_on_demand_must_fit():
    with pytest.raises(TypeError, match="port echo feeds 'out', which is none"):
        type("Wrong", (Follower,), {"echo": In("echo", FEATURES, FEATURE, feeds=("out",))})
    with pytest.raises(TypeError, match="no port can be named spikes"):
        type("Wrong", (Region,), {"spikes": In("echo", FEATURES, FEATURE)})
    for name in vars(Region("any")):    # what every region sets on itself would hide the port
        if not name.startswith("_"):
            with pytest.raises(TypeError, match=f"no port can be named {name}"):
                type("Wrong", (Region,), {name: In("echo", FEATURES, FEATURE)})
    with pytest.raises(ValueError, match="both latched and on demand"):
        Out("x", STRING, LATCHED, on_demand=True)


def test_rate_does_not_drift():
    host = LocalHost({"clock": Clock()})
    for _ in range(1000):
        host.advance(0.017)
    assert host.stepper("clock").steps == 17 * 20 + 1


def test_latched_topic_reaches_a_late_joiner():
    host = LocalHost({"clock": Clock()})
    host.publish("goal/text", messages.make(STRING, data="go"))
    host.advance(0.2)
    late = Follower()
    host.join("late", late)
    host.advance(0.1)
    assert late.goal_text == "go"


def test_two_publishers_of_one_topic_are_kept_apart_and_age():
    follower = Follower()
    host = LocalHost({"a": Clock(), "b": Clock(), "follower": follower})
    host.advance(0.5)
    host.kill("b")
    host.advance(0.3)
    assert [s[0] for s in follower.seen] == ["a", "b"]
    assert follower.seen[1][1] == pytest.approx(0.3, abs=1e-3) and not follower.seen[1][2]


def test_origins_name_the_newest_capture_of_each_source():
    host = LocalHost({"follower": Follower()})
    scan = messages.make(SCAN)
    scan.header.stamp = messages.time_message(12.5)
    host.publish("scan", scan)
    features = messages.make(FEATURES, source="x")
    host.publish("tick", features)
    origins = host.latest("echo").origins
    assert [(o.source, messages.time_seconds(o.stamp)) for o in origins] == [("scan", 12.5)]


def test_same_seed_same_messages():
    def run():
        heard = []
        host = LocalHost({"clock": Clock(), "follower": Follower()}, seed=5)
        host.listen("tick", lambda m: heard.append(m.confidence))
        host.advance(1.0)
        return heard
    first = run()
    assert len(set(first)) > 10
    assert run() == first


def test_what_is_heard_is_what_a_wire_would_bring():
    """Numbers are rounded as their types say, no reader reaches into the publisher, and what cannot be sent fails."""
    said = messages.make(FEATURES, source="x", confidence=0.1)
    host = LocalHost({"follower": Follower()})
    host.publish("tick", said)
    heard = host.stepper("follower").slots["tick"].message
    assert heard is not said and heard.confidence == float(np.float32(0.1)) != 0.1

    class Loud(Region):
        said = Out("tick", FEATURES)
        rate = 10.0

        def step(self, inbox, state, dt, rng):
            message = self.said(source="x")
            message.source = "x" * 1000
            return {"said": message}, state
    host = LocalHost({"loud": Loud("loud"), "follower": Follower()})
    with pytest.raises(RegionError, match="loud published what cannot be sent: .* at most 64 fit"):
        host.advance(1.0)


def test_error_names_the_region_and_can_be_survived():
    class Broken(Follower):
        def step(self, inbox, state, dt, rng):
            raise ZeroDivisionError("no")
    with pytest.raises(RegionError, match="broken failed in step 1: ZeroDivisionError"):
        LocalHost({"clock": Clock(), "broken": Broken()}).advance(0.1)
    host = LocalHost({"clock": Clock(), "broken": Broken()}, on_error="drop")
    host.advance(1.0)
    assert "broken" in host.errors and host.stepper("clock").steps == 21


def test_wrong_type_and_unknown_port_are_named():
    class Odd(Clock):
        def step(self, inbox, state, dt, rng):
            return {"other": None}, state
    with pytest.raises(RegionError, match="publishes out"):
        LocalHost({"odd": Odd()}).advance(0.1)


def test_endless_triggering_is_reported():
    class Loop(Region):
        tick = In("tick", FEATURES, FEATURE, trigger=True)
        out = Out("tick", FEATURES, FEATURE)

        def step(self, inbox, state, dt, rng):
            return {"out": self.out(source="loop")}, state
    with pytest.raises(RegionError, match="without end"):
        LocalHost({"clock": Clock(), "loop": Loop()}).advance(0.1)


def test_parameters_are_checked():
    follower = Follower()
    with pytest.raises(ParameterError, match="gain of follower is 3.0, but must be between 0.0 and 2.0"):
        follower.configure({"gain": 3.0})
    with pytest.raises(ParameterError, match="did you mean gain"):
        follower.configure({"gian": 1.0})
    with pytest.raises(ParameterError, match="finite"):
        follower.configure({"gain": float("nan")})
    follower.configure({"gain": 2})
    assert follower.parameters.gain == 2.0
    with pytest.raises(ParameterError, match="while it runs"):
        follower.on_parameter("size", 4)


def test_a_region_that_asks_others_for_actions_is_refused_in_lockstep():
    class Asks(Region):
        rate = 10.0
        go = Ask("go", "brain_interfaces/action/Seek")

    with pytest.raises(ParameterError, match="asks others for go, which a region on this host .local. cannot"):
        LocalHost({"asks": Asks()})

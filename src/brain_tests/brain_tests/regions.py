# SPDX-License-Identifier: Apache-2.0
"""Regions that the conformance suite runs on every host."""
from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np

from brain_runtime import FEATURE, LATCHED, SENSOR, Act, Gated, In, Out, Region, parameter
from brain_runtime.contract import tensors
from brain_runtime.interfaces import Seek
from brain_wire.messages import time_seconds

FEATURES = "brain_interfaces/msg/SensorFeatures"
STRING = "std_msgs/msg/String"


class Mirror(Region):
    """Says back what it hears, with a count that lives in its state; tells what it holds when it is asked."""

    rate = 20.0

    heard = In("heard", FEATURES, FEATURE, trigger=True, device=True)
    goal = In("goal", STRING, LATCHED, device=True)
    stream = In("stream", STRING, FEATURE.with_depth(20), every=True, device=True)
    button = In("button", STRING, LATCHED.with_depth(10), every=True, device=True)
    many = In("many", FEATURES, SENSOR.with_depth(5), key="source", device=True)
    said = Out("said", FEATURES, FEATURE, stamp_from="heard")
    held = Out("held", STRING, LATCHED)
    seek = Act("seek", "brain_interfaces/action/Seek")

    @dataclass(frozen=True)
    class Parameters:
        gain: float = parameter(1.0, "Scales the hazards.", unit="1", low=0.0, high=10.0)
        names: tuple = parameter(("a", "b"), "Texts.", live=False)
        mode: str = parameter("plain", "A text.", choices=("plain", "fancy"))
        count: int = parameter(3, "A whole number.", low=0)
        bare: bool = parameter(False, "Hears and says std_msgs/String on two of the topics instead.", live=False)

    def configure(self, parameters):
        super().configure(parameters)
        self._all: list[str] = []
        self._pressed: list[str] = []
        self.heard, self.said = type(self).heard, type(self).said
        if self.parameters.bare:
            self.heard = replace(self.heard, type=STRING)
            self.said = replace(self.said, type=STRING, stamp_from=None)

    def initial_state(self):
        return {"count": np.zeros(1, np.float32), "steps": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        state = {**state, "steps": state["steps"] + 1}
        self._all += [r.message.data for r in inbox.each("stream") if r.new]
        self._pressed += [r.message.data for r in inbox.each("button") if r.new]
        out = {"held": self.held(data=json.dumps({
            "goal": None if inbox.get("goal") is None else inbox.get("goal").data,
            "age": min(inbox.age("heard"), 1e6), "steps": float(state["steps"][0]), "dt": dt, "all": self._all[-50:],
            "pressed": self._pressed[-50:],
            "many": [[r.message.source, round(float(r.message.confidence), 3)] for r in inbox.each("many")],
            "fresh": inbox.get("heard", within=0.5) is not None, "clock": inbox.stamp}))}
        out["seek"] = [self._answer(goal) for goal in inbox.goals("seek")]
        if inbox.new("heard"):
            message = inbox.get("heard")
            state["count"] = state["count"] + 1
            if self.parameters.bare:
                return {**out, "said": self.said(data=message.data.upper())}, state
            if message.source == "raise":
                raise ValueError("told to")
            out["said"] = self.said(source=self.name, modality=message.source, confidence=float(state["count"][0]),
                                    hazard=message.hazard * np.float32(self.parameters.gain))
        return out, state

    def _answer(self, goal):
        """``now`` and ``never`` at once; else not before it is canceled."""
        if goal.request.text == "now":
            return self.seek.succeeded(goal, outcome=Seek.Result.OUTCOME_REACHED, reason="at once")
        if goal.request.text == "never":
            return self.seek.aborted(goal, outcome=Seek.Result.OUTCOME_NOT_FOUND)
        if goal.canceling:
            return self.seek.canceled(goal, outcome=Seek.Result.OUTCOME_STOPPED)
        return self.seek.feedback(goal, seen=goal.request.text, distance=2.5)


class Moves(Region):
    """Commands a wheel with every step; once it is to come to rest, zeros for a while."""

    rate = 20.0

    heard = In("heard", FEATURES, FEATURE, trigger=True, device=True)
    wheel = Out("wheel", FEATURES, FEATURE.with_depth(10), alone=True)

    def step(self, inbox, state, dt, rng):
        if inbox.new("heard"):
            if inbox.get("heard").source == "raise":
                raise ValueError("told to")
        return {"wheel": self.wheel(source=self.name, confidence=1.0)}, state

    def come_to_rest(self, inbox, state, since):
        return {"wheel": self.wheel(source=self.name, confidence=0.0)}, since >= 0.1


class Refuses(Mirror):
    """Cannot be configured, unless it is told to be loud."""

    def configure(self, parameters):
        super().configure(parameters)
        if self.parameters.gain < 9.0:
            raise OSError("no weights here")


class Fragile(Mirror):
    """Has a bug that a parameter brings about."""

    def on_parameter(self, name, value):
        if name == "gain":
            1 / value
        super().on_parameter(name, value)


class Shows(Region):
    """Shows what it hears while somebody looks, and tells what it holds."""

    rate = 20.0

    seen = In("seen", FEATURES, SENSOR, device=True, feeds=("shown",))
    goal = In("goal", STRING, LATCHED, trigger=True, device=True, feeds=("shown", "other"))
    shown = Out("shown", STRING, FEATURE, on_demand=True)
    other = Out("other", STRING, FEATURE, on_demand=True)
    held = Out("held", STRING, LATCHED)

    def step(self, inbox, state, dt, rng):
        told = {name: inbox.get(name) is not None for name in ("seen", "goal")}
        return {"held": self.held(data=json.dumps({**told, "wanted": sorted(self.wanted)})),
                "shown": self.shown(data=json.dumps(told)), "other": self.other(data="whether wanted or not")}, state


class Waits(Region):
    """Makes no step but for a goal, which may be older than itself."""

    goal = In("goal", STRING, LATCHED, trigger=True, device=True)
    held = Out("held", STRING, LATCHED)

    def step(self, inbox, state, dt, rng):
        return {"held": self.held(data=json.dumps({"goal": inbox.get("goal").data}))}, state


class Chatter(Region):
    """Says its step's number 200 times a second; every 30th is urgent, and told as an alarm too."""

    rate = 200.0

    number = Out("number", FEATURES, FEATURE.with_depth(10), gated=Gated(urgent=lambda m: m.hazard[0] > 0))
    alarm = Out("alarm", FEATURES, FEATURE.with_depth(10))

    def initial_state(self):
        return {"count": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        count = float(state["count"][0]) + 1
        says = dict(source=self.name, confidence=count, hazard=np.full(36, count % 30 == 0))
        out = {"number": self.number(**says), **({"alarm": self.alarm(**says)} if count % 30 == 0 else {})}
        return out, {"count": np.array([count], np.float32)}


def held(message) -> dict:
    """Decodes a message on ``held``."""
    return json.loads(message.data)


def stamp(message) -> float:
    """Stamp of a message's header (s)."""
    return time_seconds(message.header.stamp)


class Exchanges(Region):
    """Says back what it hears, in whatever codec it came."""

    numbers = In("numbers", codec="tensor", trigger=True, device=True)
    half = In("half", codec="tensor:bfloat16[*]", trigger=True, device=True)
    rows = In("rows", codec="tensor:float32[*,3]", trigger=True, device=True)
    fired = In("fired", codec="tensor:bool[1000]", trigger=True, device=True)
    told = In("told", codec="json", trigger=True, device=True)
    raw = In("raw", codec="bytes", trigger=True, device=True)
    numbers_back = Out("numbers_back", codec="tensor", stamp_from="numbers")
    half_back = Out("half_back", codec="tensor:bfloat16[*]")
    rows_back = Out("rows_back", codec="tensor:float32[*,3]")
    fired_back = Out("fired_back", codec="tensor:bool[*]")
    told_back = Out("told_back", codec="json")
    raw_back = Out("raw_back", codec="bytes")

    def step(self, inbox, state, dt, rng):
        return {f"{name}_back": inbox.get(name) for name in self.inputs() if inbox.new(name)}, state


class ExchangesProtobuf(Region):
    """Says back what it hears, with a field more; for where protobuf is installed."""

    heard = In("heard", codec="protobuf:google.protobuf.struct_pb2:Struct", trigger=True, device=True)
    said = Out("said", codec="protobuf:google.protobuf.struct_pb2:Struct")

    def step(self, inbox, state, dt, rng):
        said = inbox.get("heard")
        if inbox.new("heard"):
            said["more"] = True
        return {"said": said}, state


class Eye(Region):
    """Sees noise, of another size each time."""

    rate = 20.0
    picture = Out("picture", "sensor_msgs/msg/Image", SENSOR)

    def step(self, inbox, state, dt, rng):
        width = int(rng.integers(1, 200))
        return {"picture": self.picture(width=width, height=3, encoding="mono8", step=width,
                                        data=rng.integers(0, 256, 3 * width, np.uint8))}, state


class Seer(Region):
    """Makes a sparse Tensor of each picture, and a truth that rounding changes; fails at a goal that says so."""

    picture = In("picture", "sensor_msgs/msg/Image", SENSOR, trigger=True)
    goal = In("goal", STRING, LATCHED, device=True, trigger=True)
    seen = Out("seen", tensors.TYPE, FEATURE)
    told = Out("told", FEATURES, FEATURE)

    def step(self, inbox, state, dt, rng):
        goal, picture = inbox.get("goal"), inbox.get("picture")
        if goal is not None and goal.data == "raise":
            raise ValueError("told to")
        if picture is None:
            return {}, state
        bright = picture.data > 200
        return {"seen": tensors.tensor(bright), "told": self.told(confidence=float(bright.mean()) / 3.0)}, state


class Doubter(Region):
    """Hears both and keeps what it cannot be sure of."""

    rate = 7.0
    seen = In("seen", tensors.TYPE, FEATURE, trigger=True)
    told = In("told", FEATURES, FEATURE, trigger=True)
    doubt = Out("doubt", FEATURES, FEATURE)

    def initial_state(self):
        return {"doubt": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        seen, told = inbox.get("seen"), inbox.get("told")
        if seen is None or told is None:
            return {}, state
        more = tensors.array(seen).sum() * told.confidence + rng.random()
        doubt = state["doubt"] * np.float32(0.9) + np.float32(more)
        return {"doubt": self.doubt(confidence=float(doubt[0]), source="doubter")}, {"doubt": doubt}

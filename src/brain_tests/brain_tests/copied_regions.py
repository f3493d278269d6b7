# SPDX-License-Identifier: Apache-2.0
"""Regions that the tests of copies and ticks run."""
from __future__ import annotations

import hashlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from brain_runtime import FEATURE, LATCHED, In, Out, Region, parameter
from brain_runtime.contract.declared import Weights

FEATURES = "brain_interfaces/msg/SensorFeatures"


class Used(Region):
    """Gets used to what it hears: its levels follow it, and it says what is new. It counts its steps for itself."""

    rate = 20.0
    adaptive = ("levels",)
    weights = Weights(Path(tempfile.gettempdir()), "none")

    light = In("light", FEATURES, FEATURE, device=True)
    fresh = Out("fresh", FEATURES, FEATURE)

    @dataclass(frozen=True)
    class Parameters:
        weights: str = parameter("", "File of weights; any bytes.", live=False, local=True)

    def configure(self, parameters):
        super().configure(parameters)
        if self.parameters.weights:
            content = Path(self.parameters.weights).read_bytes()
            self.weights_hash = hashlib.sha256(content).hexdigest()[:16]

    def initial_state(self):
        return {"levels": np.zeros((2, 18), np.float32), "steps": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        state = {**state, "steps": state["steps"] + 1}
        light = inbox.get("light")
        if light is None:
            return {}, state
        heard = light.hazard.reshape(2, 18)
        state["levels"] = state["levels"] + np.float32(0.1) * (heard - state["levels"])
        noise = rng.random(36).astype(np.float32)
        fresh = np.abs(heard - state["levels"]).ravel() + np.float32(0.01) * noise
        return {"fresh": self.fresh(source=self.name, hazard=fresh, confidence=float(self.weights_hash != ""))}, state


class Listed(Used):
    """Names an entry that its state does not have."""

    adaptive = ("levels", "gains")


class Takes(Region):
    """Takes so long for each step that asks for it (wall clock)."""

    rate = 20.0
    goal = In("goal", "std_msgs/msg/Float32", LATCHED, device=True)
    done = Out("done", "std_msgs/msg/Float32", FEATURE)

    def step(self, inbox, state, dt, rng):
        goal = inbox.get("goal")
        if goal is not None and goal.data > 0.0 and self.name == "slow":
            time.sleep(float(goal.data))
        return {"done": self.done(data=1.0)}, state

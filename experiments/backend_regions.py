# SPDX-License-Identifier: Apache-2.0
"""The regions with which ``brain bench backends`` compares hosts: a source, a chain behind it, and one beside it.

``source`` speaks at 50 Hz; ``relay`` passes it on, as late as it is told; ``sink`` hears the relay, and ``aside`` the
source itself. Who is delayed or killed is the relay; what that costs source and aside, which hear nothing of it, is
what hosts differ in.
"""
from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from brain_runtime import FEATURE, In, Out, Region, parameter

TYPE = "std_msgs/msg/String"
RATE = 50.0         # Hz, of the source
KEPT = 4000         # ages of messages that an end keeps


class Source(Region):
    """Says the time, on the clock that all processes of one machine have in common."""

    rate = RATE
    said = Out("backends/said", TYPE, FEATURE)

    def step(self, inbox, state, dt, rng):
        return {"said": self.said(data=str(time.monotonic()))}, state


class Relay(Region):
    """Passes on what it hears, late."""

    said = In("backends/said", TYPE, FEATURE, trigger=True)
    passed = Out("backends/passed", TYPE, FEATURE)

    @dataclass(frozen=True)
    class Parameters:
        late: float = parameter(0.0, "How long a step takes.", unit="s", low=0.0, high=10.0)

    def step(self, inbox, state, dt, rng):
        time.sleep(self.parameters.late)
        return {"passed": self.passed(data=inbox.get("said").data)}, state


class End(Region):
    """Notes how old what it hears is, and tells when it is asked: of all that came since the last time."""

    asked = In("backends/asked", TYPE, FEATURE, trigger=True, device=True)

    def configure(self, parameters):
        super().configure(parameters)
        self._ages: deque[float] = deque(maxlen=KEPT)

    def step(self, inbox, state, dt, rng):
        if inbox.new("heard"):
            self._ages.append(time.monotonic() - float(inbox.get("heard").data))
        if not inbox.new("asked"):
            return {}, state
        ages = np.array(self._ages)
        self._ages.clear()
        told = {"id": inbox.get("asked").data, "name": self.name, "n": len(ages),
                **({"p50": float(np.percentile(ages, 50)), "p99": float(np.percentile(ages, 99))} if len(ages) else {})}
        return {"told": self.told(data=json.dumps(told))}, state


class Sink(End):
    """Behind the relay."""

    heard = In("backends/passed", TYPE, FEATURE, trigger=True)
    told = Out("backends/told", TYPE, FEATURE.with_depth(10))


class Aside(End):
    """Beside it."""

    heard = In("backends/said", TYPE, FEATURE, trigger=True)
    told = Out("backends/told", TYPE, FEATURE.with_depth(10))

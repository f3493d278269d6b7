# SPDX-License-Identifier: Apache-2.0
"""Health of a region's process, judged from its heartbeats.

Time is what the watcher counts, not what a clock says: while the watcher itself does not get the processor, nobody
else can be blamed for being late; nor can a process while it waits for a processor, see :mod:`.cpu_wait`.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from brain_runtime.contract.constants import heartbeat_state
from brain_runtime.contract.heartbeat import ACTIVE, ERROR, FINALIZED, PERIOD, UNCONFIGURED

NEWS = 0.35   # s, age of the last heartbeat up to which what it says holds
LATELY = 1.0  # s, time constant of the share of heartbeats that came
FRESH = 0.5  # s, age below which an input counts as fresh
RESTING = (UNCONFIGURED, FINALIZED)     # states in which a region makes no steps until it has been configured


@dataclass(frozen=True)
class Limits:
    """Timeouts after which a process is ended and started again (s).

    Attributes:
        start: from its start to its first heartbeat, and while it is configured.
        silence: between heartbeats.
        silence_without_token: the same, once its liveliness token is gone too.
        silence_together: between heartbeats while the wire is doubted, see :attr:`Health.doubted`.
        step: one step; also without any step while there is something to do.
        first_step: the first one, which may have to compile or to load.
        error: in state ``error`` without ending by itself.
    """

    start: float = 60.0
    silence: float = 1.5
    silence_without_token: float = 0.7
    silence_together: float = 15.0
    step: float = 3.0
    first_step: float = 20.0
    error: float = 3.0


class Health:
    """State of one process, judged from its heartbeats.

    Args:
        limits: see there.
        rate: steps a second that it is to make by itself (Hz), or None.
        triggers: topics that make it step.
        resting: states after which it may be silent for as long as a start takes.
    """

    def __init__(self, limits: Limits, rate: float | None = None, triggers: tuple[str, ...] = (),
                 resting: tuple[int, ...] = RESTING) -> None:
        self._limits = limits
        self._rate = rate
        self._triggers, self._resting = triggers, resting
        self.last: Any | None = None
        self.age = 0.0
        self.silence = 0.0
        self.token: bool | None = None
        self.known = 0.0        # s since its first heartbeat
        self.heard = 0.0        # share of its heartbeats that came of late, 1 for all of them
        self.doubted = False    # its silence may be the wire's fault: others are silent too, while their tokens stand
        self._in_step = self._idle = self._in_error = 0.0
        self._fresh = False

    def beat(self, message: Any) -> None:
        """Takes in a heartbeat of this process."""
        if self.last is None or message.step != self.last.step or message.state != self.last.state:
            self._in_step = self._idle = 0.0
        if message.state != ERROR:
            self._in_error = 0.0
        ages = dict(zip(message.inputs, message.input_ages, strict=False))
        self._fresh = self._rate is not None or any(ages.get(t, math.inf) < FRESH for t in self._triggers)
        self.silence = 0.0
        self.heard = min(1.0, self.heard + PERIOD / LATELY)
        self.doubted = False
        self.last = message

    @property
    def late(self) -> bool:
        """True where it has been silent, in one step or idle for longer than usual."""
        return self.last is not None and max(self.silence, self._in_step, self._idle) > NEWS

    def forgive(self) -> None:
        """Nothing can be heard for a reason that is not the process's: its silence starts anew."""
        self.silence = 0.0

    def elapse(self, dt: float) -> str | None:
        """Lets ``dt`` seconds pass in which heartbeats could have been heard.

        Returns:
            What is wrong, or None.
        """
        self.age += dt
        self.silence += dt
        self.heard *= math.exp(-dt / LATELY)
        limits = self._limits
        self.known += dt if self.last is not None else 0.0
        if self.last is None:
            return f"gave no heartbeat within {limits.start:g} s of its start" if self.age > limits.start else None
        if self.last.state in self._resting:
            allowed, token = limits.start, ""   # it may be loading, and its node may be made anew; nothing moves by it
        elif self.token is False:
            allowed, token = limits.silence_without_token, ", and its liveliness token is gone"
        else:
            allowed, token = limits.silence_together if self.doubted else limits.silence, ""
        if self.silence > allowed:
            return f"hung: no heartbeat for {allowed:g} s{token}"
        if self.silence > NEWS:
            return None     # what it has been at since its last heartbeat is not known
        if self.last.state == ERROR:
            self._in_error += dt
            return f"in state {heartbeat_state(ERROR)}: {self.last.reason}" if self._in_error > limits.error else None
        if self.last.state != ACTIVE:
            return None
        if self.last.stepping:
            self._in_step += dt
            allowed = limits.step if self.last.step else limits.first_step
            if self._in_step > allowed:
                return f"stuck: step {self.last.step + 1} takes more than {allowed:g} s"
            return None
        if self._fresh:
            self._idle += dt
            allowed = limits.step + (1.0 / self._rate if self._rate else 0.0)
            if self._idle > allowed:
                return f"stuck: no step for {allowed:g} s though there is something to do"
        return None

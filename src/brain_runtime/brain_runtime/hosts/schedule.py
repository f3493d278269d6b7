# SPDX-License-Identifier: Apache-2.0
"""The schedule of regions in lockstep: whose step starts next. It depends on nothing but what they do.

At each instant the regions whose rate asks for a step make one, in the order in which they joined; then those whose
energy budget lets go of something send it; then what all that has triggered steps, in the order in which it was
triggered, until nothing is left. The clock does not move meanwhile.
"""
from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Callable, Mapping, Protocol

from brain_runtime.contract import heartbeat as beat
from brain_runtime.contract.stepper import RegionError

TICK = 1e-6     # s; times are kept as whole ticks so that they do not drift
MAX_CASCADE = 1000  # steps at one instant; more means that regions trigger each other for ever
AT_ONCE = 16        # steps of each region in one go, where time is taken over from outside


class Scheduled(Protocol):
    """A region in the schedule."""

    @property
    def name(self) -> str:
        """Of its node."""

    @property
    def idle(self) -> bool:
        """It makes no steps."""

    @property
    def next_tick(self) -> float:
        """Time at which its rate asks for the next step (s); ``-inf`` before the first, ``inf`` without a rate."""

    @property
    def budget(self) -> float:
        """Its energy budget (B/s); 0: none."""

    @property
    def held_until(self) -> float:
        """Time at which that lets go of what it holds (s); ``inf`` while it holds nothing."""

    def beat(self) -> object:
        """Tells its heartbeat."""

    def step(self, now: float, stamp: float) -> None:
        """Makes a step at ``now`` (s, simulated), and sends what it made. Raises RegionError."""

    def let_go(self) -> None:
        """Sends what its energy budget lets go of now."""


@dataclass
class _Meeting:
    """Periodic call, every ``period`` ticks, next at ``due``."""

    period: int
    due: int
    call: Callable[[], None]


class LocalSchedule:
    """Starts the steps of all regions.

    Args:
        regions: by name, in the order in which they step at the same instant; others may join and leave.
    """

    def __init__(self, regions: Mapping[str, Scheduled]) -> None:
        self._regions = regions
        self._ticks = 0
        self._next_beat = 0
        self._triggered: deque[Scheduled] = deque()
        self._from_outside = False      # time is
        self._meetings: list[_Meeting] = []

    def meet_every(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls something again and again, at the end of instants; what was missed is not made up for."""
        period = round(seconds / TICK)
        self._meetings.append(_Meeting(period, self._ticks + period, call))

    @property
    def now(self) -> float:
        """Simulated time since the start (s)."""
        return self._ticks * TICK

    def due(self, hosted: Scheduled) -> None:
        """A region is to step at this instant."""
        if hosted not in self._triggered:
            self._triggered.append(hosted)

    def waits(self, hosted: Scheduled) -> bool:
        """Tells whether a region is to step at this instant, and has not yet."""
        return hosted in self._triggered

    def advance(self, seconds: float) -> None:
        """Lets simulated time pass.

        Raises:
            RegionError: regions trigger each other without end. Whatever a step leads to.
        """
        end = self._ticks + round(seconds / TICK)
        self.settle()
        while (instant := self._next()) <= end:
            self._ticks = max(self._ticks, int(instant))
            self._instant()
        self._ticks = end

    def move_to(self, now: float) -> None:
        """Takes the time over from outside (s since the start). The clock never goes back; nothing is done yet.

        From then on regions may trigger each other for ever, since time goes on meanwhile: :meth:`settle` makes some of
        these steps, and the rest is due at the next moment.
        """
        self._from_outside = True
        self._ticks = max(self._ticks, round(now / TICK))

    def catch_up(self) -> None:
        """Does once, now, what was due up to now, however often it was due. Raises as :meth:`advance`."""
        self.settle()
        if self._next() <= self._ticks:
            self._instant()
            self._next_beat = max(self._next_beat, self._ticks)     # those that were missed are not made up for

    @property
    def next_due(self) -> float:
        """Time at which something is due without a trigger; now while triggered steps wait (s since the start)."""
        return self.now if self._triggered else self._next() * TICK

    def _instant(self) -> None:
        """Does what is due at this instant."""
        if self._ticks >= self._next_beat:
            self._next_beat += round(beat.PERIOD / TICK)
            for hosted in tuple(self._regions.values()):
                hosted.beat()
        for hosted in tuple(self._regions.values()):
            if not hosted.idle and self._tick_of(hosted) <= self._ticks:
                self._step(hosted)
        for hosted in tuple(self._regions.values()):
            if hosted.budget:
                hosted.let_go()
        self.settle()
        for meeting in self._meetings:
            if meeting.due <= self._ticks:
                meeting.due += meeting.period * ((self._ticks - meeting.due) // meeting.period + 1)
                meeting.call()

    def _next(self) -> float:
        """The next instant at which something is due (ticks)."""
        instant: float = min([self._next_beat, *(meeting.due for meeting in self._meetings)])
        for hosted in self._regions.values():
            if hosted.idle:
                continue
            tick = self._tick_of(hosted)
            if tick < instant:
                instant = tick
            if hosted.budget and hosted.held_until < math.inf:
                instant = min(instant, math.ceil(hosted.held_until / TICK - 1e-3))
        return instant

    def _tick_of(self, hosted: Scheduled) -> float:
        due = hosted.next_tick
        if due == -math.inf:
            return self._ticks
        return math.inf if due == math.inf else round(due / TICK)

    def settle(self) -> None:
        """Makes the steps that were triggered, until none is left. Raises as :meth:`advance`.

        Where time is taken over from outside it makes :data:`AT_ONCE` for each region at most: counted, so that all who
        work through the same schedule stop at the same step.
        """
        for _ in range(AT_ONCE * len(self._regions) if self._from_outside else MAX_CASCADE):
            if not self._triggered:
                return
            self._step(self._triggered.popleft())
        if self._from_outside:
            return
        raise RegionError(f"regions trigger each other without end at {self.now:.3f} s; the last were "
                          + ", ".join(hosted.name for hosted in self._triggered))

    def _step(self, hosted: Scheduled) -> None:
        if hosted.idle:
            return
        now, next_tick = self.now, hosted.next_tick
        # a tick that rounding put a hair before its due time is still that tick
        hosted.step(max(now, next_tick) if abs(now - next_tick) < TICK else now, now)

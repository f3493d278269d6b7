# SPDX-License-Identifier: Apache-2.0
"""Stepper: one region's inbox, ticks, state and counts. Every host drives a region through this, in one thread.

What differs between hosts is where messages come from, where they go and what the time is; what a step means does not.
"""
from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np

from brain_runtime.contract import port_codecs
from brain_runtime.contract.inbox import EverySlot, GoalSlot, Inbox, Slot, make_slot
from brain_runtime.contract.ports import Out
from brain_runtime.contract.region import Region, State
from brain_wire import messages
from brain_wire.goals import Act, Ask, Goal, News, Status

MAX_ORIGINS = 8
STATISTICS_WINDOW = 5.0  # s over which rates and percentiles are taken


class RegionError(RuntimeError):
    """A region's step raised, or returned something that cannot be published; names the region and the step."""


class _Sent(NamedTuple):
    """A port that is published, and what its messages have.

    ``plain``: they are sent as the region makes them.
    """

    port: Out
    plain: bool
    header: bool
    origins: bool
    codec: port_codecs.Codec | None


@dataclass(frozen=True)
class Statistics:
    """Statistics of a region's steps over the last seconds (durations in s, rates in Hz)."""

    rate: float
    step_p50: float
    step_p99: float
    spikes_per_second: float
    synops_per_second: float


class Stepper:
    """Runs one configured region. Not thread-safe: all calls but :attr:`stepping_since` come from one thread.

    Args:
        region: configured, not yet activated.
        seed: mixed with the region's name into its random stream.
        state: restored state, or None for the region's initial one.
        monotonic: clock that step durations are measured with (s).
    """

    def __init__(self, region: Region, *, seed: int = 0, state: State | None = None,
                 monotonic: Callable[[], float] = time.perf_counter) -> None:
        self.region = region
        self.state: State = region.initial_state() if state is None else state
        self.steps = 0
        self.last_step: float | None = None
        self.took = math.nan    # s that the newest step took
        self.stepping_since: float | None = None
        self._monotonic = monotonic
        self._rng = np.random.default_rng([seed, *region.name.encode()])
        self.inputs = region.hears()
        self._outputs = {name: _sent(port) for name, port in region.publishes().items()}
        self._codecs = {name: port_codecs.find(port.codec) for name, port in self.inputs.items() if port.codec}
        self.slots = {name: make_slot(port) for name, port in self.inputs.items()}
        self.goals = {name: GoalSlot() for name in region.actions()}
        self.asked = {name: EverySlot() for name in region.asks()}
        self._inbox = Inbox({**self.slots, **self.goals, **self.asked})
        self._all = [*self.slots.values(), *self.goals.values(), *self.asked.values()]
        self._keyed = [self.slots[name] for name, port in self.inputs.items() if port.key]
        self._triggers = [*(self.slots[name] for name, port in self.inputs.items() if port.trigger),
                          *self.goals.values(), *self.asked.values()]
        self._period = None if region.rate is None else 1.0 / region.rate
        self._next_tick = -math.inf if self._period else math.inf
        self._history: deque[tuple[float, float, int, int]] = deque()

    # -- input -----------------------------------------------------------------------------------------------------

    def offer(self, port: str, message: Any, now: float) -> None:
        """Puts a message, received at ``now`` (s, host clock), into the inbox; the newest of its publisher stays.

        Raises:
            MessageError: the codec of the port cannot read it.
        """
        self.slots[port].offer(self.opened(port)(message), now)

    def hand_in(self, action: str, what: Goal | News, now: float) -> None:
        """Hands in a goal of an action that the region serves, or news of one that it asked for."""
        slot: Slot = self.asked[action] if action in self.asked else self.goals[action]
        slot.offer(what, now)

    def opened(self, port: str) -> Callable[[Any], Any]:
        """Returns the function that opens a message for the inbox: itself, or with the value that a codec reads of it.

        It raises MessageError where the codec cannot.
        """
        codec = self._codecs.get(port)
        return _itself if codec is None else lambda message: port_codecs.Carried(message, codec.read(message))

    def heed(self, wanted: frozenset[str]) -> None:
        """Takes over which outputs on demand are wanted; ports that are not needed for them are emptied."""
        self.region.wanted = wanted
        for name, port in self.inputs.items():
            if not port.needed(wanted):
                self.slots[name].clear()

    def input_ages(self, now: float) -> dict[str, float]:
        """Per topic, s since the newest message; NaN where there was none."""
        return {self.inputs[name].topic: now - slot.time if slot.time > -math.inf else math.nan
                for name, slot in self.slots.items()}

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def next_tick(self) -> float:
        """Host time of the next step by rate; ``-inf`` before the first, ``inf`` without a rate."""
        return self._next_tick

    @property
    def triggered(self) -> bool:
        """True if something has come that makes the region step."""
        return any(slot.new for slot in self._triggers)

    def due(self, now: float) -> bool:
        """Tells whether a step is to be made now."""
        for slot in self._triggers:
            if slot.new:
                return True
        return now >= self._next_tick

    # -- step ------------------------------------------------------------------------------------------------------

    def step(self, now: float, stamp: float, senders: Mapping[str, Callable[[Any], None]] | None = None
             ) -> list[tuple[Out | Act | Ask, Any]]:
        """One step.

        Args:
            now: host clock (s).
            stamp: time for the headers of what is published (s since the epoch, or simulated).
            senders: by topic, what is called with each message as soon as the region has made them all, before the
                books are kept.

        Returns:
            Ports and messages, with header stamps and origins filled in; actions and news of their goals.

        Raises:
            RegionError: from the region's own code or from sending, with the cause attached.
        """
        if self._period is not None and now >= self._next_tick:
            late = self._next_tick == -math.inf or now - self._next_tick > self._period
            self._next_tick = now + self._period if late else self._next_tick + self._period
        for slot in self._keyed:
            slot.forget(now)
        region, inbox = self.region, self._inbox
        inbox.now, inbox.stamp = now, stamp
        spikes, synops = region.spikes, region.synops
        begin = self.stepping_since = self._monotonic()
        try:
            outbox, state = region.step(inbox, self.state, 0.0 if self.last_step is None else now - self.last_step,
                                        self._rng)
            published = self._finish(outbox, stamp)
            if senders is not None:
                for port, message in published:
                    senders[port.topic](message)
        except Exception as error:
            raise RegionError(f"{region.name} failed in step {self.steps + 1}: "
                              f"{type(error).__name__}: {error}") from error
        finally:
            self.stepping_since = None
        self.state = state
        self.last_step = now
        self.steps += 1
        for slot in self._all:
            if slot.new:
                slot.seen()
        self.took = self._monotonic() - begin
        history = self._history
        history.append((now, self.took, spikes, synops))    # the counts as they were before the step
        while history[0][0] < now - STATISTICS_WINDOW:
            history.popleft()
        return published

    def come_to_rest(self, now: float, stamp: float, since: float) -> tuple[list[tuple[Out | Act | Ask, Any]], bool]:
        """Brings to rest what the region moves: returns what to publish for that, and whether it is at rest.

        Args:
            now, stamp: as for :meth:`step`.
            since: s since the first call.

        Raises:
            RegionError: from the region's own code, with the cause attached.
        """
        inbox = self._inbox
        inbox.now, inbox.stamp = now, stamp
        try:
            outbox, done = self.region.come_to_rest(inbox, self.state, since)
            return self._finish(outbox, stamp), done
        except Exception as error:
            raise RegionError(f"{self.region.name} failed to bring to rest what it moves: "
                              f"{type(error).__name__}: {error}") from error

    def _finish(self, outbox: Mapping[str, Any], stamp: float) -> list[tuple[Out | Act | Ask, Any]]:
        published: list[tuple[Out | Act | Ask, Any]] = []
        origins: list | None = None
        for name, content in outbox.items():
            sent = self._outputs.get(name)
            if sent is None and name in self.goals:
                published += self._news(name, content)
                continue
            if sent is None and name in self.asked:
                ask = self.region.asks()[name]
                published += [(ask, order) for order in (content if isinstance(content, list) else [content])
                              if order is not None]
                continue
            if sent is None:
                raise KeyError(f"step returned a message for {name!r}, but the region publishes "
                               + (", ".join([*self._outputs, *self.goals, *self.asked]) or "nothing"))
            port = sent.port
            if sent.plain and getattr(content, "__msgtype__", None) == port.type:
                published.append((port, content))   # as the loop does it, in fewer steps
                continue
            if port.on_demand and name not in self.region.wanted:
                continue
            for message in content if isinstance(content, list) else [content]:
                if message is None:
                    continue
                if sent.codec is not None and getattr(message, "__msgtype__", None) != port.type:
                    message = sent.codec.write(message)
                elif message.__msgtype__ != port.type:
                    raise TypeError(f"{name} carries {port.type}, but step returned a {message.__msgtype__}")
                if sent.header:
                    self._stamp(port, message, stamp)
                if sent.origins and not message.origins:
                    if origins is None:
                        origins = self._origins()
                    message.origins = origins
                published.append((port, message))
        return published

    def _news(self, name: str, content: Any) -> list[tuple[Act, News]]:
        act, slot = self.region.actions()[name], self.goals[name]
        found = [news for news in (content if isinstance(content, list) else [content]) if news is not None]
        for news in found:
            if news.goal not in slot.goals:
                raise KeyError(f"step returned news of a goal of {name} that it was not given, or that has ended")
            if news.status != Status.EXECUTING:
                slot.ended(news.goal)
        return [(act, news) for news in found]

    def _stamp(self, port: Out, message: Any, stamp: float) -> None:
        if port.stamp_from:
            source = self.slots[port.stamp_from].message
            if source is not None:
                message.header.stamp = source.header.stamp
                return
        if message.header.stamp.sec == 0 and message.header.stamp.nanosec == 0:
            message.header.stamp = messages.time_message(stamp)

    def _origins(self) -> list:
        newest: dict[str, Any] = {}

        def see(origin: Any) -> None:
            known = newest.get(origin.source)
            if known is None or (known.stamp.sec, known.stamp.nanosec) < (origin.stamp.sec, origin.stamp.nanosec):
                newest[origin.source] = origin

        for name, slot in self.slots.items():
            port = self.inputs[name]
            if not port.origin:
                continue
            if messages.has_field(port.type, "origins"):
                for received in slot.each(0.0, math.inf):
                    for origin in received.message.origins:
                        see(origin)
            elif port.device and not port.epoch and messages.has_field(port.type, "header"):    # heartbeats are none
                for received in slot.each(0.0, math.inf):
                    see(messages.make("brain_interfaces/msg/Origin", source=port.topic[-64:],
                                      stamp=received.message.header.stamp))
        ordered = sorted(newest.values(), key=lambda o: (-o.stamp.sec, -o.stamp.nanosec, o.source))
        return ordered[:MAX_ORIGINS]

    # -- what the heartbeat tells ----------------------------------------------------------------------------------

    def statistics(self, now: float) -> Statistics:
        """Rates and step times over the last seconds."""
        history = list(self._history)
        if history and history[0][0] < now - STATISTICS_WINDOW:     # it is cut at steps, and there may have been none
            history = [h for h in history if h[0] >= now - STATISTICS_WINDOW]
        if not history:
            return Statistics(0.0, math.nan, math.nan, 0.0, 0.0)
        span = max(now - history[0][0], 1e-3)
        durations = sorted([took for _, took, _, _ in history])
        pick = lambda q: durations[min(len(durations) - 1, int(q * len(durations)))]  # noqa: E731
        return Statistics((len(history) - 1) / span if len(history) > 1 else 0.0, pick(0.5), pick(0.99),
                          (self.region.spikes - history[0][2]) / span, (self.region.synops - history[0][3]) / span)


def _sent(port: Out) -> _Sent:
    header, origins = messages.has_field(port.type, "header"), messages.has_field(port.type, "origins")
    return _Sent(port, not (header or origins or port.on_demand), header, origins,
                 port_codecs.find(port.codec) if port.codec else None)


def _itself(message: Any) -> Any:
    return message

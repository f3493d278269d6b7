# SPDX-License-Identifier: Apache-2.0
"""LocalHost: all regions in one process, in lockstep on a simulated clock; the same to the bit from a seed."""
from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import Any, Callable, Mapping

from brain_runtime import energy
from brain_runtime import heartbeat as beat
from brain_runtime.energy import Gate
from brain_runtime.region import Region
from brain_runtime.stepper import RegionError, Stepper
from brain_wire import messages
from brain_wire.goals import Act, Goal, News, Status
from brain_wire.messages import make

TICK = 1e-6     # s; times are kept as whole ticks so that they do not drift
MAX_CASCADE = 1000  # steps at one instant; more means that regions trigger each other for ever


class Asked:
    """A goal that a region was given, as the one sees it who gave it.

    Attributes:
        status: how it stands.
        feedback: all that came.
        result: None until it ends.
        cancel: asks for it to be given up.
    """

    def __init__(self) -> None:
        self.status = Status.EXECUTING
        self.feedback: list = []
        self.result: Any | None = None
        self.cancel: Callable[[], None] = lambda: None

    def hear(self, news: News) -> None:
        """Takes in what is new."""
        self.status = news.status
        if news.status == Status.EXECUTING:
            self.feedback.append(news.message)
        else:
            self.result = news.message


class LocalHost:
    """Runs regions in lockstep.

    Args:
        regions: by name, in the order in which they step at the same instant.
        parameters: by region name; ``energy_budget`` among them: see :mod:`brain_runtime.energy`.
        seed: of all random streams.
        on_error: ``raise`` a region's error, or ``drop`` the region and go on without it.
        through_bytes: encode and decode every message, as a wire does (slower; for conformance).
    """

    def __init__(self, regions: Mapping[str, Region], *, parameters: Mapping[str, Mapping[str, Any]] | None = None,
                 seed: int = 0, on_error: str = "raise", through_bytes: bool = False,
                 critical: frozenset[str] | set[str] = frozenset()) -> None:
        if on_error not in ("raise", "drop"):
            raise ValueError(f"on_error is {on_error!r}; it must be 'raise' or 'drop'")
        self.seed = seed
        self.errors: dict[str, str] = {}
        self._parameters = parameters or {}
        self._on_error = on_error
        self._through_bytes = through_bytes
        self._critical = critical
        self._steppers: dict[str, Stepper] = {}
        self.gates: dict[str, Gate] = {}
        """By region with an energy budget: what it sent and saved. What is held is sent as time passes."""
        self._ticks = 0
        self._next_beat = 0
        self._readers: dict[str, list[tuple[str, str]]] = {}    # ports that hear a topic now
        self._types: dict[str, str] = {}
        self._latest: dict[str, Any] = {}
        self._latched: dict[str, Any] = {}
        self._listeners: dict[str, list[Callable[[Any], None]]] = {}
        self._pending: deque[str] = deque()
        self._asked: dict[bytes, Asked] = {}
        for name, region in regions.items():
            self.join(name, region)

    @property
    def now(self) -> float:
        """Simulated time since the start (s)."""
        return self._ticks * TICK

    @property
    def regions(self) -> dict[str, Region]:
        """The regions that are running, by name."""
        return {name: stepper.region for name, stepper in self._steppers.items()}

    # -- joining and leaving ---------------------------------------------------------------------------------------

    def join(self, name: str, region: Region, state: dict[str, Any] | None = None) -> None:
        """Configures and activates a region; it hears what is latched, and everything from now on.

        Raises:
            ValueError: the name is taken, or a topic is known with another type.
        """
        if name in self._steppers:
            raise ValueError(f"a region named {name} is running already; give the new one another name")
        region.name = name
        given = dict(self._parameters.get(name, {}))
        budget = energy.budget_of(name, given)
        given.pop(energy.PARAMETER, None)
        region.configure(given)
        for port in (*region.hears().values(), *region.publishes().values()):
            known = self._types.setdefault(port.topic, port.type)
            if known != port.type:
                raise ValueError(f"topic {port.topic} carries {known}, but {name} declares it as {port.type}")
        self._steppers[name] = Stepper(region, seed=self.seed, state=state)
        if budget:
            self.gates.setdefault(name, Gate()).budget = budget
        else:
            self.gates.pop(name, None)
        self._connect()
        region.activate()

    def leave(self, name: str) -> None:
        """Ends a region in good order. What it moves is told to rest once: in lockstep nobody waits for it."""
        self._rest(name)
        stepper = self._remove(name)
        stepper.region.deactivate()
        stepper.region.cleanup()

    def _rest(self, name: str) -> None:
        published, _ = self._steppers[name].come_to_rest(self.now, self.now, 0.0)
        for port, message in published:
            self._deliver(port.topic, message, latch=port.qos.latched)

    def kill(self, name: str) -> Stepper:
        """Takes a region out without a word, as a crash does. Returns what was left of it."""
        return self._remove(name)

    def _remove(self, name: str) -> Stepper:
        stepper = self._steppers.pop(name)
        if name in self.gates:
            self.gates[name].forget()
        self._connect()
        return stepper

    def _connect(self) -> None:
        """Finds out who hears what.

        Outputs on demand are wanted where somebody listens, and what feeds them is heard only then.
        """
        heard = {topic for topic, callbacks in self._listeners.items() if callbacks}
        wanted: dict[str, frozenset[str]] = {}
        before = -1
        while len(heard) > before:  # what is heard only to be shown is itself heard by somebody
            before = len(heard)
            for name, stepper in self._steppers.items():
                wanted[name] = frozenset(n for n, port in stepper.region.publishes().items()
                                         if port.on_demand and port.topic in heard)
                heard |= {port.topic for port in stepper.inputs.values() if port.needed(wanted[name])}
        known = {reader for readers in self._readers.values() for reader in readers}
        self._readers = {}
        for name, stepper in self._steppers.items():
            if wanted[name] != stepper.region.wanted:
                stepper.heed(wanted[name])
            for port_name, port in stepper.inputs.items():
                if not port.needed(wanted[name]):
                    continue
                self._readers.setdefault(port.topic, []).append((name, port_name))
                if port.qos.latched and port.topic in self._latched and (name, port_name) not in known:
                    stepper.offer(port_name, self._latched[port.topic], self.now)

    def stepper(self, name: str) -> Stepper:
        """The stepper of a region: its state, steps and statistics."""
        return self._steppers[name]

    # -- topics ----------------------------------------------------------------------------------------------------

    def publish(self, topic: str, message: Any) -> None:
        """Publishes from outside, as a person or a sensor does; latched topics keep the message."""
        self._deliver(topic, message, latch=True)
        self._settle()

    def latest(self, topic: str) -> Any | None:
        """Newest message of a topic, or None. That is no listening: for an output on demand, use :meth:`listen`."""
        return self._latest.get(topic)

    def listen(self, topic: str, callback: Callable[[Any], None]) -> Callable[[], None]:
        """Calls ``callback`` with each message of a topic as it is published, until what it returns is called."""
        self._listeners.setdefault(topic, []).append(callback)
        self._connect()

        def end() -> None:
            self._listeners[topic].remove(callback)
            self._connect()
        return end

    def ask(self, name: str, action: str, **fields: Any) -> Asked:
        """Gives the region ``name`` a goal of its action ``action``, with the fields of the goal's message."""
        region = self._steppers[name].region
        goal = Goal(len(self._asked).to_bytes(16), make(region.actions()[action].types.goal, **fields))
        self._asked[goal.id] = Asked()
        self._hand_in(name, action, goal)
        self._asked[goal.id].cancel = lambda: self._hand_in(name, action, replace(goal, canceling=True))
        return self._asked[goal.id]

    def _hand_in(self, name: str, action: str, goal: Goal) -> None:
        if self._asked[goal.id].status == Status.EXECUTING:
            self._steppers[name].goals[action].offer(goal, self.now)
            self._pending.append(name)
            self._settle()

    def _deliver(self, topic: str, message: Any, *, latch: bool) -> None:
        self._latest[topic] = message
        if latch:
            self._latched[topic] = message
        for callback in tuple(self._listeners.get(topic, ())):
            callback(message)
        readers = self._readers.get(topic)
        if not readers:
            return
        data = messages.encode(message) if self._through_bytes else None
        for name, port in readers:
            stepper = self._steppers[name]
            stepper.offer(port, message if data is None else messages.decode(data, message.__msgtype__), self.now)
            if stepper.inputs[port].trigger and name not in self._pending:
                self._pending.append(name)

    # -- time ------------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Lets simulated time pass.

        Raises:
            RegionError: a region's step raised (unless ``on_error='drop'``).
        """
        end = self._ticks + round(seconds / TICK)
        self._settle()
        while True:
            tick = min((self._tick_of(s) for s in self._steppers.values()), default=math.inf)
            instant = min(tick, self._next_beat)
            due = min((gate.due for gate in self.gates.values()), default=math.inf)
            if due < math.inf:
                instant = min(instant, math.ceil(due / TICK - 1e-3))
            if instant > end:
                break
            self._ticks = max(self._ticks, int(instant))
            if self._ticks >= self._next_beat:
                self._beat()
            for name in list(self._steppers):
                stepper = self._steppers.get(name)
                if stepper is not None and self._tick_of(stepper) <= self._ticks:
                    self._step(name)
            for gate in tuple(self.gates.values()):
                for port, message, _ in gate.release(self.now):
                    self._deliver(port.topic, message, latch=False)
            self._settle()
        self._ticks = end

    def _tick_of(self, stepper: Stepper) -> float:
        due = stepper.next_tick
        if due == -math.inf:
            return self._ticks
        return math.inf if due == math.inf else round(due / TICK)

    def _settle(self) -> None:
        for _ in range(MAX_CASCADE):
            if not self._pending:
                return
            name = self._pending.popleft()
            if name in self._steppers:
                self._step(name)
        raise RegionError(f"regions trigger each other without end at {self.now:.3f} s; the last were "
                          + ", ".join(self._pending))

    def _step(self, name: str) -> None:
        stepper = self._steppers[name]
        # a tick that rounding put a hair before its due time is still that tick
        now = max(self.now, stepper.next_tick) if abs(self.now - stepper.next_tick) < TICK else self.now
        try:
            published = stepper.step(now, self.now)
        except RegionError as error:
            if self._on_error == "raise":
                raise
            self.errors[name] = str(error)
            self._rest(name)
            self._remove(name)
            return
        gate = self.gates.get(name)
        for port, message in published:
            if isinstance(port, Act):
                self._asked[message.goal].hear(message)
                continue
            if gate is not None:
                passed = gate.offer(port, message, self.now)
                if passed is None:
                    continue
                message = passed.message
            self._deliver(port.topic, message, latch=port.qos.latched)

    def _beat(self) -> None:
        self._next_beat += round(beat.PERIOD / TICK)
        for name, stepper in list(self._steppers.items()):
            self._deliver(beat.PORT.topic, beat.heartbeat(
                f"/{name}", "local", beat.ACTIVE, stamp=self.now, now=self.now, stepper=stepper,
                critical=name in self._critical), latch=False)

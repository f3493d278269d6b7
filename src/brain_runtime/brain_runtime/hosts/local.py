# SPDX-License-Identifier: Apache-2.0
"""LocalHost: all regions in one process, in lockstep on a simulated clock; the same to the bit from a seed."""
from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Callable, Generic, Mapping, Protocol, Sequence, TypeVar

from brain_runtime.contract.copies import average
from brain_runtime.contract.energy import Gate
from brain_runtime.hosts.bus import Bus, BusPublication, BusSubscription
from brain_runtime.hosts.hosted_region import HostedRegion
from brain_runtime.hosts.input import Input
from brain_runtime.hosts.node_parameters import NodeParameters, sim_time, split
from brain_runtime.hosts.policy import Lockstep
from brain_runtime.hosts.schedule import LocalSchedule, Scheduled
from brain_runtime.contract.region import Region, State
from brain_runtime.contract.stepper import RegionError, Stepper
from brain_wire import lifecycle, parameter_services
from brain_wire.goals import Act, Goal, News, Status
from brain_wire.messages import make
from brain_wire.qos import QoS


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

    def tell(self, news: News) -> None:
        """Takes in what is new."""
        self.status = news.status
        if news.status == Status.EXECUTING:
            self.feedback.append(news.message)
        else:
            self.result = news.message


class InLockstep(Scheduled, Protocol):
    """A region in lockstep with others, as its host has it."""

    def heed(self) -> bool:
        """See :meth:`.hosted_region.HostedRegion.heed`."""

    def hand_in(self, action: str, goal: Goal) -> None:
        """See :meth:`.hosted_region.HostedRegion.hand_in`."""


Member = TypeVar("Member", bound=InLockstep)


class LockstepHost(ABC, Generic[Member]):
    """Host of regions in lockstep: :class:`LocalHost`, or a rank of :class:`.torch.TorchHost`.

    Args:
        seed: of all random streams.
        bus: makes what carries the messages, from the clock (s, simulated).

    Attributes:
        bus: carries the messages.
        schedule: starts the steps.
        namespace, run: of the regions' nodes and of their processes, as heartbeats tell them; see
            :func:`brain_runtime.contract.heartbeat.new_epoch`.
        epoch: time of stamps when the schedule began (s); 0 in lockstep, where time is simulated.
    """

    namespace, run, epoch = "/", 1, 0.0

    def __init__(self, seed: int, bus: Callable[[Callable[[], float]], Bus] = Bus) -> None:
        self.seed = seed
        self._regions: dict[str, Member] = {}
        self.schedule = LocalSchedule(self._regions)
        self.bus = bus(lambda: self.schedule.now)
        self._given = itertools.count()
        self._tell: dict[bytes, Callable[[News], None]] = {}    # by goal that has not ended

    # -- the regions ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def failed(self, hosted: LocalRegion, error: BaseException) -> None:
        """A step of a region raised."""

    @abstractmethod
    def part_with(self, hosted: LocalRegion) -> None:
        """Takes a region out, unless that is done."""

    @abstractmethod
    def _actions(self, name: str) -> Mapping[str, Act]:
        """Returns the actions of a region. Raises KeyError: there is none of that name."""

    def _heed(self) -> None:
        """Finds out which outputs on demand are wanted; what is heard only to be shown is itself heard by somebody."""
        changed = True
        while changed:
            changed = False
            for hosted in tuple(self._regions.values()):
                changed |= hosted.heed()

    # -- topics, services and actions, from outside --------------------------------------------------------------------

    def publish(self, topic: str, message: Any, *, latch: bool = True) -> None:
        """Publishes from outside, as a person or a sensor does; ``latch``: whoever joins later hears it too."""
        self._say(topic, message, latch)
        self.schedule.settle()

    def _say(self, topic: str, message: Any, latch: bool) -> None:
        self.bus.publish(topic, message, latch)

    def latest(self, topic: str) -> Any | None:
        """Newest message of a topic, or None. That is no listening: for an output on demand, use :meth:`listen`."""
        return self.bus.latest.get(topic)

    def listen(self, topic: str, callback: Callable[[Any], None], *, latched: bool = False) -> Callable[[], None]:
        """Calls ``callback`` with each message of a topic as it is published, until what it returns is called.

        Args:
            topic: as regions declare it.
            callback: called while the message is being published.
            latched: with the message that is latched too, at once.
        """
        if latched and topic in self.bus.latched:
            callback(self.bus.latched[topic])
        end = self.bus.listen(topic, callback)
        self._listened(topic, 1)

        def end_and_heed() -> None:
            end()
            self._listened(topic, -1)
        return end_and_heed

    def _listened(self, topic: str, more: int) -> None:
        """A topic has so many listeners ``more``."""
        self._heed()

    @abstractmethod
    def call(self, service: str, request: Any) -> Any:
        """The response of a service of a region's node, as ``vision/set_parameters``: those of parameters and life.

        Raises:
            KeyError: there is no such region or service.
        """

    def ask(self, name: str, action: str, **fields: Any) -> Asked:
        """Gives the region ``name`` a goal of its action ``action``, with the fields of the goal's message."""
        goal = Goal(next(self._given).to_bytes(16), make(self._actions(name)[action].types.goal, **fields))
        asked = Asked()

        def cancel() -> None:
            if asked.status == Status.EXECUTING:
                self.hand_in(name, action, replace(goal, canceling=True), asked.tell)
        asked.cancel = cancel
        self.hand_in(name, action, goal, asked.tell)
        return asked

    def hand_in(self, name: str, action: str, goal: Goal, tell: Callable[[News], None]) -> None:
        """Gives a region a goal of its own id, or one anew that has changed; ``tell`` is called with what is new."""
        self._tell[goal.id] = tell
        self._hand_in(name, action, goal)

    def _hand_in(self, name: str, action: str, goal: Goal) -> None:
        hosted = self._regions.get(name)
        if hosted is not None:      # else it has left, and the goal stays as it was
            hosted.hand_in(action, goal)
            self.schedule.settle()

    def tell(self, news: News) -> None:
        """Passes on what is new of a goal to whoever gave it."""
        over = news.status != Status.EXECUTING
        tell = self._tell.pop(news.goal, None) if over else self._tell.get(news.goal)
        if tell is not None:
            tell(news)

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Simulated time since the start (s)."""
        return self.schedule.now

    def advance(self, seconds: float) -> None:
        """Lets simulated time pass. Raises what a region's step raises."""
        self.schedule.advance(seconds)

    def meet(self, now: float, epoch: float, said: Sequence[tuple[str, Any, bool]] = ()) -> None:
        """Goes on to a moment of a clock that does not wait. What was due often meanwhile is done once.

        Args:
            now: s since the start.
            epoch: time of stamps when it was 0 (s).
            said: topics, messages that came since, and whether they are latched.

        Raises:
            RegionError: see :meth:`advance`.
        """
        self.epoch = epoch
        self.schedule.move_to(now)
        for topic, message, latch in said:
            self._say(topic, message, latch)
            self.schedule.settle()
        self.schedule.catch_up()


class LocalRegion(HostedRegion):
    """One of the regions in lockstep.

    Args:
        host: that has them all.
        region: not configured yet.
        name: of the node.
        order: among the regions.
        parameters: of the region, and ``energy_budget``.
        state: where it goes on; None: at its initial one.
        critical: the robot must not move without this region.

    Raises:
        ParameterError: the parameters do not fit.
    """

    kind = "local"
    policy: Lockstep

    def __init__(self, host: LockstepHost[Any], region: Region, *, name: str, order: int,
                 parameters: Mapping[str, Any], state: State | None, critical: bool) -> None:
        values, budget, self._sim_time = split(name, region.Parameters, parameters)
        self._host, self._order, self._kept = host, order, state
        super().__init__(region, name=name, namespace=host.namespace, seed=host.seed, state_dir=None,
                         critical=critical, restarts=0, epoch=host.run,
                         policy=lambda hosted: Lockstep(hosted, lambda: host.schedule.due(self)))
        self.gate.budget = budget
        own = sim_time(name, "as every node has it; in lockstep time is simulated, whatever this says",
                       lambda: self._sim_time, self._set_sim_time)
        self._values = NodeParameters(self, values, own)
        self.life = self.lifecycle()
        self.services = {**parameter_services.handlers(self._values.access()), **lifecycle.handlers(self.life)}
        """By name below the node's: type, and what answers a request."""

    # -- verbs -----------------------------------------------------------------------------------------------------

    @property
    def fqn(self) -> str:
        return f"{self._host.namespace.rstrip('/')}/{self.region.name}"

    def publish(self, topic: str, type_name: str, qos: QoS) -> BusPublication:
        return BusPublication(self._host.bus, self.named(topic), qos.latched)

    def subscribe(self, inbound: Input) -> BusSubscription:
        return self._host.bus.read(self._order, inbound, self.deliver, self.named(inbound.port.topic))

    def named(self, topic: str) -> str:
        """A topic as the graph has it, which may give it another name than the port does."""
        return self.region.remap.get(topic, topic).replace("~", self.region.name, 1)

    def serve(self, name: str, act: Act) -> LocalRegion:
        return self

    def clock(self) -> float:
        return self._host.now + self._host.epoch

    def now(self) -> float:
        return self._host.now

    def decoder(self, type_name: str) -> Callable[[Any], Any]:
        return _as_it_is    # the bus has decoded it

    # -- in the schedule -------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """See :class:`.schedule.Scheduled`."""
        return self.region.name

    @property
    def next_tick(self) -> float:
        """See :class:`.schedule.Scheduled`."""
        return math.inf if self.stepper is None else self.stepper.next_tick

    @property
    def budget(self) -> float:
        """See :class:`.schedule.Scheduled`."""
        return self.gate.budget

    @property
    def held_until(self) -> float:
        """See :class:`.schedule.Scheduled`."""
        return self.gate.due

    def step(self, now: float, stamp: float) -> None:
        """See :class:`.schedule.Scheduled`."""
        self.policy.step(now, stamp + self._host.epoch)

    def let_go(self) -> None:
        """See :class:`.schedule.Scheduled`."""
        self.connections.let_go(self.gate.release(self.now()))

    # -- an action that is served ------------------------------------------------------------------------------------

    def tell(self, news: News) -> None:
        """Takes what is new of a goal."""
        self._host.tell(news)

    def close(self) -> None:
        """Nothing."""

    # -- life ------------------------------------------------------------------------------------------------------

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """See :class:`HostedRegion`. Raises ValueError too, where a topic is known with another type."""
        super().configure(parameters)
        for port in (*self.region.hears().values(), *self.region.publishes().values()):
            self._host.bus.know(self.named(port.topic), port.type, self.region.name)

    def _remembered(self) -> State | None:
        state, self._kept = self._kept, None
        return state

    def parameters(self) -> dict[str, Any]:
        return self._values.region()

    def _set_sim_time(self, wanted: bool) -> None:
        self._sim_time = wanted

    def _bring_to_rest(self, stepper: Stepper) -> None:
        """Once: in lockstep nobody waits for it."""
        published, _ = stepper.come_to_rest(self.now(), self.clock(), 0.0)
        self.connections.send(published)

    def fail(self, error: BaseException) -> None:
        self._host.failed(self, error)

    def stop(self) -> None:
        self._host.part_with(self)


class LocalHost(LockstepHost[LocalRegion]):
    """Runs regions in lockstep.

    Args:
        regions: by name, in the order in which they step at the same instant.
        parameters: by region name; ``energy_budget`` among them: see :mod:`brain_runtime.contract.energy`.
        seed: of all random streams.
        on_error: ``raise`` a region's error, or ``drop`` the region and go on without it.
        critical: names of the regions without which the robot must not move.

    Attributes:
        errors: what regions were dropped for, by name.
    """

    def __init__(self, regions: Mapping[str, Region], *, parameters: Mapping[str, Mapping[str, Any]] | None = None,
                 seed: int = 0, on_error: str = "raise", critical: frozenset[str] | set[str] = frozenset()) -> None:
        if on_error not in ("raise", "drop"):
            raise ValueError(f"on_error is {on_error!r}; it must be 'raise' or 'drop'")
        super().__init__(seed)
        self.errors: dict[str, str] = {}
        self._parameters = parameters or {}
        self._on_error = on_error
        self._critical = critical
        self._gates: dict[str, Gate] = {}
        self._averaged = {""}   # names of copies
        self._joined = itertools.count()
        for name, region in regions.items():
            self.join(name, region)

    @property
    def regions(self) -> dict[str, Region]:
        """The regions that are running, by name."""
        return {name: hosted.region for name, hosted in self._regions.items()}

    @property
    def gates(self) -> dict[str, Gate]:
        """By region with an energy budget: what it sent and saved. What is held is sent as time passes."""
        return {name: gate for name, gate in self._gates.items() if gate.budget}

    # -- joining and leaving ---------------------------------------------------------------------------------------

    def join(self, name: str, region: Region, state: State | None = None, *,
             parameters: Mapping[str, Any] | None = None, autostart: bool = True) -> None:
        """Configures and activates a region; it hears what is latched, and everything from now on.

        Args:
            name: of its node.
            region: not configured yet.
            state: where it goes on; None: at its initial one.
            parameters: of this region; None: those that the host was made with.
            autostart: as on other hosts; False: it waits to be configured and activated by :meth:`call`.

        Raises:
            ParameterError: the parameters do not fit.
            ValueError: the name is taken, or a topic is known with another type.
        """
        if name in self._regions:
            raise ValueError(f"a region named {name} is running already; give the new one another name")
        hosted = LocalRegion(self, region, name=name, order=next(self._joined), state=state,
                             parameters=self._parameters.get(name, {}) if parameters is None else parameters,
                             critical=name in self._critical)
        kept = self._gates.setdefault(name, hosted.gate)    # which goes on counting where it was known before
        kept.budget = hosted.gate.budget
        hosted.gate = kept
        self._regions[name] = hosted
        if region.copies not in self._averaged:
            self._averaged.add(region.copies)
            self.schedule.meet_every(region.average_every, lambda: average(
                (one.mean, one.stepper) for one in self._regions.values() if one.region.copies == region.copies))
        if autostart and not (hosted.life.change("configure") and hosted.life.change("activate")):
            self.part_with(hosted)
            raise hosted.cause or RegionError(hosted.reason())
        self._heed()

    def leave(self, name: str) -> None:
        """Ends a region in good order. What it moves is told to rest once: in lockstep nobody waits for it."""
        hosted = self._regions[name]
        try:
            hosted.shut_down()
        finally:
            self.part_with(hosted)

    def kill(self, name: str) -> Stepper:
        """Takes a configured region out without a word, as a crash does. Returns what was left of it."""
        hosted = self._regions[name]
        self.part_with(hosted)
        return hosted.running

    def part_with(self, hosted: LocalRegion) -> None:
        """Takes a region out, unless that is done."""
        if self._regions.get(hosted.region.name) is hosted:
            del self._regions[hosted.region.name]
            hosted.idle = True
            hosted.connections.unplug()
            hosted.gate.forget()
            self._heed()

    def failed(self, hosted: LocalRegion, error: BaseException) -> None:
        """Raises what a region's step raised, or goes on without it."""
        if self._on_error == "raise":
            raise error
        self.errors[hosted.region.name] = str(error)
        hosted.rest()
        hosted.end_shards()
        self.part_with(hosted)

    def stepper(self, name: str) -> Stepper:
        """The stepper of a configured region: its state, steps and statistics."""
        return self._regions[name].running

    def call(self, service: str, request: Any) -> Any:
        region, _, name = service.rpartition("/")
        answer = self._regions[region].services[name][1](request)
        self._heed()
        self.schedule.settle()
        return answer

    def _actions(self, name: str) -> Mapping[str, Act]:
        return self._regions[name].region.actions()


def _as_it_is(message: Any) -> Any:
    return message

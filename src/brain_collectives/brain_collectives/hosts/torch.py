# SPDX-License-Identifier: Apache-2.0
"""TorchHost: regions in lockstep whose bus is a process group of ``torch.distributed``, one rank for each region.

This is the design that the brain began with, kept for research and for the measured comparison. Ranks and edges come
from the regions' ports; what goes along an edge is sent and received blocking, in an order that is fixed at each
instant. Rank 0 has no region: it is outside, gives the others the time and what people and sensors say, and hears what
it listens to. Rank n has the n-th region.

Every rank works through the same schedule (:mod:`brain_runtime.hosts.schedule`), its own region in it and a stand-in
for each other (:mod:`.remote_region`). So all of them know, without a word, whose step is next, and what comes out is
what LocalHost computes, to the bit. What rank 0 is asked for, all ranks do (:func:`everywhere`).

Nobody joins, nobody leaves, and no region is started again: the first rank that ends takes all others down.
"""
from __future__ import annotations

import contextlib
import functools
import json
import math
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence, TypeVar, cast

import numpy as np

from brain_runtime.contract import heartbeat, snapshot
from brain_runtime.contract.region import Region
from brain_runtime.contract.stepper import RegionError
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_runtime.hosts.bus import Bus
from brain_runtime.hosts.backends import GroupError
from brain_runtime.hosts.hosted_region import TRANSITION_EVENT
from brain_runtime.hosts.local import LocalRegion, LockstepHost
from brain_collectives.hosts.remote_region import RemoteRegion, agree, card
from brain_runtime.hosts.shards import code_hash
from brain_collectives.hosts.torch_copies import TorchCopies
from brain_collectives.hosts.torch_group import Group
from brain_collectives.hosts.torch_records import Records, Standing, Topics
from brain_collectives.hosts.torch_snapshot import restored
from brain_wire import messages, parameter_services
from brain_wire.goals import Act, Goal, News, Status
from brain_wire.services import service_type

Method = TypeVar("Method", bound=Callable[..., Any])
ORDERS: dict[str, Callable[..., Any]] = {}     # what rank 0 can have all ranks do, by name


def everywhere(method: Method) -> Method:
    """Has all ranks call a method at the same point: rank 0, where it is called, tells the others to and with what.

    In place of messages they are told None: these come as records, to those who hear their topics.
    """
    @functools.wraps(method)
    def called(host: TorchHost, *given: Any, **more: Any) -> Any:
        if host.group.rank == 0:
            host.group.tell({"do": method.__name__, "given": given, "more": more}, _untold)
        return method(host, *given, **more)
    ORDERS[method.__name__] = called
    return cast(Method, called)


def _untold(message: Any) -> None:
    messages.type_name(message)     # raises for all that is none


class TorchBus(Bus):
    """The topics of one rank. What its own region publishes is noted, to be told to the others."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self.noted: list[tuple[str, Any]] | None = None
        self.outside: dict[str, int] = {}   # how often the rank outside listens, by topic

    def publish(self, topic: str, message: Any, latch: bool) -> None:
        """See :class:`.bus.Bus`."""
        if self.noted is not None:
            self.noted.append((topic, message))
        super().publish(topic, message, latch)

    def hand_on(self, topic: str, message: Any, latch: bool) -> None:
        """A message of another rank, decoded; None: this rank does not hear it."""
        if message is not None:
            self._show(topic, message, latch)
        self._deliver(self._readers.get(topic, ()), message)

    def heard(self, topic: str) -> bool:
        """See :class:`.bus.Bus`."""
        return bool(self._readers.get(topic)) or self.outside.get(topic, 0) > 0

    def ranks(self, topic: str) -> frozenset[int]:
        """Returns the ranks that hear a topic."""
        return frozenset(reader.order[0] for reader in self._readers.get(topic, ()))


def _telling(method: Method) -> Method:
    """Has the other ranks told of what the own region does in a method."""
    @functools.wraps(method)
    def called(mine: TorchRegion, *given: Any) -> Any:
        with mine._host.told(mine):
            return method(mine, *given)
    return cast(Method, called)


class TorchRegion(LocalRegion):
    """The region of this rank. Whatever it does in the schedule the others are told."""

    kind = "torch"
    packed = b""            # snapshot from which it begins; empty: none
    busy = 0.0              # s that it has computed since the last tick
    _host: TorchHost

    def _remembered(self) -> Any | None:
        packed, self.packed = self.packed, b""
        return restored(packed, self.region) if packed else None

    beat = _telling(LocalRegion.beat)
    step = _telling(LocalRegion.step)
    let_go = _telling(LocalRegion.let_go)
    shut_down = _telling(LocalRegion.shut_down)

    @property
    def standing(self) -> Standing:
        """State of the region in the schedule."""
        return Standing(self.idle, self.next_tick, self.held_until)


class TorchHost(LockstepHost["TorchRegion | RemoteRegion"]):
    """One rank of a brain: rank 0 makes it and drives it; the others make theirs when they are told.

    Args:
        group: of all ranks; the others are in :func:`brain_collectives.torch_process.obey`. Its size is one more than
            there are regions.
        resolved: what runs.
        seed: of all random streams.
        manual: the regions wait to be configured and activated by their services.
        storage: folder in which regions keep what must outlive them (an emergency stop); None: they keep nothing.
        run: number of the processes, as heartbeats tell it; see :func:`brain_runtime.contract.heartbeat.new_epoch`.
        states: what :meth:`snapshot` gave, from which regions go on; a state that does not fit is left out, and told.

    Attributes:
        speaker: while a listener is called, the region that published the message; empty: it was published outside.

    Raises:
        GroupError: the ranks do not fit the regions or each other, or one is lost.
        RegionError: a region could not be configured or activated; says which and why, at every rank.
    """

    bus: TorchBus

    def __init__(self, group: Group, resolved: Resolved, seed: int = 0, manual: bool = False,
                 storage: Path | str | None = None, run: int = 1, states: Mapping[str, bytes] | None = None) -> None:
        names = [spec.name for spec in resolved.regions]
        if group.size != len(names) + 1:
            raise GroupError(f"the group has {group.size} ranks, but {len(names)} regions ({', '.join(names)}) and one "
                             f"rank outside need {len(names) + 1}; start torchrun with --nproc-per-node "
                             f"{len(names) + 1}")
        if group.rank == 0:
            group.tell({"do": "begin", "brain": resolved.to_json(), "given": {
                "seed": seed, "manual": manual, "run": run, "storage": None if storage is None else str(storage)}})
        group.names = ["the rank outside", *(f"{name} (rank {n})" for n, name in enumerate(names, 1))]
        super().__init__(seed, TorchBus)
        self.group, self.namespace, self.run = group, resolved.namespace, run
        self.speaker = ""
        self._resolved, self._manual = resolved, manual
        self._mine: TorchRegion | None = None
        self._news: list[dict[str, Any]] = []       # of goals that this rank's region has, not told yet
        self._cards: list[dict[str, Any]] = []      # of all ranks, once they are there
        self._topics = Topics()
        self._records = Records(group, self._topics, self._hears)
        packed = group.scatter([b"", *((states or {}).get(name, b"") for name in names)])
        self._copies = TorchCopies(group, names, resolved.copies)
        with group.patiently():   # others load weights
            told: dict[str, Any] = {"names": names, "seed": seed, "code": code_hash("brain_runtime")}
            if group.rank:
                told |= self._begun(resolved.regions[group.rank - 1], storage, packed)
            self._join(names, group.share(told))

    # -- the start -----------------------------------------------------------------------------------------------------

    def _begun(self, spec: ResolvedRegion, storage: Path | str | None, packed: bytes) -> dict[str, Any]:
        """Configures the own region while the others do theirs; returns its card, or why it could not begin."""
        region = spec.make()
        if storage is not None:
            region.storage = Path(storage)
        given = self._copies.given(region, spec.parameters)
        try:
            return self._configured(region, given, packed)
        except Exception as error:  # whatever it is, the others wait to be told
            return {"error": f"{type(error).__name__}: {error}"}

    def _configured(self, region: Region, parameters: Mapping[str, Any], packed: bytes) -> dict[str, Any]:
        self._mine = mine = TorchRegion(self, region, name=region.name, order=self.group.rank, parameters=parameters,
                                        state=None, critical=region.name in self._resolved.critical)
        mine.packed = packed
        if not self._manual and not (mine.life.change("configure") and mine.life.change("activate")):
            raise mine.cause or RegionError(mine.reason())
        return self._card(mine)

    def _card(self, mine: TorchRegion) -> dict[str, Any]:
        """Makes the card of the own region for the other ranks."""
        region, configured = mine.region, mine.stepper is not None
        publishes, hears = (region.publishes(), region.hears()) if configured else ({}, {})
        of_the_host = {mine.named(heartbeat.PORT.topic): heartbeat.TYPE,
                       mine.named(parameter_services.EVENTS): parameter_services.EVENT_TYPE,
                       f"{region.name}/transition_event": TRANSITION_EVENT}
        return {**card(region.name, publishes, hears, mine.named, idle=mine.idle, due=self.schedule.waits(mine),
                       next_tick=mine.next_tick, budget=mine.gate.budget),
                "of_the_host": of_the_host, "services": {name: kind for name, (kind, _) in mine.services.items()},
                "types": {port.type: messages.type_hash(port.type) for port in (*publishes.values(), *hears.values())}}

    def _join(self, names: Sequence[str], cards: list[dict[str, Any]]) -> None:
        """Learns of all regions."""
        for rank, told in enumerate(cards):
            if "error" in told:
                raise RegionError(f"{self.group.names[rank]} could not begin: {told['error']}")
        agree(cards, self.group.names)
        for rank, name in enumerate(names, 1):
            mine = self._mine if rank == self.group.rank else None
            self._regions[name] = mine or RemoteRegion(self, rank, cards[rank])
        self._cards = cards
        self._know_topics()
        self._copies.meet(self.schedule, self._mine)
        self._heed()

    def _know_topics(self) -> None:
        """Numbers all topics that there are now, in the same way at each rank."""
        types, latched = {}, set()
        for told in self._cards[1:]:
            for port in (*told["hears"].values(), *told["publishes"].values()):
                types[port["topic"]] = port["type"]
            types |= told["of_the_host"]
            latched |= {port["topic"] for port in told["publishes"].values() if port["qos"]["latched"]}
        self._topics.number(types, frozenset(latched))

    @property
    def cards(self) -> dict[str, Mapping[str, Any]]:
        """By region, its ports (``publishes``, ``hears``) and ``services``; topics ``of_the_host`` with their types."""
        return dict(zip(self._regions, self._cards[1:]))

    def _actions(self, name: str) -> Mapping[str, Act]:
        return self._resolved.region(name).load().actions()

    # -- what the schedule leads to --------------------------------------------------------------------------------

    def _hears(self, rank: int, topic: str) -> bool:
        return self.bus.outside.get(topic, 0) > 0 if rank == 0 else rank in self.bus.ranks(topic)

    @contextlib.contextmanager
    def told(self, mine: TorchRegion) -> Iterator[None]:
        """Notes what the own region publishes meanwhile, and tells it to the others; that it failed, too."""
        if not self._cards or self.bus.noted is not None:   # a heartbeat in error processing
            yield
            return
        noted: list[tuple[str, Any]] = []
        self.bus.noted = noted
        failure: RegionError | None = None
        begin = time.perf_counter()
        try:
            yield
        except RegionError as error:
            failure = error
            mine.rest()     # the others hear it once more, before all end
        finally:
            self.bus.noted = None
        mine.busy += time.perf_counter() - begin
        news, self._news = self._news, []
        known = [(topic, message) for topic, message in noted if topic in self._topics.numbers]
        if failure is not None:
            self._records.tell(known, mine.standing, str(failure), failed=True)
            raise failure
        self._records.tell(known, mine.standing, json.dumps(news) if news else "")

    def follow(self, region: RemoteRegion) -> None:
        """Waits for what a region's rank tells of what it has done now, and does the same here."""
        record = self._records.follow(region.rank)
        self.speaker = region.name
        for topic, message in record.said:
            self.bus.hand_on(topic, message, topic in self._topics.latched)
        self.speaker = ""
        region.idle, region.next_tick, region.held_until = record.standing
        if record.failed:
            raise RegionError(record.text)
        for one in json.loads(record.text) if record.text else ():
            super().tell(News(bytes.fromhex(one["goal"]), Status(one["status"]), _message(one["message"])))

    def tell(self, news: News) -> None:
        """Keeps what is new of a goal, for the rank outside, until the next record."""
        self._news.append({"goal": news.goal.hex(), "status": int(news.status), "message": _plain(news.message)})

    def failed(self, hosted: LocalRegion, error: BaseException) -> None:
        """A step of the own region raised: the others are told, and all end."""
        raise error

    def part_with(self, hosted: LocalRegion) -> None:
        """Makes no more steps of the own region; it stays in the schedule, since nobody leaves a static group."""
        hosted.idle = True

    # -- what rank 0 is asked for, and all ranks do --------------------------------------------------------------------

    publish = everywhere(LockstepHost.publish)
    advance = everywhere(LockstepHost.advance)
    meet = everywhere(LockstepHost.meet)

    def _say(self, topic: str, message: Any, latch: bool) -> None:
        """A message from the rank outside, which alone has it here; the others give None."""
        if topic not in self._topics.numbers:
            self.bus.publish(topic, message, latch)     # nobody but listeners outside
            return
        if latch:
            self._topics.latched |= {topic}
        if self.group.rank == 0:
            self._records.tell([(topic, message)], Standing(True, math.inf, math.inf))
        else:
            ((_, message),) = self._records.follow(0).said
        self.bus.hand_on(topic, message, latch)

    @everywhere
    def _listened(self, topic: str, more: int) -> None:
        self.bus.outside[topic] = self.bus.outside.get(topic, 0) + more
        super()._listened(topic, more)

    def _hand_in(self, name: str, action: str, goal: Goal) -> None:
        self._give(name, action, goal.id.hex(), goal.canceling, _plain(goal.request))

    @everywhere
    def _give(self, name: str, action: str, goal: str, canceling: bool, request: Any) -> None:
        super()._hand_in(name, action, Goal(bytes.fromhex(goal), _message(request), canceling=canceling))

    def call(self, service: str, request: Any) -> Any:
        """See :meth:`.local.LockstepHost.call`. Raises KeyError, RegionError, GroupError."""
        name, _, service = service.rpartition("/")
        if name not in self._regions:
            raise KeyError(name)
        told = self._serve(name, service, messages.encode(request).hex())
        if "error" in told:
            raise KeyError(told["error"])
        return _message(told["answer"])

    @everywhere
    def _serve(self, name: str, service: str, request: str) -> dict[str, Any]:
        """A service of a region's node, of its parameters or its life: its answer, or an error."""
        region = self._regions[name]
        rank = self.group.rank
        if isinstance(region, TorchRegion):
            with self.told(region):
                told = self._answer(region, service, request)
            self.group.tell(told)
        else:
            rank = region.rank
            with self.group.patiently():  # it may have to load its weights anew
                self.follow(region)
                told = self.group.hear(rank)
        if "card" in told:
            self._cards[rank] = told["card"]
            self._know_topics()
            if isinstance(region, RemoteRegion):
                region.take(told["card"])
        self._heed()
        self.schedule.settle()
        return told

    def _answer(self, region: TorchRegion, service: str, request: str) -> dict[str, Any]:
        if service not in region.services:
            return {"error": f"{region.name} has no service {service}; it has {', '.join(region.services)}"}
        type_name, answer = region.services[service]
        try:
            asked = messages.decode(bytes.fromhex(request), service_type(type_name).request)
            return {"answer": _plain(answer(asked)), "card": self._card(region)}
        except Exception as error:  # the others wait to be told
            return {"error": f"{type(error).__name__}: {error}", "card": self._card(region)}

    @everywhere
    def tick(self, number: int, wait: float = 0.0) -> dict[str, float]:
        """All ranks meet in ``wait`` s, by the clock of each: so one that stands still does not come, and is named.

        What was asked of them before is done everywhere then.

        Returns:
            At rank 0, by region, s that it has computed since the last tick; elsewhere nothing.

        Raises:
            GroupError: names the ranks that have not come.
        """
        time.sleep(wait)
        self.group.barrier(f"tick {number}")
        busy = 0.0
        if self._mine is not None:
            busy, self._mine.busy = self._mine.busy, 0.0
        found = np.frombuffer(b"".join(self.group.gather(np.float64(busy).tobytes())))
        return dict(zip(self._regions, found[1:].tolist()))

    @everywhere
    def leave(self) -> None:
        """Ends all regions in good order, one after the other; what they move is told to rest.

        Raises:
            RegionError, GroupError: see :meth:`advance`.
        """
        for region in self._regions.values():
            region.shut_down()

    @everywhere
    def snapshot(self) -> dict[str, bytes]:
        """The states of all regions at this instant, by name, at rank 0; see :mod:`.torch_snapshot`.

        Raises:
            GroupError: a rank is lost.
        """
        mine = self._mine
        running = mine is not None and mine.stepper is not None
        found = self.group.gather(snapshot.pack(mine.region, mine.running.state) if mine and running else b"")
        return dict(zip(self._regions, found[1:]))

    @everywhere
    def counts(self) -> dict[str, list[int]]:
        """Spikes and synaptic operations so far, by region. Raises GroupError."""
        mine = self._mine
        told = self.group.share(None if mine is None else [mine.region.spikes, mine.region.synops])
        return dict(zip(self._regions, told[1:]))


def _plain(message: Any | None) -> list[str] | None:
    """A message as JSON can hold it: its type and its CDR bytes."""
    return None if message is None else [messages.type_name(message), messages.encode(message).hex()]


def _message(told: Sequence[str] | None) -> Any | None:
    """A message that :func:`_plain` told of. Raises MessageError."""
    return None if told is None else messages.decode(bytes.fromhex(told[1]), told[0])

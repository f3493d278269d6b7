# SPDX-License-Identifier: Apache-2.0
"""TorchHost: the brain as a static process group of ``torch.distributed``, one rank for each region.

This is the design that the brain began with, kept for research and for the measured comparison. Ranks and edges come
from the regions' ports; what goes along an edge is sent and received blocking, in an order that is fixed at each
instant. Rank 0 has no region: it is outside, gives the others the time and what people and sensors say, and hears what
it listens to. Rank n has the n-th region.

Every rank works through the same schedule (:mod:`brain_runtime.hosts.schedule`), its own region in it and a stand-in
for each other (:mod:`brain_runtime.hosts.remote_region`). So all of them know, without a word, whose step is next, and
what comes out is what LocalHost computes, to the bit.

Nobody joins, nobody leaves, and no region is started again: the first rank that ends takes all others down.
"""
from __future__ import annotations

import contextlib
import json
import math
import time
from dataclasses import replace
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from brain_runtime.contract import heartbeat, snapshot
from brain_runtime.contract.copies import Copies
from brain_runtime.hosts.group_error import GroupError
from brain_runtime.hosts.local import LocalRegion
from brain_runtime.hosts.hosted_region import TRANSITION_EVENT
from brain_runtime.hosts.schedule import LocalSchedule, Scheduled
from brain_runtime.hosts.remote_region import RemoteRegion, card
from brain_runtime.hosts.torch_agreement import agree, code_hash
from brain_runtime.hosts.torch_bus import TorchBus
from brain_runtime.hosts.torch_copies import TorchCopies
from brain_runtime.hosts.torch_group import Group
from brain_runtime.hosts.torch_records import Records, Standing, Topics
from brain_runtime.hosts.torch_snapshot import gather, restored
from brain_runtime.contract.region import Region
from brain_runtime.contract.stepper import RegionError
from brain_wire import messages, parameter_services
from brain_wire.goals import Goal, News, Status
from brain_wire.services import service_type


class TorchRegion(LocalRegion):
    """The region of this rank. Whatever it does in the schedule the others are told."""

    kind = "torch"
    packed = b""            # snapshot from which it begins; empty: none
    busy = 0.0              # s that steps took since the last tick
    _host: TorchHost

    @property
    def fqn(self) -> str:
        return f"{self._host.namespace.rstrip('/')}/{self.region.name}"

    def clock(self) -> float:
        return self._host.now + self._host.epoch

    def _remembered(self) -> Any | None:
        packed, self.packed = self.packed, b""
        return restored(packed, self.region) if packed else None

    def belongs_to(self, run: int) -> None:
        """Takes the number of the processes over, by which a heartbeat of an older start is known."""
        self._epoch = run

    def beat(self) -> Any:
        with self._host.told(self):
            return super().beat()

    def step(self, now: float, stamp: float) -> None:
        with self._host.told(self):
            begin = time.perf_counter()
            super().step(now, stamp + self._host.epoch)
            self.busy += time.perf_counter() - begin

    def let_go(self) -> None:
        with self._host.told(self):
            super().let_go()

    def tell(self, news: News) -> None:
        self._host.news.append({"goal": news.goal.hex(), "status": int(news.status), "type": "" if news.message is None
                                else messages.type_name(news.message), "data": "" if news.message is None else
                                messages.encode(news.message).hex()})


class TorchHost:
    """One rank of a brain. All ranks make it at the same time, with the same arguments but the region.

    Args:
        group: of all ranks; its size is one more than there are regions.
        names: of the regions, in the order in which they step at the same instant.
        region: of this rank, not configured yet; None at rank 0.
        parameters: of this rank's region.
        seed: of all random streams.
        critical: names of the regions without which the robot must not move.
        manual: the regions wait to be configured and activated by their services.
        namespace, run: of the regions' nodes and of their processes, as heartbeats tell them; see
            :func:`brain_runtime.contract.heartbeat.new_epoch`.
        packed: snapshot of this rank's region from which it begins; empty: it begins anew.
        copies: which of the regions are copies of each other.

    Attributes:
        bus, schedule: as at LocalHost.
        speaker: region whose messages are being handed on; empty: the rank outside.
        epoch: time of stamps when the schedule began (s); 0 in lockstep, where time is simulated.
        news: of goals that this rank's region has, not told yet.
        told_of_goals: at the rank outside, is called with what is new of a goal.

    Raises:
        GroupError: the ranks do not fit the regions or each other, or one is lost.
        RegionError: a region could not be configured or activated; says which and why, at every rank.
    """

    def __init__(self, group: Group, names: Sequence[str], region: Region | None, *,
                 parameters: Mapping[str, Any] | None = None, seed: int = 0, critical: frozenset[str] = frozenset(),
                 manual: bool = False, namespace: str = "/", run: int = 1, packed: bytes = b"",
                 copies: Sequence[Copies] = ()) -> None:
        if group.size != len(names) + 1:
            raise GroupError(f"the group has {group.size} ranks, but {len(names)} regions ({', '.join(names)}) and one "
                             f"rank outside need {len(names) + 1}; start torchrun with --nproc-per-node "
                             f"{len(names) + 1}")
        group.names = ["the rank outside", *(f"{name} (rank {n})" for n, name in enumerate(names, 1))]
        self.group, self.seed, self.namespace, self.run, self.epoch = group, seed, namespace, run, 0.0
        self._packed = packed
        self.speaker = ""
        self.news: list[dict[str, Any]] = []
        self.told_of_goals: Callable[[News], None] = lambda news: None
        self._scheduled: dict[str, Scheduled] = {}
        self.schedule = LocalSchedule(self._scheduled)
        self.bus: TorchBus = TorchBus(lambda: self.schedule.now)
        self._mine: TorchRegion | None = None
        self._cards: list[dict[str, Any]] = []
        self._topics = Topics()
        self._records = Records(group, self._topics, self._hears)
        self._begun = False     # all ranks are there
        with group.patient():   # others load weights
            self._copies = TorchCopies(group, names, copies)
            given = dict(parameters or {}) if region is None else self._copies.given(region, parameters or {})
            self._join(names, region, given, critical, manual)

    # -- the start -----------------------------------------------------------------------------------------------------

    def _join(self, names: Sequence[str], region: Region | None, parameters: Mapping[str, Any],
              critical: frozenset[str], manual: bool) -> None:
        """Configures the own region while the others do theirs, and learns of theirs."""
        told: dict[str, Any] = {"names": list(names), "seed": self.seed, "code": code_hash()}
        if region is not None:
            try:
                told |= self._configured(region, parameters, critical, manual)
            except Exception as error:  # whatever it is, the others wait to be told
                told["error"] = f"{type(error).__name__}: {error}"
        cards = self.group.share(told)
        for rank, other in enumerate(cards):
            if "error" in other:
                raise RegionError(f"{self.group.names[rank]} could not begin: {other['error']}")
        agree(cards, self.group.names)
        for rank, name in enumerate(names, 1):
            mine = rank == self.group.rank and self._mine is not None
            self._scheduled[name] = self._mine if mine else RemoteRegion(self, rank, cards[rank])     # type: ignore
        self._cards = cards
        self._know_topics()
        self._begun = True
        self._copies.meet(self.schedule, self._mine)
        self._heed()

    def _know_topics(self) -> None:
        """Numbers all topics that there are now, in the same way at each rank."""
        types, latched = {}, set()
        for other in self._cards[1:]:
            for port in (*other["hears"].values(), *other["publishes"].values()):
                types[port["topic"]] = port["type"]
            types |= other["of_the_host"]
            latched |= {port["topic"] for port in other["publishes"].values() if port["qos"]["latched"]}
        self._topics.number(types, frozenset(latched))

    def _configured(self, region: Region, parameters: Mapping[str, Any], critical: frozenset[str], manual: bool
                    ) -> dict[str, Any]:
        rank = self.group.rank
        self._mine = mine = TorchRegion(self, region, name=region.name, order=rank, parameters=parameters, state=None,
                                        critical=region.name in critical)
        mine.belongs_to(self.run)
        mine.packed = self._packed
        if not manual and not (mine.life.change("configure") and mine.life.change("activate")):
            raise mine.cause or RegionError(mine.reason())
        return self._card()

    def _card(self) -> dict[str, Any]:
        """Makes the card of the own region for the other ranks."""
        mine = self._mine
        assert mine is not None, "the rank outside has no region"
        region = mine.region
        configured = mine.stepper is not None
        publishes, hears = (dict(region.publishes()), dict(region.hears())) if configured else ({}, {})
        publishes = {name: replace(port, topic=mine.named(port.topic)) for name, port in publishes.items()}
        hears = {name: replace(port, topic=mine.named(port.topic)) for name, port in hears.items()}
        ports = (*publishes.values(), *hears.values())
        of_the_host = {mine.named(heartbeat.PORT.topic): heartbeat.TYPE,
                       mine.named(parameter_services.EVENTS): parameter_services.EVENT_TYPE,
                       f"{region.name}/transition_event": TRANSITION_EVENT}
        return {**card(region.name, publishes, hears, idle=mine.idle, due=self.schedule.waits(mine),
                       next_tick=math.inf if mine.stepper is None else mine.stepper.next_tick,
                       budget=mine.gate.budget),
                "of_the_host": of_the_host, "services": {name: kind for name, (kind, _) in mine.services.items()},
                "types": {port.type: messages.type_hash(port.type) for port in ports}}

    # -- what the schedule leads to --------------------------------------------------------------------------------

    def _hears(self, rank: int, topic: str) -> bool:
        return self.bus.outside.get(topic, 0) > 0 if rank == 0 else rank in self.bus.ranks(topic)

    @contextlib.contextmanager
    def told(self, mine: TorchRegion) -> Iterator[None]:
        """Notes what the own region publishes meanwhile, and tells it to the others; that it failed, too."""
        if not self._begun or self.bus.noted is not None:   # a heartbeat in error processing
            yield
            return
        noted: list[tuple[str, Any]] = []
        self.bus.noted = noted
        failure: RegionError | None = None
        try:
            yield
        except RegionError as error:
            failure = error
            mine.rest()     # the others hear it once more, before all end
        finally:
            self.bus.noted = None
        news, self.news = self.news, []
        known = [(topic, message) for topic, message in noted if topic in self._topics.numbers]
        standing = Standing(mine.idle, math.inf if mine.stepper is None else mine.next_tick, mine.held_until)
        if failure is not None:
            self._records.tell(known, standing, str(failure), failed=True)
            raise failure
        self._records.tell(known, standing, json.dumps(news) if news else "")

    def follow(self, region: RemoteRegion) -> None:
        """See :class:`.remote_region.Follows`."""
        record = self._records.follow(region.rank)
        self.speaker = region.name
        for topic, message in record.said:
            self.bus.hand_on(topic, message, topic in self._topics.latched)
        self.speaker = ""
        region.idle, region.next_tick, region.held_until = record.standing
        if record.failed:
            raise RegionError(record.text)
        if record.text:
            self._take_news(json.loads(record.text))

    def _take_news(self, news: list[dict[str, Any]]) -> None:
        """Takes in the news of goals that were given at the rank outside."""
        for one in news:
            message = messages.decode(bytes.fromhex(one["data"]), one["type"]) if one["type"] else None
            self.told_of_goals(News(bytes.fromhex(one["goal"]), Status(one["status"]), message))

    def due(self, region: RemoteRegion) -> None:
        """See :class:`.remote_region.Follows`."""
        self.schedule.due(region)

    @property
    def now(self) -> float:
        """Simulated time since the start (s)."""
        return self.schedule.now

    def failed(self, hosted: LocalRegion, error: BaseException) -> None:
        """A step of the own region raised: the others are told, and all end."""
        raise error

    def part_with(self, hosted: LocalRegion) -> None:
        """Makes no more steps of the own region; it stays in the schedule, since nobody leaves a static group."""
        hosted.idle = True

    def _heed(self) -> None:
        """Finds out which outputs on demand are wanted, as LocalHost does."""
        changed = True
        while changed:
            changed = False
            for region in self._scheduled.values():
                changed |= region.heed()    # type: ignore[attr-defined]

    # -- what is done from outside, at all ranks at the same point: see brain_runtime.hosts.torch_orders -----------

    def hand_on(self, topic: str, message: Any, latch: bool) -> None:
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
        self.schedule.settle()

    def meet(self, now: float, epoch: float, said: Sequence[tuple[str, Any, bool]]) -> None:
        """Takes in what came from outside up to now, by a clock that does not wait, then does what was due meanwhile.

        Args:
            now: s since the start.
            epoch: time of stamps when it was 0 (s).
            said: topics, messages and whether they are latched; the messages are None but at rank 0.
        """
        self.epoch = epoch
        self.schedule.move_to(now)
        for topic, message, latch in said:
            self.hand_on(topic, message, latch)
        self.schedule.catch_up()

    def listen(self, topic: str, more: int) -> None:
        """The rank outside listens to a topic once more, or once less."""
        self.bus.outside[topic] = self.bus.outside.get(topic, 0) + more
        self._heed()

    def hand_in(self, name: str, action: str, goal: Goal) -> None:
        """A goal for a region, or one that is to be given up."""
        region = self._scheduled[name]
        if isinstance(region, TorchRegion):
            region.hand_in(action, goal)
        elif not region.idle:
            self.schedule.due(region)
        self.schedule.settle()

    def serve(self, name: str, service: str, request: bytes) -> Any:
        """A service of a region's node, of its parameters or its life: JSON with the answer, or with an error."""
        region, rank = self._scheduled[name], list(self._scheduled).index(name) + 1
        if isinstance(region, TorchRegion):
            with self.told(region):
                told = self._answer(region, service, request)
            self.group.tell(told)
        elif isinstance(region, RemoteRegion):
            with self.group.patient():  # it may have to load its weights anew
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

    def _answer(self, region: TorchRegion, service: str, request: bytes) -> dict[str, Any]:
        if service not in region.services:
            return {"error": f"{region.name} has no service {service}; it has {', '.join(region.services)}"}
        type_name, answer = region.services[service]
        try:
            response = answer(messages.decode(request, service_type(type_name).request))
        except Exception as error:  # the others wait to be told
            return {"error": f"{type(error).__name__}: {error}", "card": self._card()}
        return {"type": messages.type_name(response), "data": messages.encode(response).hex(), "card": self._card()}

    def tick(self, number: int, wait: float) -> dict[str, float]:
        """All ranks meet in ``wait`` s, by the clock of each: so one that stands still does not come, and is named.

        Returns:
            At rank 0, by region, s that its steps took since the last tick; elsewhere nothing.
        """
        time.sleep(wait)
        self.group.barrier(f"tick {number}")
        if self._mine is not None:
            self.group.send(np.array([self._mine.busy]), 0)
            self._mine.busy = 0.0
            return {}
        found = np.zeros(len(self._scheduled))
        for rank in range(1, self.group.size):
            self.group.receive(found[rank - 1:rank], rank)
        return dict(zip(self._scheduled, found.tolist()))

    def leave(self) -> None:
        """Ends all regions in good order, one after the other."""
        for region in self._scheduled.values():
            if isinstance(region, TorchRegion):
                with self.told(region):
                    region.shut_down()
            elif isinstance(region, RemoteRegion):
                self.follow(region)

    def snapshot(self) -> dict[str, bytes]:
        """The states of all regions at this instant, by name, at rank 0; elsewhere none. All ranks call it."""
        mine = self._mine
        running = mine is not None and mine.stepper is not None
        found = gather(self.group, snapshot.pack(mine.region, mine.running.state) if mine and running else b"")
        return dict(zip(self._scheduled, found[1:]))

    @property
    def cards(self) -> dict[str, Mapping[str, Any]]:
        """Cards of the regions, as each rank told its own last: ports and services."""
        return dict(zip(self._scheduled, self._cards[1:]))

    def counts(self) -> dict[str, list[int]]:
        """Spikes and synaptic operations so far, by region; all ranks call it."""
        mine = self._mine
        told = self.group.share(None if mine is None else [mine.region.spikes, mine.region.synops])
        return dict(zip(self._scheduled, told[1:]))

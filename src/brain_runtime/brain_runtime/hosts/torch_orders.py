# SPDX-License-Identifier: Apache-2.0
"""Orders of the rank outside to the others, and the loop in which they carry them out.

:class:`Outside` has what :class:`.local.LocalHost` has for who drives it: publish, listen, advance, call, ask.
"""
from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Mapping, Sequence

from brain_runtime.hosts.group_error import GroupError
from brain_runtime.hosts.local import Asked
from brain_runtime.hosts.torch import TorchHost
from brain_runtime.hosts.torch_group import Group
from brain_runtime.hosts.torch_snapshot import scatter
from brain_runtime.graph.resolved import Resolved
from brain_runtime.contract.stepper import RegionError
from brain_wire import messages
from brain_wire.goals import Goal, News, Status


class Outside:
    """Rank 0: drives a brain whose regions are the other ranks.

    Args:
        group: of all ranks; the others are in :func:`obey`.
        resolved: what runs.
        seed: of all random streams.
        manual: the regions wait to be configured and activated by their services.
        storage: folder in which regions keep what must outlive them (an emergency stop); None: they keep nothing.
        run: number of the processes, as heartbeats tell it; see :func:`brain_runtime.contract.heartbeat.new_epoch`.
        states: what :meth:`snapshot` gave, from which regions go on; a state that does not fit is left out, and told.

    Raises:
        GroupError, RegionError: see :class:`.torch.TorchHost`.
    """

    def __init__(self, group: Group, resolved: Resolved, seed: int = 0, manual: bool = False,
                 storage: Path | None = None, run: int = 1, states: Mapping[str, bytes] | None = None) -> None:
        self._group = group
        self._resolved = resolved
        self._given = itertools.count()
        self._asked: dict[bytes, Asked] = {}
        self._told: dict[bytes, Callable[[News], None]] = {}    # by goal that has not ended
        begin = {"resolved": resolved.to_json(), "seed": seed, "manual": manual, "run": run,
                 "storage": None if storage is None else str(storage)}
        group.tell({"do": "begin", **begin})
        self._host = _joined(group, begin, states or {})
        self._host.told_of_goals = self._hear_news

    @property
    def now(self) -> float:
        """Simulated time since the start (s)."""
        return self._host.now

    def publish(self, topic: str, message: Any, *, latch: bool = True) -> None:
        """See :meth:`.local.LocalHost.publish`. Raises RegionError, GroupError."""
        self._group.tell({"do": "publish", "topic": topic, "latch": latch})
        self._host.hand_on(topic, message, latch)

    def listen(self, topic: str, callback: Callable[[Any], None], *, latched: bool = False) -> Callable[[], None]:
        """See :meth:`.local.LocalHost.listen`."""
        bus = self._host.bus
        if latched and bus.latched.get(topic) is not None:
            callback(bus.latched[topic])
        end = bus.listen(topic, callback)
        self._listen(topic, 1)

        def end_all() -> None:
            end()
            self._listen(topic, -1)
        return end_all

    def _listen(self, topic: str, more: int) -> None:
        self._group.tell({"do": "listen", "topic": topic, "more": more})
        self._host.listen(topic, more)

    def latest(self, topic: str) -> Any | None:
        """Newest message of a topic that is listened to here, or is latched; else None."""
        return self._host.bus.latest.get(topic)

    @property
    def next_due(self) -> float:
        """Time at which something is due that no message triggers (s since the start)."""
        return self._host.schedule.next_due

    @property
    def speaker(self) -> str:
        """While a listener is called: the region that published the message; empty: it was published here."""
        return self._host.speaker

    @property
    def cards(self) -> dict[str, Mapping[str, Any]]:
        """By region, its ports (``publishes``, ``hears``) and ``services``; topics ``of_the_host`` with their types."""
        return self._host.cards

    def meet(self, now: float, epoch: float, said: Sequence[tuple[str, Any, bool]] = ()) -> None:
        """Goes on to a moment of a clock that does not wait. What was due often meanwhile is done once.

        Args:
            now: s since the start.
            epoch: time of stamps when it was 0 (s).
            said: topics, messages that came since, and whether they are latched.

        Raises:
            RegionError, GroupError: see :meth:`advance`.
        """
        self._group.tell({"do": "meet", "now": now, "epoch": epoch, "said": [[topic, latch] for topic, _, latch in said]
                          })
        self._host.meet(now, epoch, said)

    def tick(self, number: int, wait: float = 0.0) -> dict[str, float]:
        """All ranks meet: what was asked of them before is done everywhere.

        Args:
            number: of the tick.
            wait: s until then.

        Returns:
            By region, s that its steps took since the last tick.

        Raises:
            GroupError: names the ranks that have not come.
        """
        self._group.tell({"do": "tick", "number": number, "wait": wait})
        return self._host.tick(number, wait)

    def advance(self, seconds: float) -> None:
        """Lets simulated time pass. Raises RegionError, GroupError."""
        self._group.tell({"do": "advance", "seconds": seconds})
        self._host.schedule.advance(seconds)

    def call(self, service: str, request: Any) -> Any:
        """See :meth:`.local.LocalHost.call`. Raises KeyError, RegionError, GroupError."""
        region, _, name = service.rpartition("/")
        if region not in (spec.name for spec in self._resolved.regions):
            raise KeyError(region)
        data = messages.encode(request)
        self._group.tell({"do": "call", "region": region, "service": name, "request": data.hex()})
        told = self._host.serve(region, name, data)
        if "error" in told:
            raise KeyError(told["error"])
        return messages.decode(bytes.fromhex(told["data"]), told["type"])

    def ask(self, name: str, action: str, **fields: Any) -> Asked:
        """See :meth:`.local.LocalHost.ask`."""
        goal_type = self._resolved.region(name).load().actions()[action].types.goal
        goal = Goal(next(self._given).to_bytes(16, "big"), messages.make(goal_type, **fields))
        asked = self._asked[goal.id] = Asked()
        asked.cancel = lambda: self.hand_in(name, action, replace(goal, canceling=True), self._tell)
        self.hand_in(name, action, goal, self._tell)
        return asked

    def hand_in(self, name: str, action: str, goal: Goal, tell: Callable[[News], None]) -> None:
        """Gives a region a goal of its own id, or one anew that has changed; ``tell`` is called with what is new."""
        self._told[goal.id] = tell
        self._group.tell({"do": "ask", "name": name, "action": action, "goal": goal.id.hex(), "canceling":
                          goal.canceling, "type": messages.type_name(goal.request),
                          "data": messages.encode(goal.request).hex()})
        self._host.hand_in(name, action, goal)

    def _tell(self, news: News) -> None:
        self._asked[news.goal].tell(news)

    def _hear_news(self, news: News) -> None:
        tell = self._told.get(news.goal) if news.status == Status.EXECUTING else self._told.pop(news.goal, None)
        if tell is not None:
            tell(news)

    def leave(self) -> None:
        """Ends all regions in good order; what they move is told to rest. Raises RegionError, GroupError."""
        self._group.tell({"do": "leave"})
        self._host.leave()

    def snapshot(self) -> dict[str, bytes]:
        """The states of all regions at this instant, by name; see :mod:`.torch_snapshot`. Raises GroupError."""
        self._group.tell({"do": "snapshot"})
        return self._host.snapshot()

    def counts(self) -> dict[str, list[int]]:
        """Spikes and synaptic operations so far, by region. Raises GroupError."""
        self._group.tell({"do": "counts"})
        return self._host.counts()


def end(group: Group) -> None:
    """Tells the other ranks to leave :func:`obey`. Raises GroupError."""
    group.tell({"do": "end"})


def obey(group: Group) -> None:
    """Carries out the orders of rank 0, at a rank with a region, until told to end: one brain after the other.

    Raises:
        GroupError: a rank is lost, or says what cannot be.
    """
    host: TorchHost | None = None
    while True:
        order = group.hear(0)
        if order["do"] == "end":
            return
        try:
            if order["do"] == "begin":
                host = None
                host = _joined(group, order)
            elif host is None:
                raise GroupError(f"rank 0 asks for {order['do']!r} before there is a brain; it runs other code")
            else:
                _do(host, order)
        except RegionError:     # all ranks know, and rank 0 decides what comes next
            host = None


def _do(host: TorchHost, order: dict[str, Any]) -> None:
    match order["do"]:
        case "advance":
            host.schedule.advance(order["seconds"])
        case "meet":
            host.meet(order["now"], order["epoch"], [(topic, None, latch) for topic, latch in order["said"]])
        case "publish":
            host.hand_on(order["topic"], None, order["latch"])
        case "listen":
            host.listen(order["topic"], order["more"])
        case "call":
            host.serve(order["region"], order["service"], bytes.fromhex(order["request"]))
        case "ask":
            host.hand_in(order["name"], order["action"], Goal(
                bytes.fromhex(order["goal"]), messages.decode(bytes.fromhex(order["data"]), order["type"]),
                canceling=order["canceling"]))
        case "leave":
            host.leave()
        case "snapshot":
            host.snapshot()
        case "tick":
            host.tick(order["number"], order["wait"])
        case "counts":
            host.counts()
        case other:
            raise GroupError(f"rank 0 asks for {other!r}, which nobody here knows; it runs other code")


def _joined(group: Group, order: Mapping[str, Any], states: Mapping[str, bytes] = MappingProxyType({})) -> TorchHost:
    resolved = Resolved.from_json(order["resolved"])
    names = [spec.name for spec in resolved.regions]
    by_rank = [b"", *(states.get(name, b"") for name in names), *(b"" for _ in range(len(names) + 1, group.size))]
    packed = scatter(group, by_rank[:group.size])
    same = {"seed": order["seed"], "manual": order["manual"], "namespace": resolved.namespace, "run": order["run"],
            "copies": resolved.copies}
    if group.rank == 0 or group.size != len(names) + 1:
        return TorchHost(group, names, None, **same)
    mine = resolved.regions[group.rank - 1]
    region = mine.make()
    if order["storage"] is not None:
        region.storage = Path(order["storage"])
    return TorchHost(group, names, region, parameters=dict(mine.parameters), critical=resolved.critical, packed=packed,
                     **same)

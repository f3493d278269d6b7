# SPDX-License-Identifier: Apache-2.0
"""What the rank outside asks of the others, and the loop in which they do it.

:class:`Outside` has what :class:`.local.LocalHost` has for who drives it: publish, listen, advance, call, ask.
"""
from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Callable

from brain_runtime.group_error import GroupError
from brain_runtime.hosts.local import Asked
from brain_runtime.hosts.torch import TorchHost
from brain_runtime.hosts.torch_group import Group
from brain_runtime.resolved import Resolved
from brain_runtime.stepper import RegionError
from brain_wire import messages
from brain_wire.goals import Goal, News


class Outside:
    """Rank 0: drives a brain whose regions are the other ranks.

    Args:
        group: of all ranks; the others are in :func:`obey`.
        resolved: what runs.
        seed: of all random streams.
        manual: the regions wait to be configured and activated by their services.

    Raises:
        GroupError, RegionError: see :class:`.torch.TorchHost`.
    """

    def __init__(self, group: Group, resolved: Resolved, seed: int = 0, manual: bool = False) -> None:
        self._group = group
        self._resolved = resolved
        self._given = itertools.count()
        self._asked: dict[bytes, Asked] = {}
        group.tell({"do": "begin", "resolved": resolved.to_json(), "seed": seed, "manual": manual})
        self._host = _joined(group, resolved, seed, manual)
        self._host.told_of_goals = self._tell

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
        asked.cancel = lambda: self._hand_in(name, action, replace(goal, canceling=True))
        self._hand_in(name, action, goal)
        return asked

    def _hand_in(self, name: str, action: str, goal: Goal) -> None:
        self._group.tell({"do": "ask", "name": name, "action": action, "goal": goal.id.hex(), "canceling":
                          goal.canceling, "type": messages.type_name(goal.request),
                          "data": messages.encode(goal.request).hex()})
        self._host.hand_in(name, action, goal)

    def _tell(self, news: News) -> None:
        self._asked[news.goal].tell(news)

    def leave(self) -> None:
        """Ends all regions in good order; what they move is told to rest. Raises RegionError, GroupError."""
        self._group.tell({"do": "leave"})
        self._host.leave()

    def counts(self) -> dict[str, list[int]]:
        """Spikes and synaptic operations so far, by region. Raises GroupError."""
        self._group.tell({"do": "counts"})
        return self._host.counts()


def end(group: Group) -> None:
    """Tells the other ranks to leave :func:`obey`. Raises GroupError."""
    group.tell({"do": "end"})


def obey(group: Group) -> None:
    """What ranks with a region do until they are told to end: one brain after the other.

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
                host = _joined(group, Resolved.from_json(order["resolved"]), order["seed"], order["manual"])
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
        case "counts":
            host.counts()
        case other:
            raise GroupError(f"rank 0 asks for {other!r}, which nobody here knows; it runs other code")


def _joined(group: Group, resolved: Resolved, seed: int, manual: bool) -> TorchHost:
    names = [spec.name for spec in resolved.regions]
    if group.rank == 0 or group.size != len(names) + 1:
        return TorchHost(group, names, None, seed=seed, manual=manual)
    mine = resolved.regions[group.rank - 1]
    return TorchHost(group, names, mine.make(), parameters=dict(mine.parameters), seed=seed,
                     critical=resolved.critical, manual=manual)

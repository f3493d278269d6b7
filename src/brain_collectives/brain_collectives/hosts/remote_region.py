# SPDX-License-Identifier: Apache-2.0
"""RemoteRegion: in the schedule of one rank, a region that another rank runs.

The schedule of all regions depends on nothing but what they do (see :mod:`brain_runtime.hosts.schedule`), so every
rank works through the same one, with itself for its own region and a stand-in for each other. Where the schedule starts
a step of a stand-in, the rank waits for what that region's rank tells of it.
"""
from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from brain_runtime.hosts.bus import BusSubscription
from brain_runtime.hosts.backends import GroupError
from brain_runtime.hosts.host import Arrived
from brain_runtime.contract.ports import In, Out
from brain_wire.goals import Goal
from brain_wire.qos import QoS

if TYPE_CHECKING:
    from brain_collectives.hosts.torch import TorchHost


@dataclass
class Heard:
    """An input of a region that is elsewhere; what :class:`.input.Input` is at its own."""

    port: In
    triggers: bool


class RemoteRegion:
    """A region that another rank runs, as far as the schedule and the topics need it.

    Args:
        host: of this rank.
        rank: that runs it.
        card: what that rank tells of it; see :func:`card`.

    Attributes:
        rank, name: of the region.
        idle: it makes no steps.
        next_tick: host time of its next step by rate (s).
        budget, held_until: of its energy budget (B/s, host time).
    """

    def __init__(self, host: TorchHost, rank: int, card: Mapping[str, Any]) -> None:
        self._host, self.rank, self.name = host, rank, str(card["name"])
        self._heard: dict[str, BusSubscription] = {}
        self._wanted: frozenset[str] = frozenset()
        self.publishes: dict[str, Out] = {}
        self.hears: dict[str, In] = {}
        self.idle = True
        self.next_tick = self.held_until = math.inf
        self.budget = 0.0
        self.take(card)

    def take(self, card: Mapping[str, Any]) -> None:
        """Takes over what the region is now: its ports, and whether it makes steps."""
        for name in tuple(self._heard):
            self._unhear(name)
        self._wanted = frozenset()
        self.publishes = {name: port_of(Out, port) for name, port in card["publishes"].items()}
        self.hears = {name: port_of(In, port) for name, port in card["hears"].items()}
        self.idle, self.budget = True, card["budget"]   # what it hears anew its own rank has taken in
        self.next_tick = float(card["next_tick"])
        for port in (*self.hears.values(), *self.publishes.values()):
            self._host.bus.know(port.topic, port.type, self.name)
        for name, port in self.hears.items():
            if not port.feeds:
                self._hear(name)
        self.idle = card["idle"]
        if card["due"]:
            self._host.schedule.due(self)

    def _hear(self, name: str) -> None:
        if name not in self._heard:
            heard = Heard(self.hears[name], self.hears[name].trigger)
            self._heard[name] = self._host.bus.read(self.rank, heard, self._deliver)

    def _unhear(self, name: str) -> None:
        heard = self._heard.pop(name, None)
        if heard is not None:
            heard.close()

    def _deliver(self, heard: Heard, arrival: Arrived) -> bool:
        if heard.triggers and not self.idle:
            self._host.schedule.due(self)
        return True

    # -- what the schedule asks of a region ----------------------------------------------------------------------------

    def beat(self) -> None:
        """It tells its heartbeat."""
        self._host.follow(self)

    def step(self, now: float, stamp: float) -> None:
        """It makes a step."""
        self._host.follow(self)

    def let_go(self) -> None:
        """It sends what its energy budget held."""
        self._host.follow(self)

    def shut_down(self) -> None:
        """It ends."""
        self._host.follow(self)

    def hand_in(self, action: str, goal: Goal) -> None:
        """It is given a goal, or one that has changed."""
        if not self.idle:
            self._host.schedule.due(self)

    def heed(self) -> bool:
        """As :meth:`.connections.Connections.heed`, which its own rank does."""
        wanted = frozenset(name for name, port in self.publishes.items()
                           if not self.idle and port.on_demand and self._host.bus.heard(port.topic))
        if wanted == self._wanted:
            return False
        self._wanted = wanted
        for name, port in self.hears.items():
            if port.feeds:
                (self._hear if port.needed(wanted) else self._unhear)(name)
        return True


def card(name: str, publishes: Mapping[str, Out], hears: Mapping[str, In], named: Callable[[str], str], *, idle: bool,
         due: bool, next_tick: float, budget: float) -> dict[str, Any]:
    """Makes a region's card, which its rank tells the others (JSON).

    Args:
        name, publishes, hears: of the region, and its ports.
        named: from a port's topic to the one that the graph gives it.
        idle, next_tick, budget: see :class:`RemoteRegion`.
        due: it waits for its turn at this instant.
    """
    def plain(port: Any) -> dict[str, Any]:
        return {**{key: value for key, value in asdict(port).items() if key != "gated"}, "topic": named(port.topic)}
    return {"name": name, "publishes": {key: plain(port) for key, port in publishes.items()},
            "hears": {key: plain(port) for key, port in hears.items()}, "idle": idle, "due": due,
            "next_tick": str(next_tick), "budget": budget}


def port_of(kind: type[Any], content: Mapping[str, Any]) -> Any:
    """A port, as :func:`card` tells it: an In or an Out."""
    lists = {key: tuple(value) for key, value in content.items() if isinstance(value, list)}
    return kind(**{**content, **lists, "qos": QoS(**content["qos"])})


def agree(cards: Sequence[Mapping[str, Any]], who: Sequence[str]) -> None:
    """Raises GroupError where ranks were given other things, or have other code; ``who`` they are, by rank."""
    first = cards[0]
    for rank, other in enumerate(cards[1:], 1):
        for what in ("names", "seed", "code"):
            if other[what] != first[what]:
                raise GroupError(f"{who[rank]} has other {what} than {who[0]}: {other[what]}, not {first[what]}; start "
                                 f"all ranks from the same installation with the same arguments")
        if other["name"] != first["names"][rank - 1]:
            raise GroupError(f"{who[rank]} runs {other['name']}")
    known: dict[str, tuple[str, int]] = {}
    for rank, other in enumerate(cards[1:], 1):
        for type_name, type_hash in other["types"].items():
            found, before = known.setdefault(type_name, (type_hash, rank))
            if found != type_hash:
                raise GroupError(f"{who[rank]} and {who[before]} have other definitions of {type_name}; install the "
                                 f"same version of its package for both")

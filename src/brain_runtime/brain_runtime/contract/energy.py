# SPDX-License-Identifier: Apache-2.0
"""The energy budget of what a region publishes: what may wait waits while the account is low, what must not never does.

A region has an account of bytes. It fills at ``energy_budget`` bytes a second, up to what :data:`BURST` brings, and all
that the region publishes is taken from it. What a port does not declare as gated
(:class:`brain_runtime.contract.ports.Gated`) always passes, and so do urgent messages. Of the others

* news passes while there is anything on the account;
* what repeats the message that was sent last passes while there is more than the reserve, the share :data:`RESERVE` of
  a full account, and what can be cut while it leaves that reserve whole;
* what does not pass is held, the newest of its stream only, and passes :data:`LONGEST_WAIT` after the last that did;
  what can be cut is then cut to what there is above the reserve.

So no stream waits longer than that for something newer than what it has. What cannot wait overdraws the account, down
to one full account below nothing, and what can wait pays for it.

The gate is pure: it does nothing by itself, draws no random numbers, and knows no time but what its host tells it.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Mapping, NamedTuple

from brain_runtime.contract.ports import Gated, Out
from brain_wire import messages
from brain_wire.parameters import check_parameters, parameter

PARAMETER = "energy_budget"
LONGEST_WAIT = 0.05     # s that a stream is silent at most while its region has something newer to say
BURST = 1.0         # s of the budget that the account holds
RESERVE = 0.5       # share of a full account that is left to news
HAIR = 1e-6         # s by which a clock may be off


@dataclass(frozen=True)
class HostParameters:
    """Parameters that each node takes from its host, beside those of its region."""

    energy_budget: float = parameter(
        0.0, "what the region's messages may take; where they would take more, gated outputs wait, for at most 50 ms, "
             "or are cut; 0: no budget", unit="B/s", low=0.0, high=1e12)


def budget_of(name: str, parameters: Mapping[str, Any]) -> float:
    """The energy budget (B/s) among the parameters of the node ``name``; 0 where there is none.

    Raises:
        ParameterError: it is no number, or out of range.
    """
    given = {PARAMETER: parameters[PARAMETER]} if PARAMETER in parameters else {}
    return check_parameters(name, HostParameters, given).energy_budget


class Passed(NamedTuple):
    """A message that may go out now: as it is, or cut; and its CDR bytes."""

    port: Out
    message: Any
    data: bytes


@dataclass
class Traffic:
    """Traffic of a topic: messages and bytes that were sent, and that were not."""

    messages: int = 0       # sent
    bytes: int = 0          # sent
    gated: int = 0          # messages that were not sent, since a newer one of their stream was
    cut: int = 0            # messages that were sent with a part of their content
    saved: int = 0          # bytes that were not sent of both

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages + other.messages, self.bytes + other.bytes, self.gated + other.gated,
                       self.cut + other.cut, self.saved + other.saved)


class _Stream:
    """Messages on a topic that belong together.

    ``sent``: when the last one went (s); ``gist``: what that said; ``held``: what waits, and its bytes.
    """

    __slots__ = ("gist", "held", "sent")

    def __init__(self) -> None:
        self.sent = -math.inf
        self.gist: Any = None
        self.held: tuple[Out, Any, bytes] | None = None


class Gate:
    """One region's account. Its host uses it in a step or between two, one thread at a time; any may read what it says.

    Args:
        budget: B/s; 0: none. Then nothing is to be offered.

    Attributes:
        limited: whether there is a budget.
        traffic: by topic, since the first message that was offered.
    """

    def __init__(self, budget: float = 0.0) -> None:
        self.traffic: dict[str, Traffic] = {}
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._time: float | None = None
        self.budget = budget

    @property
    def budget(self) -> float:
        """B/s; 0: there is none. A new one begins with a full account."""
        return self._budget

    @budget.setter
    def budget(self, budget: float) -> None:
        self._budget = budget
        self.limited = budget != 0.0    # asked in each step, hence no property
        self._level = budget * BURST

    @property
    def level(self) -> float:
        """Bytes on the account when it was last looked at; below 0: overdrawn."""
        return self._level

    @property
    def due(self) -> float:
        """Host time at which :meth:`release` is to be called next; ``inf`` while nothing is held."""
        streams = tuple(self._streams.values())     # another thread may be adding one
        return min((stream.sent + LONGEST_WAIT for stream in streams if stream.held is not None), default=math.inf)

    def total(self) -> Traffic:
        """Traffic of all topics."""
        return sum(tuple(self.traffic.values()), Traffic())

    def offer(self, port: Out, message: Any, now: float) -> Passed | None:
        """A message that the region has made; what is to be sent of it at once, or None.

        Args:
            now: host clock (s).

        Raises:
            MessageError: the message cannot be encoded.
        """
        self._fill(now)
        data = messages.encode(message)
        gated = port.gated
        if gated is None:
            self._draw(len(data), must=True)
            return self._sent(port, message, data)
        name = port.topic, "" if gated.key is None else str(getattr(message, gated.key))
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream()
        self._drop(stream)
        if gated.urgent is not None and gated.urgent(message):
            self._draw(len(data), must=True)
            return self._note(stream, now, self._sent(port, message, data))
        must = now - stream.sent >= LONGEST_WAIT - HAIR
        if must or self._level > self._least(gated, stream, message, len(data)):
            return self._pass(stream, port, message, data, now, must)
        stream.held = port, message, data
        return None

    def release(self, now: float, *, everything: bool = False) -> list[Passed]:
        """Returns the messages to send now (s, host clock): those held as long as they may be, or ``everything``."""
        self._fill(now)
        found = []
        for stream in self._streams.values():
            if stream.held is not None and (everything or now - stream.sent >= LONGEST_WAIT - HAIR):
                (port, message, data), stream.held = stream.held, None
                found.append(self._pass(stream, port, message, data, now, True))
        return found

    def forget(self) -> None:
        """Lets go of what is held, and of what was sent; the counts stay."""
        for stream in self._streams.values():
            self._drop(stream)
        self._streams.clear()

    # -- the account -----------------------------------------------------------------------------------------------

    @property
    def _reserve(self) -> float:
        return RESERVE * BURST * self._budget

    def _fill(self, now: float) -> None:
        if self._time is not None and now > self._time:
            self._level = min(self._level + self._budget * (now - self._time), BURST * self._budget)
        self._time = now

    def _draw(self, size: int, *, must: bool) -> None:
        """Takes what a message costs from the account; what must pass overdraws it by a full account at most."""
        level = self._level - size
        self._level = min(max(level, -BURST * self._budget), self._level) if must else level

    # -- messages --------------------------------------------------------------------------------------------------

    def _least(self, gated: Gated, stream: _Stream, message: Any, size: int) -> float:
        """Computes the level that the account must exceed for a message to pass at once (bytes)."""
        if gated.thin is not None:
            return self._reserve + size
        return self._reserve if gated.gist is not None and gated.gist(message) == stream.gist else 0.0

    def _pass(self, stream: _Stream, port: Out, message: Any, data: bytes, now: float, must: bool) -> Passed:
        gated, size, cut = port.gated, len(data), 0
        room = self._level - self._reserve
        assert gated is not None, "what is not gated passes at once"
        if gated.thin is not None and size > room and self._budget:
            message = gated.thin(message, max(room, 0.0) / size)
            data = messages.encode(message)
            cut = size - len(data)
        self._draw(len(data), must=must)
        return self._note(stream, now, self._sent(port, message, data, cut))

    def _note(self, stream: _Stream, now: float, passed: Passed) -> Passed:
        gated = passed.port.gated
        stream.sent = now
        stream.gist = None if gated is None or gated.gist is None else gated.gist(passed.message)
        return passed

    def _sent(self, port: Out, message: Any, data: bytes, cut: int = 0) -> Passed:
        traffic = self.traffic.setdefault(port.topic, Traffic())
        traffic.messages += 1
        traffic.bytes += len(data)
        traffic.cut += cut > 0
        traffic.saved += cut
        return Passed(port, message, data)

    def _drop(self, stream: _Stream) -> None:
        if stream.held is None:
            return
        (port, _, data), stream.held = stream.held, None
        traffic = self.traffic.setdefault(port.topic, Traffic())
        traffic.gated += 1
        traffic.saved += len(data)

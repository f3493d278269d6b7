# SPDX-License-Identifier: Apache-2.0
"""Edges: how the messages of one node come to another on a topic, as a region tells it on ``/diagnostics``.

A region tells of each edge that ends at it in one key and one value, which a person can read and :func:`parse` reads::

    hop vision/objects from /vision: p50 0.31 ms, p99 1.2 ms, lost 0, overwritten 3, messages 1200
"""
from __future__ import annotations

import math
import re
from typing import Iterable, NamedTuple

from brain_wire.latency import Passage
from brain_wire.messages import clip_utf8

MOST = 64               # edges that one region tells of
NOBODY = "gid:"         # before the id of a publisher that has no token
_LEFT_OUT = "hops left out"
_KEY = re.compile(r"hop (/[\w/]{1,255}) from (/[\w/]{1,255}|gid:[0-9a-f]{0,48})", re.ASCII)
_VALUE = re.compile(
    r"(?:p50 ([\d.e+-]{1,12}) ms, p99 ([\d.e+-]{1,12}) ms|latency (none yet|unknown: clocks differ)), "
    r"lost (\d{1,18}|unknown), overwritten (\d{1,18}), messages (\d{1,18})(?:, restarts (\d{1,18}))?", re.ASCII)
_DIFFER = "unknown: clocks differ"


class Edge(NamedTuple):
    """Statistics of a topic's messages from one publisher.

    Attributes:
        source: full name of the publishing node; :data:`NOBODY` and the publisher's id where no token names it.
        topic: full name.
        p50, p99: of the time from publishing to receipt, of the latest messages (s); NaN where it is not known.
        clocks_differ: it is not known since publisher and subscriber have other times.
        lost: messages that did not come; None where that cannot be known.
        overwritten: messages that came and gave way to newer ones before a step.
        messages: that came.
        restarts: times that the publisher's count began anew.
    """

    source: str
    topic: str
    p50: float
    p99: float
    clocks_differ: bool
    lost: int | None
    overwritten: int
    messages: int
    restarts: int = 0

    @property
    def loss(self) -> float | None:
        """Share of the messages that did not come; None where it is not known."""
        if self.lost is None or not self.messages + self.lost:
            return None
        return self.lost / (self.messages + self.lost)


def edge(passage: Passage, topic: str, source: str | None) -> Edge:
    """An edge from what the wire noted of it.

    Args:
        source: full name of the publisher; None: nobody knows it.
    """
    return Edge(source or NOBODY + passage.gid.hex()[:48], topic, passage.p50, passage.p99, passage.clocks_differ,
                passage.lost, passage.overwritten, passage.messages, passage.restarts)


def tell(edges: Iterable[Edge]) -> dict[str, str]:
    """Keys and values that tell of edges, at most :data:`MOST`, in the order of topics and sources."""
    ordered = sorted(edges, key=lambda e: (e.topic, e.source))
    told: dict[str, str] = {}
    for one in ordered[:MOST]:
        key = clip_utf8(f"hop {one.topic} from {one.source}", 600)
        told[key] = _value(one)
    left_out = len(ordered) - len(told)
    return {**told, _LEFT_OUT: str(left_out)} if left_out else told


def _value(one: Edge) -> str:
    if one.clocks_differ:
        latency = f"latency {_DIFFER}"
    elif math.isnan(one.p50):
        latency = "latency none yet"
    else:
        latency = f"p50 {1e3 * one.p50:.3g} ms, p99 {1e3 * one.p99:.3g} ms"
    lost = "unknown" if one.lost is None else str(_bounded(one.lost))
    return (f"{latency}, lost {lost}, overwritten {_bounded(one.overwritten)}, messages {_bounded(one.messages)}"
            + (f", restarts {_bounded(one.restarts)}" if one.restarts else ""))


def _bounded(count: int) -> int:
    return min(count, 10**18 - 1)


def parse(key: str, value: str) -> Edge | None:
    """The edge that a key and a value tell of; None where they tell of none. They may be anybody's."""
    named, told = _KEY.fullmatch(key), _VALUE.fullmatch(value)
    if named is None or told is None:
        return None
    p50, p99, why, lost, overwritten, messages, restarts = told.groups()
    try:
        times = (math.nan, math.nan) if p50 is None else (1e-3 * float(p50), 1e-3 * float(p99))
    except ValueError:
        return None
    if why is None and not (0 <= times[0] <= times[1] < math.inf):
        return None
    return Edge(named[2], named[1], *times, why == _DIFFER, None if lost == "unknown" else int(lost), int(overwritten),
                int(messages), int(restarts or 0))

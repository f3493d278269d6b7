# SPDX-License-Identifier: Apache-2.0
"""*performance* of ``brain bench backends``: there and back, one way, what is over bare Zenoh, and the slowest.

All sides are up at once and take turns, block by block, so that a noisy machine is as noisy for each. Who floods keeps
a core busy even while it rests; so what goes one way is measured with one side up after the other, in turns too.
"""
from __future__ import annotations

import contextlib
import os
import random
import statistics
from typing import Any, Callable, Iterable, Iterator, Sequence

from experiments.backend_sides import NAMES, Sides
from experiments.processes import NoPeer, beside
from experiments.scale import quantile

MOST = (16 << 20) - 1024        # bytes: a message of 16 MiB, with what a region's message has beside its content
SIZES = (64, 200, 12 << 10, 256 << 10, 1 << 20, 4 << 20, MOST)
WARM_UP = 0.2           # share of a block of round trips that does not count
MOST_BYTES = 1 << 27    # that one block of round trips carries
FOR_P99 = 1000          # round trips from which on a 99th percentile is told: ten are slower
GOAL = ("zenoh-host", "bare-gloo")     # whose slowest are compared with both cores busy
GOAL_SIZES = (200, 12 << 10)
GOAL_SHARE = 0.25       # of gloo's p99, that ZenohHost's may be
LONG = 1000             # round trips of a block of those
OVER = ("zenoh-host", "bare-zenoh")    # whose medians are compared on idle cores
OVER_SHARE, OVER_TIME = 0.2, 40e-6      # of the bare one's, or s, that ZenohHost's may be longer; whichever is more
SHORT = 250             # round trips of a block of those
AGAIN = 200             # samples of the bootstrap
Tell = Callable[[str], None]


def measure(quick: bool, stop: Any, tell: Tell) -> dict[str, Any]:
    """All of them, of all sides that can be had: ``trips``, ``over_bare``, ``slowest``, ``one_way``.

    Besides, ``about``: what sides say of themselves; ``left_out``: each ``side`` that was not measured, and ``why``.
    """
    with Sides(stop, tell) as sides:
        some = (200, 12 << 10, 1 << 20)
        trips = round_trips(sides.trips, some if quick else SIZES, (200,) if quick else some, 1 if quick else 3,
                            100 if quick else 500, sides.left_out, tell)
        over = over_bare(sides.trips, 12 if quick else 40, sides.left_out, tell)
        slow = slowest(sides.trips, 3 if quick else 8, sides.left_out, tell)
        flows = one_way(sides.flows, (200, 1 << 20) if quick else (*some, MOST), 1 if quick else 2,
                        0.3 if quick else 0.5, sides.left_out, tell)
        return {"trips": complete(trips, NAMES, quantiles([])), "over_bare": over, "slowest": slow,
                "one_way": complete(flows, NAMES, dict.fromkeys(("rate", "mb", "seen"))), "about": sides.about,
                "left_out": [{"side": side, "why": why} for side, why in sides.left_out.items()]}


def round_trips(trips: dict[str, Any], sizes: Sequence[int], busy_sizes: Sequence[int], blocks: int, count: int,
                left_out: dict[str, str], tell: Tell) -> list[dict[str, Any]]:
    """Round trips of all sides, by turns.

    A side of which nothing came back in a block, which takes a minute to know, is not asked again.

    Args:
        trips: by name, what has ``block(size, count)``.
        sizes: of the messages (bytes).
        busy_sizes: of those with as many busy processes beside them as there are cores.
        blocks: of each side and size.
        count: round trips of a block; fewer of large messages.
        left_out: by name, why a side is not measured further; added to.

    Returns:
        By size and load: of each side ``n``, ``p50``, ``least`` and ``most`` of the blocks' medians, and ``p99`` where
        ``n`` is large enough (s).
    """
    found = []
    for busy in (False, True):
        with _busy() if busy else contextlib.nullcontext():
            for size in busy_sizes if busy else sizes:
                many = max(5, min(count, MOST_BYTES // size))
                times = _by_turns(answering(trips, left_out), size, blocks, many, left_out)
                found.append({"size": size, "busy": busy, **{name: _told(taken) for name, taken in times.items()}})
                tell(f"{size} B{', both cores busy' if busy else ''}: " + ", ".join(
                    f"{name} {1e6 * taken['p50']:.0f} us" for name, taken in found[-1].items()
                    if isinstance(taken, dict) and taken["n"]))
    return found


def over_bare(trips: dict[str, Any], blocks: int, left_out: dict[str, str], tell: Tell) -> list[dict[str, Any]]:
    """The goal: how much longer a round trip of ZenohHost takes than one of bare Zenoh, on idle cores.

    Both take turns in short blocks, many of them, so that an hour's slow spells are as slow for either; what is
    compared is block by block.

    Returns:
        By size, of each side ``n`` and ``p50``; ``more``, the median of the differences between the medians of blocks
        that were neighbors (s), and ``more_95``, its 95 % interval by bootstrap over blocks; ``share``, that of bare
        Zenoh's p50, and whether it ``kept`` the goal.
    """
    found = []
    for size in GOAL_SIZES:
        ours, bare = times = _pair(trips, OVER, size, blocks, SHORT, left_out)
        row: dict[str, Any] = {"size": size, **{name: quantiles(_all(taken)) for name, taken in zip(OVER, times)}}
        apart = [statistics.median(a) - statistics.median(b) for a, b in zip(ours, bare)]
        row["more"] = more = statistics.median(apart) if apart else None
        row["more_95"] = bounds([statistics.median(drawn) for drawn in _drawn(apart)]) if len(apart) > 2 else None
        row["share"] = None if more is None else more / row["bare-zenoh"]["p50"]
        row["kept"] = None if more is None else more <= max(OVER_SHARE * row["bare-zenoh"]["p50"], OVER_TIME)
        found.append(row)
        if more is not None:
            tell(f"{size} B: zenoh-host takes {1e6 * more:.0f} us ({row['share']:.0%}) more than bare-zenoh")
    return found


def slowest(trips: dict[str, Any], blocks: int, left_out: dict[str, str], tell: Tell) -> list[dict[str, Any]]:
    """The goal: the 99th percentile of ZenohHost with both cores busy, as a share of gloo's.

    Blocks are of :data:`LONG` round trips, so that one hiccup of the machine is not the whole percentile, and there are
    ``blocks`` of each side by turns.

    Returns:
        By size, of each side ``n``, ``p50``, ``p99`` and ``p99_95`` (its 95 % interval, by bootstrap over blocks); the
        ``share`` of gloo's p99 and whether it ``kept`` the goal.
    """
    found = []
    with _busy():
        for size in GOAL_SIZES:
            times = _pair(trips, GOAL, size, blocks, LONG, left_out)
            row: dict[str, Any] = {"size": size, **{
                name: {**quantiles(_all(taken)), "p99_95": interval(taken)} for name, taken in zip(GOAL, times)}}
            ours, gloos = (row[name]["p99"] for name in GOAL)
            row["share"] = ours / gloos if ours and gloos else None
            row["kept"] = None if row["share"] is None else row["share"] <= GOAL_SHARE
            found.append(row)
            tell(f"{size} B, both cores busy, p99: " + ", ".join(
                f"{name} {1e6 * row[name]['p99']:.0f} us" for name in GOAL if row[name]["p99"]))
    return found


def answering(sides: dict[str, Any], left_out: dict[str, str]) -> dict[str, Any]:
    """Those that have answered so far."""
    return {name: side for name, side in sides.items() if _there_and_back(name) not in left_out}


def _there_and_back(name: str) -> str:
    return f"{name}, there and back"


def _by_turns(sides: dict[str, Any], size: int, blocks: int, many: int, left_out: dict[str, str]
              ) -> dict[str, list[list[float]]]:
    """Blocks of all sides, each of which comes first in turn; none of a side from its first without an answer on."""
    names = list(sides)
    times: dict[str, list[list[float]]] = {name: [] for name in names}
    for number in range(blocks):
        turn = number % len(names)
        for name in answering(dict.fromkeys(names[turn:] + names[:turn]), left_out):
            why = f"of {many} messages of {size} bytes not all came back in time"
            try:
                taken = sides[name].block(size, many)
            except NoPeer as error:
                taken, why = [], f"{why}: {error}"
            if taken:
                times[name].append(taken[int(WARM_UP * many):])
            else:
                left_out[_there_and_back(name)] = why
    return times


def _pair(trips: dict[str, Any], names: tuple[str, str], size: int, blocks: int, many: int, left_out: dict[str, str]
          ) -> list[list[list[float]]]:
    """Blocks of two sides by turns; none of one that does not answer."""
    times = _by_turns(answering({name: trips[name] for name in names}, left_out), size, blocks, many, left_out)
    return [times.get(name, []) for name in names]


def one_way(flows: dict[str, Callable[[Sequence[int], float], list[dict[str, Any]]]], sizes: Sequence[int], turns: int,
            seconds: float, left_out: dict[str, str], tell: Tell) -> list[dict[str, Any]]:
    """Measures one-way throughput: messages and MB (10^6 bytes) a second seen at the other end, medians of the turns.

    Args:
        flows: by name of the side.
        sizes: of the messages (bytes).
        turns: of each side.
        seconds: that each size is sent for.
        left_out: by name, why one is not measured; added to.

    Returns:
        By size: of each side ``rate`` (Hz), ``mb`` (MB/s), and ``seen``, the share of what was sent.
    """
    taken: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in flows}
    for _ in range(turns):
        for name, flow in flows.items():
            try:
                taken[name].append(flow(sizes, seconds))
            except (NoPeer, TimeoutError) as why:
                left_out[f"{name}, one way"] = str(why)
    found: list[dict[str, Any]] = []
    for place, size in enumerate(sizes):
        row: dict[str, Any] = {"size": size}
        for name, turned in taken.items():
            each = [flowed(turn[place]) for turn in turned]
            rate = median_of(one["rate"] for one in each)
            row[name] = {"rate": rate, "mb": None if rate is None else 1e-6 * rate * size,
                         "seen": median_of(one["seen"] for one in each),
                         "turns": sum(one["rate"] is not None for one in each)}
        found.append(row)
        tell(f"{size} B one way: " + ", ".join(f"{name} {one['rate']:.0f}/s" for name, one in row.items()
                                               if isinstance(one, dict) and one["rate"] is not None))
    return found


def complete(rows: list[dict[str, Any]], names: Sequence[str], nothing: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows in which each side stands, with ``nothing`` where it could not be had."""
    return [{**dict.fromkeys(names, nothing), **row} for row in rows]


def flowed(one: dict[str, Any]) -> dict[str, float | None]:
    """Rate (Hz) and share seen of what went one way; None where too little came for it."""
    return {"rate": (one["n"] - 1) / one["took"] if one["n"] > 1 and one["took"] > 0.0 else None,
            "seen": min(1.0, one["n"] / one["sent"]) if one["sent"] else None}


def quantiles(times: list[float]) -> dict[str, Any]:
    """``n``, ``p50`` and ``p99`` (s); no p99 of fewer than :data:`FOR_P99`, of which it would be the few slowest."""
    ordered = sorted(times)
    return {"n": len(ordered), "p50": quantile(ordered, 0.5) if ordered else None,
            "p99": quantile(ordered, 0.99) if len(ordered) >= FOR_P99 else None}


def _all(blocks: Sequence[Sequence[float]]) -> list[float]:
    return [one for block in blocks for one in block]


def median_of(values: Iterable[float | None]) -> float | None:
    """The median of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _told(blocks: list[list[float]]) -> dict[str, Any]:
    """Quantiles of all, and how far apart the medians of the blocks are."""
    medians = [statistics.median(block) for block in blocks if block]
    return {**quantiles(_all(blocks)), "least": min(medians, default=None), "most": max(medians, default=None)}


def interval(blocks: Sequence[list[float]]) -> list[float] | None:
    """95 % interval of the 99th percentile of all, by bootstrap over blocks; None for fewer than three.

    Whole blocks are drawn, since what is slow comes in spells.
    """
    if len(blocks) < 3:
        return None
    found = [quantile(pooled, 0.99) for drawn in _drawn(blocks) if (pooled := sorted(_all(drawn)))]
    return bounds(found) if found else None


def _drawn(blocks: Sequence[Any]) -> Iterator[list[Any]]:
    """As many of them as there are, drawn with replacement, :data:`AGAIN` times."""
    draw = random.Random(0)
    for _ in range(AGAIN):
        yield draw.choices(blocks, k=len(blocks))


def bounds(found: list[float]) -> list[float]:
    """Between which 95 % of them are."""
    found = sorted(found)
    return [quantile(found, 0.025), quantile(found, 0.975)]


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """As many processes as there are cores, that do nothing but compute."""
    with contextlib.ExitStack() as exits:
        for _ in os.sched_getaffinity(0):
            exits.enter_context(beside("-c", "while True: pass"))
        yield

# SPDX-License-Identifier: Apache-2.0
"""Messages over the wire, there and back and one way: between two regions on ZenohHost, and between two of others.

Bare Zenoh through a router is the least that eclipse-zenoh can do from Python: a callback that puts the bytes back. The
regions' side is what a region gets: messages decoded at both ends, rings, the step, the encoder, tokens and
attachments, links with each other, and shared memory for what is large. Beside them dora, where it is installed. Blocks
of all alternate, so that a noisy machine is as noisy for each, and what is told of two sides is the median of what
neighboring blocks are of each other.
"""
from __future__ import annotations

import contextlib
import json
import math
import statistics
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Callable, Iterable, Iterator

import numpy as np
import typer

from brain_eval.bench.asked import ORDER, READY, TYPE, Asked, wait_for
from brain_eval.bench.experiment import Experiment, Problem
from brain_eval.bench.rows import Table
from brain_runtime import FEATURE, In, LATCHED, Out, Region
from brain_runtime.contract.declared import named
from brain_wire.temporary_folder import TemporaryFolder

SIZES = {"200 B": 200, "12 KiB": 12 * 1024, "1 MiB": 1 << 20}
BARE_ZENOH = "bare zenoh"
PINGING = {"echo": "brain_eval.bench.wire:Echo", "ping": "brain_eval.bench.wire:Ping"}
BLOCK = 200             # round trips in one block
WARM_UP = 50            # the first ones of each block do not count
AGAIN = 5               # blocks more, where none came through on one of the sides
FLOW = 0.5              # s that messages of a size are sent one way
DORA = "experiments.backend_sides:dora_peer"    # of a checkout
LOST = 1.0              # s after which a message counts as lost
# Of the bare side; written as topics are, so that rights can be given to them.
BARE_PING, BARE_PONG = "0/bench/ping/bare/bare", "0/bench/pong/bare/bare"


class Echo(Region):
    """Sends each message back."""

    ping = In("bench/ping", TYPE, FEATURE, trigger=True, device=True)
    pong = Out("bench/pong", TYPE, FEATURE)

    def step(self, inbox, state, dt, rng):
        return {"pong": inbox.get("ping")}, state


class Ping(Region):
    """Times round trips as it is told on bench/go: JSON with ``id``, ``size`` (bytes) and ``count``."""

    rate = 5.0

    go = In("bench/go", ORDER, FEATURE, trigger=True, device=True)
    pong = In("bench/pong", TYPE, FEATURE, trigger=True, device=True)
    ping = Out("bench/ping", TYPE, FEATURE)
    result = Out("bench/result", ORDER, LATCHED)

    def configure(self, parameters):
        super().configure(parameters)
        self._left = 0      # round trips to go

    def step(self, inbox, state, dt, rng):
        now = time.perf_counter()
        if inbox.new("go"):
            order = json.loads(inbox.get("go").data)
            self._id, self._size, self._left, self._times = order["id"], order["size"], order["count"], []
            self._message = self.ping(data=np.full(self._size, 120, np.uint8))
            return self._send(), state
        pong = inbox.get("pong") if inbox.new("pong") else None
        if self._left > 0 and pong is not None and len(pong.data) == self._size:
            self._times.append(now - self._sent)
            self._left -= 1
            return self._send() if self._left > 0 else self._done(), state
        return (self._send() if self._left > 0 and now - self._sent > LOST else {}), state

    def _done(self):
        return {"result": self.result(data=json.dumps({"id": self._id, "times": self._times}))}

    def _send(self):
        self._sent = time.perf_counter()
        return {"ping": self._message}


def _publisher(session: Any, key: str) -> Any:
    import zenoh

    return session.declare_publisher(key, congestion_control=zenoh.CongestionControl.BLOCK)     # 1 MiB fills a link


class BareEcho:
    """Puts back what comes, in Zenoh's callback."""

    def __init__(self, session: Any) -> None:
        publisher = _publisher(session, BARE_PONG)
        self._keep = publisher, session.declare_subscriber(
            BARE_PING, lambda sample: publisher.put(sample.payload))


class BarePing:
    """Times round trips in Zenoh's callback."""

    def __init__(self, session: Any) -> None:
        self._publisher = _publisher(session, BARE_PING)
        self._done = threading.Event()
        self._left = 0
        self._keep = session.declare_subscriber(BARE_PONG, self._back)

    def block(self, size: int, count: int) -> list[float]:
        """Round trip times (s) of ``count`` messages of ``size`` bytes; fewer if one was lost."""
        self._payload, self._times, self._left = bytes(size), [], count
        self._done.clear()
        self._send()
        self._done.wait(LOST + count * 0.05)
        self._left = 0
        return list(self._times)

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._publisher.put(self._payload)

    def _back(self, sample: Any) -> None:
        now = time.perf_counter()
        if self._left <= 0 or len(sample.payload) != len(self._payload):
            return
        self._times.append(now - self._sent)
        self._left -= 1
        if self._left > 0:
            self._send()
        else:
            self._done.set()


def by_turns(times: dict[Any, list[float]], name: str, size: int, blocks: int) -> Iterator[int]:
    """Measures blocks of all sides by turns.

    A message that does not fit into a busy link in time is dropped, and its block ends with it; so up to
    :data:`AGAIN` blocks more are measured where nothing came back on one of the sides.

    Args:
        times: by side, an object with ``block(size, count)``; round trips (s) are added to it.
        name: of the size, for people.
        size: of the messages (bytes).
        blocks: of each side.

    Yields:
        How many blocks of each side are done.

    Raises:
        TimeoutError: nothing came back on one of the sides.
    """
    done = 0
    while done < blocks or (not all(times.values()) and done < blocks + AGAIN):
        for side, taken in times.items():
            taken += side.block(size, BLOCK + WARM_UP)[WARM_UP:]
        done += 1
        yield done
    if not all(times.values()):
        raise TimeoutError(f"no round trip of {name} came back; the machine is too busy, try again")


@dataclass(frozen=True)
class Comparison:
    """Round trips of one size: p50 and p99 (s) of both sides."""

    size: str
    n: int
    bare_p50: float
    bare_p99: float
    host_p50: float
    host_p99: float

    @property
    def more(self) -> float:
        """Difference of the regions' median and the bare one (s)."""
        return self.host_p50 - self.bare_p50

    @property
    def allowed(self) -> float:
        """Largest difference allowed (s): 30 %, but at least 60 us."""
        return max(0.3 * self.bare_p50, 60e-6)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**self.__dict__, "more": self.more, "allowed": self.allowed, "within": self.more <= self.allowed}


@dataclass
class Share:
    """Share of another side that two regions take, for one size.

    Attributes:
        size: of the messages, for people.
        beside: name of the other side.
        ours, other: median of round trips (s).
        share: of the other's median, block by block; its median. At most 1: ours are as short.
        ours_rate, other_rate: messages a second that came, one way.
        share_rate: of the other's rate, turn by turn; its median. At least 1: ours are as many. NaN: not measured.
    """

    size: str
    beside: str
    ours: float
    other: float
    share: float
    ours_rate: float = math.nan
    other_rate: float = math.nan
    share_rate: float = math.nan


def share(size: str, beside: str, ours: list[float], other: list[float]) -> Share:
    """Compares round trips (s) of two sides, which took turns in blocks."""
    medians = [[statistics.median(times[at:at + BLOCK]) for at in range(0, len(times), BLOCK)]
               for times in (ours, other)]
    return Share(size, beside, statistics.median(ours), statistics.median(other),
                 statistics.median(a / b for a, b in zip(*medians)))


def compare(endpoint: str, blocks: int, other: Any = None
            ) -> Iterator[tuple[str, int, tuple[Comparison, Share] | None]]:
    """Measures through the router at ``endpoint``, where an :class:`Echo`, a :class:`Ping` and a bare echo run.

    Args:
        endpoint: of the router.
        blocks: of each side and size.
        other: another side, beside which the regions are told, with ``block(size, count)``; None: the bare one.

    Yields:
        Size, number of the block that was done, and after a size's last one the comparisons.

    Raises:
        TimeoutError: one of the processes does not answer.
    """
    from brain_wire import open_node, open_session

    with open_session(endpoint, patience=READY) as session, open_node("bench", router=endpoint) as node:
        bare = BarePing(session.zenoh)
        go = node.publisher("bench/go", ORDER, FEATURE)
        results = node.subscription("bench/result", ORDER, LATCHED)
        host = RegionBlocks(go, results)
        wait_for(lambda: len(bare.block(64, 1)) == 1, "the bare echo")
        wait_for(lambda: len(host.block(64, 1, patience=LOST)) == 1, "the regions")
        for name, size in SIZES.items():
            times: dict[Any, list[float]] = {side: [] for side in (bare, host, other) if side is not None}
            for done in by_turns(times, name, size, blocks):
                yield name, min(done, blocks), None
            beside = (BARE_ZENOH, bare) if other is None else ("dora", other)
            yield name, blocks, (
                Comparison(name, len(times[host]), *(float(np.percentile(times[side], q)) for side in (bare, host)
                                                     for q in (50, 99))),
                share(name, beside[0], times[host], times[beside[1]]))


class RegionBlocks(Asked):
    """Asks a :class:`Ping` for blocks: by ``bench/go``, which it answers by ``bench/result``."""

    def block(self, size: int, count: int, patience: float = 60.0) -> list[float]:
        """Round trip times (s) of ``count`` messages of ``size`` bytes; none if they took more than ``patience`` s."""
        return self.ask(patience, size=size, count=count).get("times", [])


class WireError(Problem):
    """Something does not answer; says what, and how the logs end."""


@contextlib.contextmanager
def running(children: Callable[[Path], list[Any]]) -> Iterator[Path]:
    """Runs processes, which are watched over, and gives their folder.

    Args:
        children: makes the workloads, given the folder for their files and logs.

    Raises:
        WireError: within this a process did not answer, or a router was not there.
    """
    from brain_runtime.supervision.supervisor import Supervisor
    from brain_wire import NoRouter

    stop = threading.Event()
    with TemporaryFolder("bench") as name:
        folder = Path(name)
        supervisor = Supervisor(children(folder), folder)

        def keep() -> None:
            while not stop.is_set():
                supervisor.round()

        supervisor.start()
        keeper = threading.Thread(target=keep)
        keeper.start()
        try:
            yield folder
        except (TimeoutError, NoRouter) as error:
            logs = "; ".join(p.read_text(errors="replace").strip()[-200:] for p in folder.glob("*.log"))
            raise WireError(f"{error}; the logs end: {logs}") from error
        finally:
            stop.set()
            keeper.join()
            supervisor.stop()


def trips(found: Iterable[Comparison]) -> Table:
    """The table of round trips."""
    return Table("round trip, us", ("size", "n", "bare p50", "p99", "regions p50", "p99", "more", "allowed"), [
        (c.size, str(c.n), *(f"{1e6 * v:.0f}" for v in (c.bare_p50, c.bare_p99, c.host_p50, c.host_p99, c.more,
                                                        c.allowed))) for c in found], left=0)


def shares(found: Iterable[Share]) -> Table:
    """The table of what the regions take of another side."""
    found = list(found)
    return Table(f"beside {found[0].beside}", ("size", "round trip, us", "other", "share", "one way, 1/s", "other",
                                               "share"), [
        (one.size, f"{1e6 * one.ours:.0f}", f"{1e6 * one.other:.0f}", f"{one.share:.2f}", f"{one.ours_rate:.0f}",
         f"{one.other_rate:.0f}", f"{one.share_rate:.2f}") for one in found], left=0)


class Wire(Experiment):
    """Messages between two regions on ZenohHost, beside bare eclipse-zenoh through a router and beside dora.

    There and back and one way, of 200 B, 12 KiB and 1 MiB (std_msgs/UInt8MultiArray), decoded at both ends on the
    regions' side. Exit status 0 when the median of a round trip is at most 30 % or 60 us longer than bare Zenoh's.
    """

    cpu = True
    quick = {"blocks": 1}

    def measure(self, blocks: Annotated[int, typer.Option(min=1, help="Blocks of 200 round trips for each size, and "
                                                          "turns of one way for every four of them.")] = 10,
                dora: Annotated[bool | None, typer.Option(
                    "--dora/--no-dora", help="Beside dora, which is installed for it where it is not. Default: where "
                    "it is installed; else beside bare Zenoh.")] = None) -> dict[str, Any]:
        """Takes blocks of all sides by turns."""
        from brain_wire.router import free_port

        endpoint = f"tcp/127.0.0.1:{free_port()}"
        comparisons, beside = [], []
        with TemporaryFolder("bench") as folder, self._dora(Path(folder), dora) as other:
            with running(lambda folder: [
                    _router(endpoint), *(_region(name, PINGING[name], endpoint) for name in PINGING),
                    _end(endpoint)]):
                for size, block, compared in compare(endpoint, blocks, other):
                    self.status(f"{size}: {block} of {blocks} blocks")
                    if compared is not None:
                        comparisons.append(compared[0])
                        beside.append(compared[1])
            self._one_way(beside, max(1, blocks // 4), other)
        return {"round_trips": comparisons, "shares": beside}

    @contextlib.contextmanager
    def _dora(self, folder: Path, wanted: bool | None) -> Iterator[Any]:
        """Opens two nodes of dora, as far as they are wanted and can be had; else None."""
        with contextlib.ExitStack() as exits:
            other = None
            if wanted is not False:
                try:
                    other = exits.enter_context(named(DORA, "brain bench wire")(folder, bool(wanted)))
                except (Problem, ModuleNotFoundError) as why:
                    if wanted:
                        raise why if isinstance(why, Problem) else Problem(
                            "dora is measured in a checkout only: call it there (git clone, make venv)") from why
                    self.log(f"beside {BARE_ZENOH}: {why}")
            yield other

    def _one_way(self, beside: list[Share], turns: int, other: Any) -> None:
        """Measures one way by turns, and fills it in. Who floods keeps a core busy, so one side is up at a time."""
        from brain_eval.bench.flood import FLOODING, BareFlow, RegionFlow, region_flows
        from brain_wire import open_node, open_session
        from brain_wire.router import free_port

        def ours(sizes: list[int]) -> list[dict[str, Any]]:
            endpoint = f"tcp/127.0.0.1:{free_port()}"
            with running(lambda folder: [_router(endpoint), *(_region(name, FLOODING[name], endpoint)
                                                              for name in FLOODING)]):
                with open_session(endpoint, patience=READY), open_node("bench", router=endpoint) as node:
                    return region_flows(RegionFlow.of(node), sizes, FLOW)

        def bare(sizes: list[int]) -> list[dict[str, Any]]:
            endpoint = f"tcp/127.0.0.1:{free_port()}"
            with running(lambda folder: [_router(endpoint), _end(endpoint, "", "brain_eval.bench.flood:BareCount")]):
                with open_session(endpoint, patience=READY) as session:
                    return region_flows(BareFlow(session.zenoh), sizes, FLOW)

        sizes = list(SIZES.values())
        taken = []
        for turn in range(turns):
            self.status(f"one way: {turn} of {turns} turns")
            taken.append([[rate(flow) for flow in flows] for flows in (
                ours(sizes), bare(sizes) if other is None else other.flows(sizes, FLOW))])
        for place, one in enumerate(beside):
            pairs = [(mine[place], its[place]) for mine, its in taken]
            one.ours_rate, one.other_rate = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
            one.share_rate = statistics.median(mine / its if its else math.nan for mine, its in pairs)

    def figures(self, found: dict[str, Any]) -> dict[str, Any]:
        return {"round_trips": [c.to_dict() for c in found["round_trips"]],
                "shares": [dict(one.__dict__) for one in found["shares"]]}

    def rows(self, found: dict[str, Any]) -> Iterator[Table]:
        yield trips(found["round_trips"])
        yield shares(found["shares"])

    def good(self, found: dict[str, Any]) -> bool:
        return all(c.more <= c.allowed for c in found["round_trips"])


def rate(flow: dict[str, Any]) -> float:
    """Messages a second that came one way; 0 where too few did."""
    return (flow["n"] - 1) / flow["took"] if flow["n"] > 1 and flow["took"] > 0.0 else 0.0


def _router(endpoint: str) -> Any:
    from brain_runtime.run.workload import Workload

    return Workload("router", (sys.executable, "-m", "brain_wire.router", "--listen", endpoint), stop_order=2)


def _region(name: str, cls: str, endpoint: str) -> Any:
    from brain_runtime.run.workload import Workload

    return Workload(name, (sys.executable, "-m", "brain_runtime.process", "--class", cls, "--name", name, "--router",
                           endpoint))


def _end(*arguments: str) -> Any:
    """The other end of bare messages, see :func:`main`."""
    from brain_runtime.run.workload import Workload

    return Workload("bare", (sys.executable, "-m", __name__, *arguments))


def main(endpoint: str, credentials: str = "", end: str = "brain_eval.bench.wire:BareEcho") -> None:
    """Is the other end of bare messages at ``endpoint`` until it is ended.

    Args:
        endpoint: of a router.
        credentials: a file of them; empty: none.
        end: class of the end, as ``package.module:Class``.
    """
    import os
    import signal

    from brain_wire import open_session

    os.environ["BRAIN_SECURITY"] = credentials
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with open_session(endpoint, patience=READY) as session:
        kept = named(end, "the end")(session.zenoh)
        stop.wait()
        del kept


if __name__ == "__main__":
    main(*sys.argv[1:])

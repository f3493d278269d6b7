# SPDX-License-Identifier: Apache-2.0
"""RosHost beside bare rclpy, in one run: round trips, the jitter of the brainstem's tick, what regions cost.

One client, a bare rclpy node, sends raw bytes to three processes that send them back: a node with a raw subscription
whose callback publishes the bytes (``bare``), the same with typed messages (``typed``), and a region on RosHost
(``host``), which decodes, steps and encodes. They differ in the process that echoes and in nothing else. Blocks of all
three alternate, so that a noisy machine is as noisy for each. The client has a core of its own and the echoes share
another: left to the scheduler, where it puts them makes more difference than what is measured.
"""
from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import rclpy
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import get_rmw_implementation_identifier

from brain_eval.bench.wire import LOST, Comparison
from brain_regions.brainstem import Brainstem
from brain_runtime import FEATURE, In, Out, Region
from brain_runtime.contract import heartbeat as beat
from brain_runtime.graph import RegionSpec
from brain_runtime.hosts import diagnostics
from brain_runtime.hosts.ros_topics import interface, profile
from brain_wire import messages
from experiments import ros_bare_node
from experiments.costs import core_time, pss
from experiments.processes import beside

IMAGE, STRING = "sensor_msgs/msg/Image", "std_msgs/msg/String"
SIZES = {"200 B": 200, "12 KiB": 12 * 1024, "1 MiB": 2**20}     # of the picture in the message
SIDES = ("bare", "typed", "host")
QUALITY = profile(FEATURE)
WARM_UP = 10            # the first ones of each block do not count
READY = 60.0            # s for a process to answer
TICKS = FEATURE.with_depth(100)
TICK = 1 / Brainstem.rate
TOLD = 25               # ticks in one message
MORE_P95 = 8e-3         # s that a region may add to p95 of a round trip
IDLE = 0.03             # of a core, that an idle region may take
REGIONS = {"brainstem": "brain_regions.brainstem:Brainstem", "goals": "brain_regions.goals:Goals",
           "place": "brain_regions.place:Place"}
"""Those of the default graph that need no torch: their memory is measured."""
MORE_MEMORY = 15e6      # bytes that such a region may take beyond the bare node
SETTLE_MEMORY = 3.0     # s after all run
SETTLE = 2.0            # s after the last traffic, or after the load began, that do not count


class Echo(Region):
    """Sends each picture back."""

    ping = In("bench/host/ping", IMAGE, FEATURE, trigger=True, device=True)
    pong = Out("bench/host/pong", IMAGE, FEATURE)

    def step(self, inbox, state, dt, rng):
        return {"pong": inbox.get("ping")}, state


class TimedBrainstem(Brainstem):
    """Tells when it made its steps: steady time in s, as text."""

    ticks = Out("bench/ticks", STRING, TICKS)

    def configure(self, parameters):
        super().configure(parameters)
        self._made: list[float] = []

    def step(self, inbox, state, dt, rng):
        self._made.append(time.monotonic())
        outbox, state = super().step(inbox, state, dt, rng)
        if len(self._made) == TOLD:
            outbox = {**outbox, "ticks": self.ticks(data=" ".join(f"{at:.6f}" for at in self._made))}
            self._made = []
        return outbox, state


def echo(side: str) -> None:
    """Sends back what comes, ``bare`` or ``typed``, until SIGINT or SIGTERM."""
    with _node(f"bench_{side}") as (node, executor):
        kind = interface(IMAGE)
        publisher = node.create_publisher(kind, f"bench/{side}/pong", QUALITY)
        node.create_subscription(kind, f"bench/{side}/ping", publisher.publish, QUALITY, raw=side == "bare")
        executor.spin()


def sleep(file: Path) -> None:
    """Sleeps from tick to tick as the brainstem should make them, until SIGTERM; writes when it woke (steady s)."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    woke: list[float] = []
    try:
        tick = time.monotonic()
        while True:
            tick = max(tick + TICK, time.monotonic())
            time.sleep(max(0.0, tick - time.monotonic()))
            woke.append(time.monotonic())
    finally:
        file.write_text(" ".join(f"{at:.6f}" for at in woke), encoding="ascii")


@contextlib.contextmanager
def _node(name: str, signals: SignalHandlerOptions = SignalHandlerOptions.ALL
          ) -> Iterator[tuple[Node, SingleThreadedExecutor]]:
    context = Context()
    rclpy.init(context=context, signal_handler_options=signals)
    node = Node(name, context=context, use_global_arguments=False)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        yield node, executor
    except (KeyboardInterrupt, ExternalShutdownException):
        if signals == SignalHandlerOptions.NO:
            raise
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()


class Client:
    """Times round trips to the echoes."""

    def __init__(self, node: Node, executor: SingleThreadedExecutor) -> None:
        self._spin = executor.spin_once
        self._back: list[tuple[float, int]] = []
        kind = interface(IMAGE)
        self._publish = {}
        for side in SIDES:
            self._publish[side] = node.create_publisher(kind, f"bench/{side}/ping", QUALITY).publish
            node.create_subscription(kind, f"bench/{side}/pong", self._arrived, QUALITY, raw=True)

    def _arrived(self, data: bytes) -> None:
        self._back.append((time.perf_counter(), len(data)))

    def block(self, side: str, size: int, count: int) -> list[float]:
        """Round trip times (s) of ``count`` messages with ``size`` bytes of picture; without those that were lost."""
        data = messages.encode(messages.make(IMAGE, data=np.zeros(size, np.uint8)))
        publish, times = self._publish[side], []
        for _ in range(count):
            self._back.clear()
            begin = time.perf_counter()
            publish(data)
            while not self._back and (left := LOST - (time.perf_counter() - begin)) > 0:
                self._spin(left)
            # Late answers to a message that was given up are of another size, or would come before their time.
            times += [at - begin for at, length in self._back if abs(length - len(data)) < 8]
        return times

    def answers(self, side: str) -> bool:
        """Tells whether a message comes back."""
        return len(self.block(side, 64, 1)) == 1


class Processes:
    """The processes of a measurement by name, which write to one log. They end with this one, however it ends."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._children: dict[str, tuple[subprocess.Popen, contextlib.ExitStack]] = {}

    def start(self, name: str, *words: str) -> None:
        """Starts ``python <words>``."""
        exits = contextlib.ExitStack()
        self._children[name] = exits.enter_context(beside(*words, log=self._log)), exits

    def region(self, name: str, cls: str) -> None:
        """Starts a region on RosHost."""
        self.start(name, "-m", "brain_runtime.ros_process", "--class", cls, "--name", name)

    def pid(self, name: str) -> int:
        """Number of a process."""
        return self._children[name][0].pid

    def cpu(self, name: str) -> float:
        """Processor time that a process has taken so far (s)."""
        return core_time(self.pid(name)) or 0.0

    def end(self, *names: str) -> None:
        """Ends processes, all where none is named."""
        children = [self._children.pop(name) for name in names or list(self._children)]
        for child, _ in children:
            child.terminate()
        for _, exits in children:
            exits.close()


@contextlib.contextmanager
def _cores() -> Iterator[tuple[set[int], set[int]]]:
    """Cores for the client and for the echoes, where there are two; all of them again afterwards."""
    there = os.sched_getaffinity(0)
    first, *others = sorted(there)
    try:
        yield ({first}, set(others[:1])) if others else (there, there)
    finally:
        _keep_to(there)


def _keep_to(cores: set[int]) -> None:
    """Lets this process, and those that it starts from now on, run on these cores only."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):   # it has ended
            os.sched_setaffinity(int(thread), cores)


def measure(folder: Path, *, blocks: int, count: int, idle: float, ticks: float,
            tell: Callable[[str], None]) -> dict[str, Any]:
    """Takes all the figures. The domain is that of the environment.

    Args:
        folder: for the processes' log, ``bench.log``.
        blocks: for each size and side.
        count: round trips in a block that count.
        idle: s for which an idle region's processor time is taken.
        ticks: s for which the brainstem ticks while all cores are busy.
        tell: is told what goes on.

    Returns:
        ``rmw``; ``round_trips``: a :class:`Comparison` for each size; ``typed``: by size p50 and p99 (s) of the typed
        echo; ``p95``: by size that of the ``bare`` echo and of the region (``host``, s); ``memory``: by region PSS
        (bytes) of a ``bare`` node with its topics and of its own (``host``); ``idle``: share of a core; ``jitter``: for
        the ``brainstem``, and for a process beside it that only sleeps (``sleep``), ``n`` and, in s, p50, p99 and p99.9
        of by how much two ticks were nearer or farther than they should be; ``within``: which bounds are kept.

    Raises:
        TimeoutError: one of the processes does not answer.
    """
    processes = Processes(folder / "bench.log")
    try:
        with _node("bench_client", SignalHandlerOptions.NO) as (node, executor):
            client = Client(node, executor)
            tell("starting")
            with _cores() as (ours, theirs):
                _keep_to(theirs)
                processes.start("bare", "-m", __name__, "bare")
                processes.start("typed", "-m", __name__, "typed")
                processes.region("host", "experiments.ros_bench:Echo")
                _keep_to(ours)
                for side in SIDES:
                    _wait_for(lambda: client.answers(side), f"the {side} echo")     # noqa: B023 - called at once
                comparisons, typed, p95 = _round_trips(client, blocks, count, tell)
            processes.end("bare", "typed")
            tell("an idle region")
            time.sleep(SETTLE)
            before, since = processes.cpu("host"), time.monotonic()
            time.sleep(idle)
            share = (processes.cpu("host") - before) / (time.monotonic() - since)
            processes.end()
            tell("memory")
            memory = _memory(node, executor, processes)
            tell("the brainstem's tick, all cores busy")
            jitter = _jitter(node, executor, processes, ticks, folder / "sleep")
    finally:
        processes.end()
    large = comparisons[-1]
    return {"rmw": get_rmw_implementation_identifier(), "round_trips": [c.to_dict() for c in comparisons],
            "typed": typed, "p95": p95, "memory": memory, "idle": share, "jitter": jitter,
            "within": {"round trips": all(c.more <= c.allowed for c in comparisons),
                       f"{large.size}, typed": large.host_p50 <= typed[large.size]["p50"], "idle": share <= IDLE,
                       "p95": all(side["host"] - side["bare"] <= MORE_P95 for side in p95.values()),
                       "memory": all(side["host"] - side["bare"] <= MORE_MEMORY for side in memory.values())}}


def _round_trips(client: Client, blocks: int, count: int, tell: Callable[[str], None]
                 ) -> tuple[list[Comparison], dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    found, typed, p95 = [], {}, {}
    for name, size in SIZES.items():
        times: dict[str, list[float]] = {side: [] for side in SIDES}
        for number in range(blocks):
            tell(f"{name}: block {number + 1} of {blocks}")
            turn = number % len(SIDES)      # each side comes first in turn
            for side in SIDES[turn:] + SIDES[:turn]:
                times[side] += client.block(side, size, WARM_UP + count)[WARM_UP:]
        if not all(times.values()):
            raise TimeoutError(f"no message of {name} came back; the machine is too busy, try again")
        p50, p99 = ({side: float(np.percentile(times[side], q)) for side in SIDES} for q in (50, 99))
        found.append(Comparison(name, len(times["host"]), p50["bare"], p99["bare"], p50["host"], p99["host"]))
        typed[name] = {"p50": p50["typed"], "p99": p99["typed"]}
        p95[name] = {side: float(np.percentile(times[side], 95)) for side in ("bare", "host")}
    return found, typed, p95


def _memory(node: Node, executor: SingleThreadedExecutor, processes: Processes) -> dict[str, dict[str, float]]:
    """PSS (bytes) by region. Pages that several processes share count for each in parts, so all run at one time."""
    active: set[str] = set()

    def heard(data: bytes) -> None:
        told = messages.decode(data, beat.TYPE)
        if told.state == beat.ACTIVE:
            active.add(told.name.removeprefix("/"))

    subscription = node.create_subscription(interface(beat.TYPE), beat.PORT.topic, heard,
                                            profile(beat.PORT.qos.with_depth(100)), raw=True)
    for name, cls in REGIONS.items():
        processes.start(f"{name}_bare", ros_bare_node.__file__, f"{name}_bare", json.dumps(_ports(cls)))
        processes.region(name, cls)

    def running() -> bool:
        executor.spin_once(0.1)
        there = set(node.get_node_names())
        return active >= REGIONS.keys() and all(f"{name}_bare" in there for name in REGIONS)

    _wait_for(running, "of the regions and the bare nodes beside them one")
    node.destroy_subscription(subscription)
    time.sleep(SETTLE_MEMORY)
    found = {name: {"bare": float(pss(processes.pid(f"{name}_bare"))), "host": float(pss(processes.pid(name)))}
             for name in REGIONS}
    processes.end(*(process for name in REGIONS for process in (name, f"{name}_bare")))
    return found


def _ports(cls: str) -> list[tuple[str, str, str]]:
    """The topics of a region's node, its signs of life too, as far as their packages are installed."""
    region = RegionSpec("region", cls).load()
    ports = [*(("in", port.type, port.topic) for port in region.inputs().values()),
             *(("out", port.type, port.topic) for port in region.outputs().values()),
             ("out", beat.TYPE, beat.PORT.topic), ("out", diagnostics.TYPE, diagnostics.TOPIC)]
    return [port for port in ports if find_spec(port[1].partition("/")[0])]


def _jitter(node: Node, executor: SingleThreadedExecutor, processes: Processes, seconds: float, slept: Path
            ) -> dict[str, dict[str, float]]:
    told: list[float] = []

    def arrived(data: bytes) -> None:
        told.extend(map(float, messages.decode(data, STRING).data.split()))

    node.create_subscription(interface(STRING), "bench/ticks", arrived, profile(TICKS), raw=True)
    processes.region("brainstem", "experiments.ros_bench:TimedBrainstem")

    def ticking() -> bool:
        executor.spin_once(0.1)
        return bool(told)

    _wait_for(ticking, "the brainstem")
    processes.start("sleep", "-m", __name__, str(slept))
    for number in range(len(os.sched_getaffinity(0))):
        processes.start(f"load{number}", "-c", "while True: pass")
    begin = time.monotonic() + SETTLE
    while (left := begin + seconds - time.monotonic()) > 0:
        executor.spin_once(left)
    processes.end()
    woke = map(float, slept.read_text(encoding="ascii").split())
    return {"brainstem": _off([at for at in told if at >= begin]), "sleep": _off([at for at in woke if at >= begin])}


def _off(times: list[float]) -> dict[str, float]:
    off = np.abs(np.diff(times) - TICK)
    if len(off) < 2:
        raise TimeoutError("there were no ticks while all cores were busy; give it more time")
    return {"n": len(off), **{f"p{q:g}": float(np.percentile(off, q)) for q in (50, 99, 99.9)}}


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + READY
    while not condition():
        if time.monotonic() > until:
            router = ("; start a router with `ros2 run rmw_zenoh_cpp rmw_zenohd`, if none runs"
                      if get_rmw_implementation_identifier() == "rmw_zenoh_cpp" else "")
            raise TimeoutError(f"{what} did not answer within {READY:g} s{router}")


if __name__ == "__main__":
    echo(sys.argv[1]) if sys.argv[1] in SIDES else sleep(Path(sys.argv[1]))

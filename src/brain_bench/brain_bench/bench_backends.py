# SPDX-License-Identifier: Apache-2.0
"""What ``brain bench backends`` measures: the same small brain on ZenohHost and as a static group of TorchHost.

Each experiment is one of the reasons for which the brain moved from ``torch.distributed`` to Zenoh, as something that
could come out otherwise. Hosts are measured by turns.
"""
from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

from brain_bench.bench_wire import BarePing, RegionBlocks, wait_for
from brain_bench.toy_brain import TOYS, ToyBrain
from brain_runtime import end_with_parent
from brain_runtime.end_with_parent import die_with
from brain_runtime.supervisor import THREADS
from brain_wire import open_session
from brain_wire.qos import FEATURE, LATCHED
from brain_wire.router import free_port

HOSTS = ("zenoh", "torch")
DELAYS = (0.0, 0.005, 0.05, 0.5)        # s that a step of the relay takes
PINGING = {"echo": "brain_bench.bench_wire:Echo", "ping": "brain_bench.bench_wire:Ping"}
JOINED = "brain_bench.backend_regions:Aside"
WARM_UP = 0.2                           # share of a block of round trips that does not count
MOST_BYTES = 1 << 28                    # that one block of round trips carries
Tell = Callable[[str], None]


@contextlib.contextmanager
def toys(host: str, stop: Any, classes: Any = TOYS) -> Iterator[ToyBrain]:
    """A toy brain on a router and a domain of its own."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="brain-bench-") as folder:
        with ToyBrain(host, Path(folder), f"tcp/127.0.0.1:{port}", port % 200, stop, classes) as brain:
            yield brain


# -- communication model: one region is late -------------------------------------------------------------------------


def late(brain: ToyBrain, seconds: float, tell: Tell) -> list[dict[str, Any]]:
    """For each delay of the relay: rates of all regions (Hz), and ages of what its two kinds of hearers hear (s)."""
    found = []
    for delay in DELAYS:
        brain.delay(delay)
        brain.rest(1.0)
        brain.ages()        # what was before does not count
        rates = brain.rates(seconds)
        found.append({"host": brain.host, "delay": delay, "rates": rates, "ages": brain.ages()})
        tell(f"{brain.host}: relay {delay:g} s late: " + ", ".join(f"{name} {rate:.1f} Hz"
                                                                   for name, rate in rates.items()))
    brain.delay(0.0)
    brain.rest(1.0)
    return found


# -- fault tolerance: one region is killed, or stands still ------------------------------------------------------------


def hurt(brain: ToyBrain, times: int, tell: Tell) -> list[dict[str, Any]]:
    """For each region and signal: s until all are active again (``back`` in the median), and who stood still meanwhile.

    ``still`` is the longest time (s) in which a region made no step. Each region is hurt so many ``times``.
    """
    found = []
    for number in (signal.SIGKILL, signal.SIGSTOP):
        for name in brain.names:
            each = []
            for _ in range(times):
                brain.rest(1.0)
                each.append(brain.hurt(name, number))
            took = [one["back"] for one in each]
            found.append({"host": brain.host, "signal": number.name, "region": name, "new": each[-1]["new"],
                          "back": statistics.median(took), "least": min(took), "most": max(took),
                          "still": {other: max(one["still"][other] for one in each) for other in brain.names}})
            tell(f"{brain.host}: {name} gets {number.name}: whole again after {found[-1]['back']:.1f} s, in new "
                 f"processes: {', '.join(each[-1]['new'])}")
    return found


# -- topology and process management ------------------------------------------------------------------------------


def joined(brain: ToyBrain, stop: Any, tell: Tell) -> dict[str, Any]:
    """One region more: how long until it is active, and which others had to be started again.

    On Zenoh it is one process more beside the brain that runs. A static group has to be ended, and started with a graph
    that has one region more; until it is whole nothing runs.
    """
    before = {name: brain.pid(name) for name in brain.names}
    begin = time.monotonic()
    if brain.host == "torch":
        brain.crew.stop()
        with toys("torch", stop, {**TOYS, "newcomer": JOINED}) as larger:
            took = time.monotonic() - begin
            restarted = [name for name in before if larger.pid(name) != before[name]]
    else:
        endpoint = brain.node.session.endpoint
        with _beside("brain_runtime.process", "--class", JOINED, "--name", "newcomer", "--router", endpoint,
                     domain=brain.node.domain):
            brain.wait(lambda: (beat := brain.beat("newcomer")) is not None and beat.step > 0, "the newcomer")
            took = time.monotonic() - begin
            restarted = [name for name in before if brain.pid(name) != before[name]]
    tell(f"{brain.host}: one region more after {took:.1f} s; started again: {', '.join(restarted) or 'none'}")
    return {"host": brain.host, "took": took, "restarted": restarted, "again": len(restarted)}


# -- performance -----------------------------------------------------------------------------------------------------


def round_trips(sizes: Sequence[int], blocks: int, count: int, stop: Any, tell: Tell) -> list[dict[str, Any]]:
    """Round trips between two regions on each host, beside bare eclipse-zenoh and bare gloo, by turns.

    Args:
        sizes: of the messages (bytes).
        blocks: of each side and size.
        count: round trips of a block; fewer of large messages.

    Returns:
        By size and load: of each side ``p50`` and ``p99`` (s) and how many. Twice: on the machine as it is, and with as
        many busy processes beside it as there are cores.
    """
    from brain_bench.gloo_echo import GlooPing

    found = []
    with contextlib.ExitStack() as exits:
        sides: dict[str, Any] = {}
        for host in HOSTS:
            brain = exits.enter_context(toys(host, stop, PINGING))
            sides[f"{host}-host"] = RegionBlocks(
                brain.node.publisher("bench/go", "std_msgs/msg/String", FEATURE),
                brain.node.subscription("bench/result", "std_msgs/msg/String", LATCHED))
            if host == "zenoh":
                endpoint = brain.node.session.endpoint
                exits.enter_context(_beside("brain_bench.bench_wire", endpoint))
                session = exits.enter_context(open_session(endpoint, patience=10.0))
                sides["bare-zenoh"] = BarePing(session.zenoh)
        sides["bare-gloo"] = exits.enter_context(GlooPing())
        for name, side in sides.items():
            wait_for(lambda side=side: len(side.block(64, 1)) == 1, name)   # type: ignore[misc]
        for busy in (False, True):
            with _busy() if busy else contextlib.nullcontext():
                for size in sizes:
                    many = max(10, min(count, MOST_BYTES // size))
                    times: dict[str, list[float]] = {name: [] for name in sides}
                    for _ in range(blocks):
                        for name, side in sides.items():
                            times[name] += side.block(size, many)[int(WARM_UP * many):]
                    found.append({"size": size, "busy": busy, **{name: _quantiles(taken)
                                                                 for name, taken in times.items()}})
                    tell(f"{size} B{', both cores busy' if busy else ''}: " + ", ".join(
                        f"{name} {1e6 * taken['p50']:.0f} / {1e6 * taken['p99']:.0f} us"
                        for name, taken in found[-1].items() if isinstance(taken, dict) and taken["n"]))
    return found


@contextlib.contextmanager
def _beside(module: str, *arguments: str, domain: int | None = None) -> Iterator[None]:
    """A module as a process beside this one, which ends with it."""
    environment = {**THREADS, **os.environ, **({} if domain is None else {"ROS_DOMAIN_ID": str(domain)})}
    command = [sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid()), sys.executable, "-m", module]
    process = subprocess.Popen([*command, *arguments], env=environment, stdin=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _quantiles(times: list[float]) -> dict[str, Any]:
    if not times:
        return {"n": 0, "p50": None, "p99": None}
    ordered = sorted(times)
    return {"n": len(ordered), "p50": ordered[len(ordered) // 2],
            "p99": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]}


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """As many processes as there are cores, that do nothing but compute."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_compute, args=(os.getpid(),), daemon=True)
                 for _ in range(len(os.sched_getaffinity(0)))]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _compute(parent: int) -> None:
    die_with(parent)
    number = 0
    while True:
        number += 1

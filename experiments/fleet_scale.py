# SPDX-License-Identifier: Apache-2.0
"""``brain bench fleet-scale``: one cloud, and robots that grow more. What it costs the cloud, and how long orders take.

The cloud is the process of ``brain cloud``. Robots are real edges, many in a process (:mod:`experiments.fleet_robots`),
each with a Zenoh session of its own. Their databases are in memory where there is room, since a robot has a disk of
its own; the cloud's is on the disk.
"""
from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, Iterator

import typer

from brain_edge.processes.asking import Asking, NoCloud
from brain_eval.bench.experiment import Experiment, Problem, whole_numbers
from brain_wire.router import free_port
from brain_wire.temporary_folder import TemporaryFolder
from experiments import fleet_scale_model as model
from experiments.costs import Scheduled, cores, of_process, others, pss
from experiments.fleet_robots import SENT
from experiments.processes import Peer, beside
from experiments.scale import quantile

EACH = 25           # robots of a process
READY = 120.0       # s for the cloud to answer
IDLE = 15.0         # s in which nothing is ordered: three times what a robot waits between two deliveries
ORDERS = 5
LARGE = (1_000, 10_000)     # robots that are calculated and simulated
BURST = 20          # messages of each robot at once
MEMORY = Path("/dev/shm")
ROOM = 4 * 2**20    # bytes of a robot's database and its log, at most


class FleetScaleProblem(Problem):
    """It cannot be measured; says why."""


class Robots:
    """Processes with robots.

    Args:
        cloud: endpoint.
        folder: for databases.
        count: of robots.
    """

    def __init__(self, cloud: str, folder: Path, count: int) -> None:
        self._stack = contextlib.ExitStack()
        self.count = count
        names = [f"robot{number}" for number in range(count)]
        self._processes = [self._stack.enter_context(Peer("robots", [
            sys.executable, "-m", "experiments.fleet_robots", cloud, str(folder), *names[first:first + EACH]],
            folder / "robots.log", problem=FleetScaleProblem)) for first in range(0, count, EACH)]

    def __enter__(self) -> Robots:
        return self

    def __exit__(self, *_: Any) -> None:
        for process in self._processes:     # all at once: each takes a moment
            process.leave()
        self._stack.close()

    def do(self, what: str, **more: Any) -> list[dict[str, Any]]:
        """Sends an order to each process, and returns the answers.

        Raises:
            FleetScaleProblem: one has failed.
        """
        for process in self._processes:
            process.say({"do": what, **more})
        return [process.answer() for process in self._processes]

    def totals(self) -> dict[str, float]:
        """The sums of what the processes count."""
        found = self.do("counts")
        return {key: sum(one[key] for one in found) for key in found[0]}

    def memory(self) -> int:
        """Memory (PSS, bytes) of all processes."""
        return sum(pss(process.pid) for process in self._processes)


@contextlib.contextmanager
def cloud(folder: Path) -> Iterator[tuple[str, int]]:
    """A cloud's endpoint and process id, once it answers.

    Raises:
        FleetScaleProblem: it does not.
    """
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    log = folder / "cloud.log"
    with beside("-m", "brain_cloud.processes.run_cloud", "--listen", endpoint, "--folder", str(folder / "cloud"),
                log=log) as process:
        end = time.monotonic() + READY
        while True:
            try:
                with Asking(endpoint, None) as asking:
                    asking("status")
                break
            except NoCloud as problem:
                if process.poll() is not None or time.monotonic() > end:
                    raise FleetScaleProblem(f"{problem}; the log of the cloud ends: "
                                            f"{log.read_text()[-300:]}") from None
        yield endpoint, process.pid


class FleetScale(Experiment):
    """Measures what grows with the robots of a fleet at one cloud; 1,000 and 10,000 robots from the measured costs.

    Robots are real edges without a brain, 25 in a process. Exit status 0 when of each size 99 of 100 robots applied an
    order within a second.
    """

    quick = {"robots": "2", "idle": 2.0, "orders": 1, "burst": 1}
    problems = (NoCloud,)

    def measure(self, robots: Annotated[str, typer.Option(metavar="N,N,...", help="Numbers of robots at one cloud.")
                                        ] = "10,50,100,200",
                idle: Annotated[float, typer.Option(min=2, max=300, help="How long nothing is ordered (s).")] = IDLE,
                orders: Annotated[int, typer.Option(min=1, max=100, help="Given to all robots.")] = ORDERS,
                burst: Annotated[int, typer.Option(min=1, max=1000, help="Messages of each robot at once.")] = BURST,
                seed: Annotated[int, typer.Option(min=0, help="Of the simulation.")] = 0) -> dict[str, Any]:
        """Measures each size, and calculates larger ones from them."""
        sizes = [self._of_size(count, idle, orders, burst) for count in whole_numbers("--robots", robots, 1, 1000)]
        found: dict[str, Any] = {"sizes": sizes, "busy_machine": any(one["waited"] > 0.2 for one in sizes)}
        if len(sizes) > 1:
            costs = model.fit(sizes)
            found |= {"costs": {name: value._asdict() if hasattr(value, "_asdict") else value
                                for name, value in costs._asdict().items()},
                      "most_robots": model.most_robots(costs), "check": model.check(costs, sizes, seed),
                      "larger": [model.larger(costs, count, seed) for count in LARGE]}
        return found

    def _of_size(self, count: int, idle: float, orders: int, burst: int) -> dict[str, Any]:
        """Measures one cloud with so many robots. Raises FleetScaleProblem, NoCloud."""
        inside = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 * count * ROOM
        with TemporaryFolder("fleet") as disk, \
                tempfile.TemporaryDirectory(prefix="brain-fleet-", dir=MEMORY if inside else None) as memory, \
                cloud(Path(disk)) as (endpoint, pid):
            load, busy, began = os.getloadavg()[0], cores(), time.monotonic()
            first = pss(pid)
            self.status(f"{count} robots: starting")
            with Robots(endpoint, Path(memory), count) as robots, Asking(endpoint, None) as asking:
                robots.do("ready")
                joined = time.monotonic() - began
                found = {"robots": count, "joined": joined, "in_memory": inside,
                         **self._idle(robots, pid, idle), **self._orders(robots, asking, pid, orders),
                         **self._burst(robots, pid, burst)}
                seen = of_process(pid)
                found |= {"cloud_pss": pss(pid), "cloud_pss_alone": first, "cloud_threads": seen["threads"],
                          "cloud_descriptors": seen["descriptors"], "robot_pss": robots.memory() / count,
                          "database": sum(path.stat().st_size for path in (Path(disk) / "cloud").glob("fleet.db*"))}
                states = asking("status")["robots"]
                if states != {"connected": count}:
                    raise FleetScaleProblem(f"of {count} robots the cloud says {states}")
            found["load"] = {"before": load, "cores": os.cpu_count(), "busy": others(busy, cores())}
        return found

    def _idle(self, robots: Robots, pid: int, seconds: float) -> dict[str, Any]:
        self.status(f"{robots.count} robots: nothing is ordered")
        before, counts, began = Scheduled(pid), robots.totals(), time.monotonic()
        time.sleep(seconds)
        ran, waited = Scheduled(pid).since(before)
        took, after = time.monotonic() - began, robots.totals()
        return {"idle_core": ran / took, "idle_deliveries": (after["deliveries"] - counts["deliveries"]) / took,
                "idle_bytes": (after["bytes"] - counts["bytes"]) / took, "waited": waited / max(1e-9, ran + waited),
                "robot_idle_core": (after["ran"] - counts["ran"]) / took / robots.count}

    def _orders(self, robots: Robots, asking: Asking, pid: int, orders: int) -> dict[str, Any]:
        took: list[float] = []
        answered, whole = [], []
        before, counts, began = Scheduled(pid), robots.totals(), time.monotonic()
        for number in range(1, orders + 1):
            self.status(f"{robots.count} robots: order {number} of {orders}")
            sent = time.monotonic()
            asking("apply", resources=[{"apiVersion": "fleet.brain/v1", "kind": "Parameters", "metadata": {
                "name": "scale", "robots": "all"}, "spec": {"region": "gauge", "values": {SENT: sent}}}])
            answered.append(time.monotonic() - sent)
            for one in robots.do("applied", orders=number):
                took += one["took"]
            whole.append(time.monotonic() - sent)
        ran, _ = Scheduled(pid).since(before)
        lasted, after = time.monotonic() - began, robots.totals()
        took.sort()
        states = asking("status")["resources"]
        if {one["state"] for one in states} != {"applied"} or len(states) != robots.count:
            raise FleetScaleProblem(f"an order is not applied by all {robots.count} robots")
        return {"orders": orders, "order_answered": sorted(answered)[orders // 2], "applied_p50": quantile(took, 0.5),
                "applied_p99": quantile(took, 0.99), "applied_longest": took[-1],
                "all_reported": sorted(whole)[orders // 2], "orders_ran": ran, "orders_lasted": lasted,
                "orders_deliveries": after["deliveries"] - counts["deliveries"]}

    def _burst(self, robots: Robots, pid: int, each: int) -> dict[str, Any]:
        self.status(f"{robots.count} robots: {each} messages of each at once")
        counts = robots.totals()
        before, began = Scheduled(pid), time.monotonic()
        robots.do("burst", each=each)
        robots.do("drained")
        took = time.monotonic() - began
        ran, _ = Scheduled(pid).since(before)
        sent = robots.totals()["sent"] - counts["sent"]
        if sent != each * robots.count:
            raise FleetScaleProblem(f"of {each * robots.count} messages the cloud has acknowledged {sent:.0f}")
        return {"burst": sent, "burst_took": took, "messages_per_s": sent / took, "burst_ran": ran}

    def good(self, found: dict[str, Any]) -> bool:
        return all(one["applied_p99"] <= 1.0 for one in found["sizes"])

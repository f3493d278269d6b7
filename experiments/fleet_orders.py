# SPDX-License-Identifier: Apache-2.0
"""``brain bench fleet-orders``: orders to robots through cut links and killed processes, each once and in order.

The cloud and the edges are the processes of ``brain cloud`` and ``brain edge``; each edge has a link of its own that is
cut, and all are killed (SIGKILL) in turn. Counted is outside of them: a trigger in each robot's database writes down
every order that is taken in, in a table that the software does not know.
"""
from __future__ import annotations

import contextlib
import random
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_cloud.checks.relay import Relay
from brain_edge.processes.asking import Asking, NoCloud
from brain_edge.state.manifests import Resource
from brain_edge.store import FILE
from brain_eval.bench.experiment import Experiment, Problem
from brain_runtime.run.processes import Processes
from brain_runtime.run.workload import Restart, Workload
from brain_wire.backoff import Backoff
from brain_wire.logs import Logs
from brain_wire.router import free_port
from brain_wire.temporary_folder import TemporaryFolder

GIVE_UP = 300.0     # s without any progress
TOGETHER = 20       # orders of one request, at most
AT_ONCE = Restart(backoff=Backoff(0.0))     # how a process that was killed is started again
WATCH = ("CREATE TABLE IF NOT EXISTS counted_outside (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL)",
         "CREATE TRIGGER IF NOT EXISTS count_outside AFTER INSERT ON desired BEGIN "
         "INSERT INTO counted_outside (name) VALUES (NEW.name); END")


class OrdersProblem(Problem):
    """An order was lost, came twice or out of order, or nothing moves any more; says which."""


def counted(folder: Path) -> list[str]:
    """Names of the orders that a robot has taken in, in that order."""
    with contextlib.closing(sqlite3.connect(folder / FILE, timeout=30.0)) as db:
        return [name for (name,) in db.execute("SELECT name FROM counted_outside ORDER BY number")]


def compare(name: str, found: list[str], wanted: list[str]) -> None:
    """Raises OrdersProblem where a robot has not taken in each order once and in order."""
    if found != wanted:
        at = next((place for place, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]),
                  min(len(found), len(wanted)))
        came, due = (one[at] if at < len(one) else "nothing" for one in (found, wanted))
        raise OrdersProblem(f"{name} has taken in {len(found)} of {len(wanted)}: {came} came where {due} was to come")


def _watch(folder: Path) -> None:
    """Has what a robot takes in counted in its database, once it has one."""
    end = time.monotonic() + GIVE_UP
    while True:
        with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(
                sqlite3.connect(f"file:{folder / FILE}?mode=rw", uri=True, timeout=5.0)) as db, db:
            for statement in WATCH:
                db.execute(statement)
            return
        if time.monotonic() > end:
            raise OrdersProblem(f"{folder.name} has no database after {GIVE_UP:g} s")
        time.sleep(0.1)


class FleetOrders(Experiment):
    """Orders resources of robots while links are cut and processes killed.

    Exit status: 1 where one is lost, comes twice or out of order.
    """

    quick = {"orders": 40, "cuts": 2, "kills": 2, "robots": 2}

    def measure(self, orders: Annotated[int, typer.Option(min=1, help="Of each robot.")] = 2000,
                robots: Annotated[int, typer.Option(min=1, max=20, help="How many.")] = 3,
                cuts: Annotated[int, typer.Option(min=0, help="How often links are cut.")] = 150,
                kills: Annotated[int, typer.Option(min=0, help="How often processes are killed, the cloud's among "
                                                   "them.")] = 130,
                seed: Annotated[int, typer.Option(help="Of the moments of cuts and kills.")] = 0) -> dict[str, Any]:
        """Orders all, and waits until every robot has all."""
        chance, port = random.Random(seed), free_port()
        names = [f"robot{number + 1}" for number in range(robots)]
        began = time.monotonic()
        with TemporaryFolder("orders") as made, contextlib.ExitStack() as stack:
            folder = Path(made)
            links = [Relay(port) for _ in names]
            for link in links:
                stack.callback(link.close)
            words = {"cloud": ("brain_cloud.processes.run_cloud", "--listen", f"tcp/127.0.0.1:{port}"), **{
                name: ("brain_edge.processes.run_edge", "--name", name, "--cloud", f"tcp/127.0.0.1:{link.port}",
                       "--router", f"tcp/127.0.0.1:{free_port()}") for name, link in zip(names, links)}}
            processes = stack.enter_context(Processes([
                Workload(name, (sys.executable, "-m", *its, "--folder", str(folder / name)), restart=AT_ONCE)
                for name, its in words.items()], Logs(folder / "logs", self.log)))
            for name in names:
                _watch(folder / name)
            wanted = [f"order-{number:05}" for number in range(orders)]
            failed: list[BaseException] = []
            due = threading.Semaphore(0)    # orders that may be given by now: some before each fault
            ordering = threading.Thread(target=self._order, daemon=True,
                                        args=(f"tcp/127.0.0.1:{port}", wanted, names, due, failed))
            ordering.start()
            faults = ["cut"] * cuts + ["kill"] * kills
            chance.shuffle(faults)
            done = {"cut": 0, "kill": 0}
            for number, fault in enumerate(faults):
                due.release(orders * (number + 1) // len(faults) - orders * number // len(faults) or 1)
                self._fault(fault, chance, links, processes, list(words))
                done[fault] += 1
                if (number + 1) % 20 == 0:
                    self.log(f"{done['cut']} cuts, {done['kill']} kills")
            due.release(orders)
            ordering.join()
            if failed:
                raise failed[0]
            self._until_all(folder, names, len(wanted))
            for name in names:
                compare(name, counted(folder / name), wanted)
        return {"robots": robots, "orders": orders, "each_once_and_in_order": robots * orders, "cuts": done["cut"],
                "kills": done["kill"], "seed": seed, "seconds": time.monotonic() - began}

    def _fault(self, fault: str, chance: random.Random, links: list[Relay], processes: Processes, names: list[str]
               ) -> None:
        time.sleep(chance.uniform(0.1, 1.5))
        if fault == "kill":
            victim = chance.choice(names)
            while not processes.kill(victim):   # it was killed just now, and is not there again
                time.sleep(0.05)
            return
        link = chance.choice(links)
        link.cut(stay=True)
        time.sleep(chance.uniform(0.0, 0.5))
        link.mend()

    def _order(self, endpoint: str, wanted: list[str], names: list[str], due: threading.Semaphore,
               failed: list[BaseException]) -> None:
        """Orders all as they are due, some at a time, each until the cloud says that it has it."""
        last, first = time.monotonic(), 0
        while first < len(wanted):
            due.acquire()
            after = first + 1
            while after < min(len(wanted), first + TOGETHER) and due.acquire(blocking=False):
                after += 1
            some = [Resource("Parameters", name, tuple(names), {"region": "gauge", "values": {"gain": 0.5}}).to_dict()
                    for name in wanted[first:after]]
            first = after
            while True:
                try:
                    with Asking(endpoint, None) as ask:
                        ask("apply", resources=some)
                    last = time.monotonic()
                    break
                except NoCloud as problem:      # it was killed, or is full until robots have taken something in
                    if time.monotonic() - last > GIVE_UP:
                        failed.append(OrdersProblem(f"the cloud takes no order: {problem}"))
                        return
                    time.sleep(0.2)

    def _until_all(self, folder: Path, names: list[str], count: int) -> None:
        seen, last = -1, time.monotonic()
        while (have := sum(len(counted(folder / name)) for name in names)) < count * len(names):
            if have > seen:
                seen, last = have, time.monotonic()
            if time.monotonic() - last > GIVE_UP:
                raise OrdersProblem(f"{have} of {count * len(names)} orders have come, and nothing moves")
            time.sleep(0.5)

# SPDX-License-Identifier: Apache-2.0
"""Experiments of ``brain bench backends``: the same small brain on ZenohHost and as a static group of TorchHost.

Each experiment is one of the reasons for which the brain moved from ``torch.distributed`` to Zenoh, as something that
could come out otherwise. Hosts are measured by turns.
"""
from __future__ import annotations

import os
import signal
import statistics
import time
from pathlib import Path
from typing import Annotated, Any, Callable, Iterator, Mapping, Sequence

import typer

from brain_eval.bench.experiment import Experiment, alone
from brain_eval.bench.rows import Table, rows
from brain_eval import saved
from brain_runtime.command.options import fail
from brain_runtime.run.loop import ONE_THREAD
from experiments import (backend_complexity, backend_data, backend_ecosystem, backend_pairs, backend_scale,
                         backend_trips)
from experiments.processes import beside
from experiments.toy_brain import TOYS, ToyBrain, toys

HOSTS = ("zenoh", "torch")
DELAYS = (0.0, 0.005, 0.05, 0.5)        # s that a step of the relay takes
JOINED = "experiments.backend_regions:Aside"
ON_TOYS = ("model", "topology", "faults", "joining")       # of one toy brain on each host
PARTS = (*ON_TOYS, "performance", "scale", "data", "ecosystem", "complexity", "pairs")
PAIRS = 20
Tell = Callable[[str], None]


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


def hurt(brain: ToyBrain, times: int, tell: Tell, whom: Mapping[signal.Signals, Sequence[str]] = {}
         ) -> list[dict[str, Any]]:
    """For each region and signal: s until all are active again (``back`` in the median), and who stood still meanwhile.

    ``still`` is the longest time (s) in which a region made no step. Each region is hurt so many ``times``; or those
    that ``whom`` names for a signal.
    """
    found = []
    for number in (signal.SIGKILL, signal.SIGSTOP):
        for name in whom.get(number, brain.names):
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
        brain.supervised.stop()
        with toys("torch", stop, {**TOYS, "newcomer": JOINED}) as larger:
            took = time.monotonic() - begin
            restarted = [name for name in before if larger.pid(name) != before[name]]
    else:
        endpoint = brain.node.session.endpoint
        with beside("-m", "brain_runtime.process", "--class", JOINED, "--name", "newcomer", "--router", endpoint,
                    environment={**ONE_THREAD, "ROS_DOMAIN_ID": str(brain.node.domain)}):
            brain.wait(lambda: (beat := brain.beat("newcomer")) is not None and beat.step > 0, "the newcomer")
            took = time.monotonic() - begin
            restarted = [name for name in before if brain.pid(name) != before[name]]
    tell(f"{brain.host}: one region more after {took:.1f} s; started again: {', '.join(restarted) or 'none'}")
    return {"host": brain.host, "took": took, "restarted": restarted, "again": len(restarted)}


# -- all of them -----------------------------------------------------------------------------------------------------


def _wanted(only: str) -> list[str]:
    wanted = [name for name in only.split(",") if name] or list(PARTS)
    odd = sorted(set(wanted) - set(PARTS))
    if odd:
        fail(f"--only {','.join(odd)}: there is no such experiment; there are {', '.join(PARTS)}", 2)
    return wanted


def _toys(wanted: list[str], quick: bool, stop: Any, told: Tell) -> dict[str, Any]:
    """The experiments on the toy brain, on one host after the other."""
    found: dict[str, Any] = {name: [] for name in wanted}
    whom = dict.fromkeys((signal.SIGKILL, signal.SIGSTOP), ("relay",)) if quick else {}  # a group takes seconds each
    for host in HOSTS:
        with toys(host, stop) as brain:
            told(f"{host}: whole after {brain.took:.1f} s")
            if "topology" in wanted:
                found["topology"].append({"host": host, "processes": len(brain.names) + (host == "torch"),
                                          "took": brain.took, "descriptors": brain.descriptors()})
            if "model" in wanted:
                found["model"] += late(brain, 1.5 if quick else 5.0, told)
            if "faults" in wanted:
                found["faults"] += hurt(brain, 1, told, whom)
            if "joining" in wanted:     # the last: it ends the group
                found["joining"].append(joined(brain, stop, told))
    return found


def _others(quick: bool, pairs: int, seed: int, stop: Any, told: Tell) -> dict[str, Callable[[], Any]]:
    """Returns the functions that measure the other experiments, by name."""
    return {"performance": lambda: backend_trips.measure(quick, stop, told),
            "scale": lambda: backend_scale.compared((2, 8) if quick else (2, 4, 8, 16, 32, 64), 2.0 if quick else 3.0,
                                                    told),
            "data": lambda: backend_data.measure(1 if quick else 3, 100 if quick else 200, stop, told),
            "ecosystem": lambda: backend_ecosystem.measure(2.0, stop, told),
            "complexity": lambda: backend_complexity.measure(stop, told),
            "pairs": lambda: backend_pairs.compared(pairs, seed, told)}


class Backends(Experiment):
    """The same regions on Zenoh and as a static group of torch.distributed: one experiment for each difference.

    A source speaks at 50 Hz, a relay passes it on, a sink hears the relay and another region the source. The relay is
    late; each region is killed and frozen; one region joins; messages go there and back and one way, beside bare
    libraries, RosHost and dora, where these can be had. All of it on routers of its own. It says who is how fast and
    who stands still; which is better is for the reader to say. With --save, what was measured before and is not
    measured now stays.
    """

    picture = "backends.png"

    def measure(self, quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions and sizes, and no pairs: "
                                                          "some four minutes; all of it 25.")] = False,
                only: Annotated[str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(PARTS)}. Default: all.")
                                ] = "",
                pairs: Annotated[int | None, typer.Option(min=0, help="Pairs of episodes; as many as there is time "
                                                          f"for. Default: {PAIRS}, with --quick none.")] = None,
                seed: Annotated[int, typer.Option(min=0, help="Of the pairs.")] = 0) -> dict[str, Any]:
        """Takes the parts that are wanted, one after the other."""
        played = pairs if pairs is not None else 0 if quick else PAIRS
        wanted = [name for name in _wanted(only) if name != "pairs" or played]
        known = saved.known("backends")
        stop, _, _ = alone()
        found: dict[str, Any] = {}
        taken = {field: value for field, value in saved.provenance().items() if field in ("command", "date", "commit")}
        rows = []

        def timed(names: list[str], take: Callable[[], dict[str, Any]]) -> None:
            begin, load = time.monotonic(), os.getloadavg()[0]
            found.update(take())
            took = (time.monotonic() - begin) / len(names)
            rows.extend({"part": name, **taken, "took": took, "load": load} for name in names)

        on_toys = [name for name in ON_TOYS if name in wanted]
        if on_toys:
            timed(on_toys, lambda: _toys(on_toys, quick, stop, self.log))
        for name, take in _others(quick, played, seed, stop, self.log).items():
            if name in wanted:
                timed([name], lambda: {name: take()})
        before = [row for row in known.get("taken", ()) if row["part"] not in wanted and row["part"] in PARTS]
        return {"found": found, "known": {row["part"]: known[row["part"]] for row in before},
                "taken": sorted([*before, *rows], key=lambda row: PARTS.index(row["part"]))}

    def figures(self, found: dict[str, Any]) -> dict[str, Any]:
        return {**found["known"], **found["found"], "taken": found["taken"]}

    def rows(self, found: dict[str, Any]) -> Iterator[str | Table]:
        return rows(found["found"])

    def draw(self, path: Path, found: dict[str, Any]) -> None:
        from experiments.backend_picture import draw

        draw(path, {**found["known"], **found["found"]})

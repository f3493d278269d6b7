# SPDX-License-Identifier: Apache-2.0
"""``brain bench backends``: the verb. What it measures is in :mod:`brain_bench.bench_backends` and ``backend_*``."""
from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Annotated, Any, Callable, Iterator

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

TOYS = ("model", "topology", "faults", "joining")       # of one toy brain on each host
EXPERIMENTS = (*TOYS, "performance", "scale", "data", "ecosystem", "complexity", "pairs")
MOST = (16 << 20) - 1024        # bytes: a message of 16 MiB, with what a region's message has beside its content
SIZES = (64, 200, 12 << 10, 256 << 10, 1 << 20, 4 << 20, MOST)
PAIRS = 20


def backends(quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions and sizes, and no pairs: some four "
                                                 "minutes; all of it 25.")] = False,
             only: Annotated[str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(EXPERIMENTS)}. Default: all.")
                             ] = "",
             pairs: Annotated[int | None, typer.Option(min=0, help="Pairs of episodes; as many as there is time for. "
                                                       f"Default: {PAIRS}, with --quick none.")] = None,
             seed: Annotated[int, typer.Option(min=0, help="Of the pairs.")] = 0,
             pictures: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw what is measured, and what was "
                                                           "saved of the rest, into this folder.")] = None,
             as_json: Json = False) -> None:
    """The same regions on Zenoh and as a static group of torch.distributed: one experiment for each difference.

    A source speaks at 50 Hz, a relay passes it on, a sink hears the relay and another region the source. The relay is
    late; each region is killed and frozen; one region joins; messages go there and back and one way, beside bare
    libraries, RosHost and dora, where these can be had. All of it on routers of its own. It says who is how fast and
    who stands still; which is better is for the reader to say. With --save, what was measured before and is not
    measured now stays.
    """
    from brain_bench.backend_lines import lines
    from brain_bench.bench import alone
    from brain_bench.bench_scale import ScaleProblem
    from brain_bench.plotting import check
    from brain_runtime.command.saved import provenance
    from brain_runtime.command.terminal import Terminal
    from brain_runtime.supervised_brain import StartError
    from brain_runtime.graph import GraphError
    from brain_wire import NoRouter, SessionProblem

    played = pairs if pairs is not None else 0 if quick else PAIRS
    wanted = [name for name in _wanted(only) if name != "pairs" or played]
    check(pictures)
    stop, _, _ = alone()
    console = Terminal(stderr=True)
    found: dict[str, Any] = {}
    taken = {field: value for field, value in provenance().items() if field in ("command", "date", "commit")}
    spent: dict[str, float] = {}
    load: dict[str, float] = {}

    @contextlib.contextmanager
    def timed(*names: str) -> Iterator[None]:
        begin = time.monotonic()
        load.update(dict.fromkeys(names, os.getloadavg()[0]))
        yield
        for name in names:
            spent[name] = spent.get(name, 0.0) + (time.monotonic() - begin) / len(names)
    try:
        toys = [name for name in TOYS if name in wanted]
        if toys:
            with timed(*toys):
                found.update(_toys(toys, quick, stop, console.tell))
        for name, measure in _others(quick, played, seed, stop, console.tell).items():
            if name in wanted:
                with timed(name):
                    found[name] = measure()
    except (GraphError, StartError, NoRouter, SessionProblem, ScaleProblem, TimeoutError, OSError) as error:
        fail(str(error))
    if pictures is not None:
        from brain_bench import backend_picture

        backend_picture.draw(pictures / backend_picture.NAME, {**_known(), **found})
    if as_json:
        rows = [{"part": name, **taken, "took": spent[name], "load": load[name]} for name in wanted]
        known = _known()
        before = [row for row in known.get("taken", ()) if row["part"] not in wanted and row["part"] in EXPERIMENTS]
        kept = {row["part"]: known[row["part"]] for row in before}
        order = sorted([*before, *rows], key=lambda row: EXPERIMENTS.index(row["part"]))
        tell_json({**kept, **found, "taken": order})
    else:
        for line in lines(found):
            tell(line)


def _wanted(only: str) -> list[str]:
    wanted = [name for name in only.split(",") if name] or list(EXPERIMENTS)
    odd = sorted(set(wanted) - set(EXPERIMENTS))
    if odd:
        fail(f"--only {','.join(odd)}: there is no such experiment; there are {', '.join(EXPERIMENTS)}", 2)
    return wanted


def _known() -> dict[str, Any]:
    """Reads the figures that were saved before; empty where there are none."""
    from brain_runtime.command import saved

    path = Path(saved.FOLDER) / "backends.json"
    if not path.exists():
        return {}
    try:
        figures = saved.read(path.parent)["backends"]["figures"]
    except ValueError as error:
        fail(str(error))
    return figures if isinstance(figures, dict) else {}


def _toys(wanted: list[str], quick: bool, stop: Any, told: Callable[[str], None]) -> dict[str, Any]:
    """The experiments on the toy brain, on one host after the other."""
    from brain_bench import bench_backends
    from brain_bench.toy_brain import toys

    found: dict[str, Any] = {name: [] for name in wanted}
    whom = dict.fromkeys((signal.SIGKILL, signal.SIGSTOP), ("relay",)) if quick else {}  # a group takes seconds each
    for host in bench_backends.HOSTS:
        with toys(host, stop) as brain:
            told(f"{host}: whole after {brain.took:.1f} s")
            if "topology" in wanted:
                found["topology"].append({"host": host, "processes": len(brain.names) + (host == "torch"),
                                          "took": brain.took, "descriptors": brain.descriptors()})
            if "model" in wanted:
                found["model"] += bench_backends.late(brain, 1.5 if quick else 5.0, told)
            if "faults" in wanted:
                found["faults"] += bench_backends.hurt(brain, 1, told, whom)
            if "joining" in wanted:     # the last: it ends the group
                found["joining"].append(bench_backends.joined(brain, stop, told))
    return found


def _others(quick: bool, pairs: int, seed: int, stop: Any, told: Callable[[str], None]
            ) -> dict[str, Callable[[], Any]]:
    """Returns the functions that measure the other experiments, by name."""
    def performance() -> dict[str, Any]:
        from brain_bench import backend_trips
        from brain_bench.backend_sides import NAMES, Sides

        with Sides(stop, told) as sides:
            some = (200, 12 << 10, 1 << 20)
            trips = backend_trips.round_trips(sides.trips, some if quick else SIZES, (200,) if quick else some,
                                              1 if quick else 3, 100 if quick else 500, sides.left_out, told)
            over = backend_trips.over_bare(sides.trips, 12 if quick else 40, sides.left_out, told)
            slowest = backend_trips.slowest(sides.trips, 3 if quick else 8, sides.left_out, told)
            one_way = backend_trips.one_way(
                sides.flows, (200, 1 << 20) if quick else (200, 12 << 10, 1 << 20, MOST), 1 if quick else 2,
                0.3 if quick else 0.5, sides.left_out, told)
            return {"trips": backend_trips.complete(trips, NAMES, backend_trips.quantiles([])), "over_bare": over,
                    "slowest": slowest,
                    "one_way": backend_trips.complete(one_way, NAMES, dict.fromkeys(("rate", "mb", "seen"))),
                    "about": sides.about,
                    "left_out": [{"side": side, "why": why} for side, why in sides.left_out.items()]}

    def scale() -> list[dict[str, Any]]:
        from brain_bench.backend_scale import compared

        return compared((2, 8) if quick else (2, 4, 8, 16, 32, 64), 2.0 if quick else 3.0, told)

    def data() -> list[dict[str, Any]]:
        from brain_bench import backend_data

        return backend_data.measure(1 if quick else 3, 100 if quick else 200, stop, told)

    def ecosystem() -> dict[str, Any]:
        from brain_bench import backend_ecosystem

        return backend_ecosystem.measure(2.0, stop, told)

    def complexity() -> list[dict[str, Any]]:
        from brain_bench import backend_complexity

        try:
            return backend_complexity.measure(stop, told)
        except backend_complexity.NotRun as error:
            fail(str(error))

    def paired() -> dict[str, Any]:
        from brain_bench.backend_pairs import compared

        return compared(pairs, seed, told)
    return {"performance": performance, "scale": scale, "data": data, "ecosystem": ecosystem,
            "complexity": complexity, "pairs": paired}

# SPDX-License-Identifier: Apache-2.0
"""``brain bench backends``: the verb. What it measures is in :mod:`brain_bench.bench_backends`."""
from __future__ import annotations

from typing import Annotated, Any

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

EXPERIMENTS = ("model", "topology", "faults", "joining", "performance")
SIZES = (64, 200, 12 << 10, 256 << 10)
LARGE = (1 << 20, 4 << 20)


def backends(quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions and sizes: some three minutes.")
                              ] = False,
             only: Annotated[str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(EXPERIMENTS)}. Default: all.")
                             ] = "", as_json: Json = False) -> None:
    """The same small brain on Zenoh and as a static group of torch.distributed: one experiment for each difference.

    A source speaks at 50 Hz, a relay passes it on, a sink hears the relay and another region the source. The relay is
    late; each region is killed and frozen; one region joins; messages go there and back. All of it on routers of its
    own. It says who is how fast and who stands still; which is better is for the reader to say.
    """
    from brain_bench import bench_backends
    from brain_bench.bench import alone
    from brain_runtime.command.terminal import Terminal
    from brain_runtime.crew import CrewError
    from brain_runtime.graph import GraphError
    from brain_wire import NoRouter, SessionProblem

    wanted = _wanted(only)
    stop, _, _ = alone()
    console = Terminal(stderr=True)
    found: dict[str, Any] = {name: [] for name in wanted if name != "performance"}
    try:
        for host in bench_backends.HOSTS:
            if found:
                with bench_backends.toys(host, stop) as brain:
                    console.tell(f"{host}: whole after {brain.took:.1f} s")
                    if "topology" in found:
                        found["topology"].append(
                            {"host": host, "processes": len(brain.names) + (host == "torch"), "took": brain.took,
                             "descriptors": brain.descriptors()})
                    if "model" in found:
                        found["model"] += bench_backends.late(brain, 3.0 if quick else 10.0, console.tell)
                    if "faults" in found:
                        found["faults"] += bench_backends.hurt(brain, 1 if quick else 3, console.tell)
                    if "joining" in found:      # the last: it ends the group
                        found["joining"].append(bench_backends.joined(brain, stop, console.tell))
        if "performance" in wanted:
            sizes = SIZES if quick else (*SIZES, *LARGE)
            found["performance"] = bench_backends.round_trips(sizes, 2 if quick else 6, 100 if quick else 200, stop,
                                                              console.tell)
    except (GraphError, CrewError, NoRouter, SessionProblem, TimeoutError, OSError) as error:
        fail(str(error))
    if as_json:
        tell_json(found)
    else:
        _show(found)


def _wanted(only: str) -> list[str]:
    wanted = [name for name in only.split(",") if name] or list(EXPERIMENTS)
    odd = sorted(set(wanted) - set(EXPERIMENTS))
    if odd:
        fail(f"--only {','.join(odd)}: there is no such experiment; there are {', '.join(EXPERIMENTS)}", 2)
    return wanted


def _show(found: dict[str, Any]) -> None:
    """What was found, in lines."""
    for row in found.get("topology", ()):
        open_ones = ", ".join(f"{name} {count['open']} ({count['sockets']} sockets)"
                              for name, count in row["descriptors"].items())
        tell(f"{row['host']}: {row['processes']} processes, whole after {row['took']:.1f} s; open descriptors: "
             f"{open_ones}")
    for row in found.get("model", ()):
        rates = ", ".join(f"{name} {rate:.1f}" for name, rate in row["rates"].items())
        ages = ", ".join(f"{name} {1e3 * age['p50']:.1f} / {1e3 * age['p99']:.1f} ms"
                         for name, age in row["ages"].items() if age["n"])
        tell(f"{row['host']}, relay {1e3 * row['delay']:g} ms late: steps/s {rates}; age p50 / p99: {ages}")
    for row in found.get("faults", ()):
        still = ", ".join(f"{name} {longest:.1f} s" for name, longest in row["still"].items())
        tell(f"{row['host']}, {row['region']} gets {row['signal']}: whole again after {row['back']:.1f} s "
             f"({row['least']:.1f} to {row['most']:.1f}); stood still at most: {still}")
    for row in found.get("joining", ()):
        tell(f"{row['host']}, one region more: at work after {row['took']:.1f} s; started again: "
             f"{', '.join(row['restarted']) or 'none'}")
    for row in found.get("performance", ()):
        sides = ", ".join(f"{name} {1e6 * taken['p50']:.0f} / {1e6 * taken['p99']:.0f} us"
                          for name, taken in row.items() if isinstance(taken, dict) and taken["n"])
        tell(f"{row['size']} B there and back{', both cores busy' if row['busy'] else ''}, p50 / p99: {sides}")

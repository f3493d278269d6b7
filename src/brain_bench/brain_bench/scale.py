# SPDX-License-Identifier: Apache-2.0
"""``brain bench scale``: the verb. What it measures is in :mod:`brain_bench.bench_scale`, the rest in the model."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

LARGE = (1_000, 10_000)         # nodes that are simulated
LINES = ("memory", "descriptors", "tokens", "newcomer")
WITHIN = {                      # how far the simulation may be off what linked routers show, as a factor either way
    "p50 within a router": 2.0, "p50 across a link": 2.0, "memory of a router": 1.3, "descriptors of a router": 1.3,
    "core of a router": 2.0, "p99 within a router": 3.0, "p99 across a link": 3.0}


def scale(processes: Annotated[str, typer.Option(metavar="N,N,...", help="Numbers of nodes at one router.")] = "2,4,8",
          seconds: Annotated[float, typer.Option(min=1, max=50, help="How long they publish at 10 Hz.")] = 20.0,
          linked: Annotated[bool, typer.Option("--linked", help="Measure 60 nodes at 3 linked routers instead.")
                            ] = False,
          nodes: Annotated[int, typer.Option(min=12, help="Of --linked.")] = 60,
          simulate: Annotated[bool, typer.Option("--simulate", help="Measure nothing: simulate 1,000 and 10,000 nodes "
                                                 "from results/scale.json, and check it against --linked.")] = False,
          seed: Annotated[int, typer.Option(min=0, help="Of --simulate.")] = 0, as_json: Json = False) -> None:
    """Measures what grows with the number of nodes, at routers of its own; and simulates from that.

    Each node is a light process with one publisher and one subscription. With --save, what was measured before stays:
    each call replaces its own part. Exit status 0 when nothing was lost and the 99th percentile is at most 10 ms (the
    share of time waiting for a core is told beside it); with --simulate, when it is as near to --linked as it should.
    """
    known = _known()
    if simulate:
        part = {"simulation": _simulated(known, seed)}
        good = all(one["within"] for one in part["simulation"]["check"])
    else:
        from brain_bench.bench_scale import fine

        found = _measured([nodes] if linked else _sizes(processes), seconds, linked)
        good = all(map(fine, found))
        if linked:
            part = {"linked": found[0]}
        else:
            sizes = {one["processes"]: one for one in [*known.get("sizes", ()), *found]}
            part = {"sizes": [sizes[count] for count in sorted(sizes)]}
    if as_json:
        tell_json({**known, **part})
    else:
        _show(part)
    raise typer.Exit(0 if good else 1)


def _known() -> dict[str, Any]:
    from brain_runtime.command import saved

    path = Path(saved.FOLDER) / "scale.json"
    if not path.exists():
        return {}
    try:
        figures = saved.read(path.parent)["scale"]["figures"]
        if not isinstance(figures, dict):
            raise ValueError(f"{path} has no figures")
    except ValueError as error:
        fail(str(error))
    return figures


def _sizes(text: str) -> list[int]:
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        fail(f"--processes {text}: give whole numbers with commas between, as 2,4,8", 2)
    if not all(2 <= count <= 512 for count in found):
        fail(f"--processes {text}: each from 2 to 512", 2)
    return found


def _measured(counts: list[int], seconds: float, linked: bool) -> list[dict[str, Any]]:
    import signal
    import sys

    from brain_bench.bench_scale import ROUTERS, ScaleProblem, measure
    from brain_runtime.command.options import use_domain, use_no_security
    from brain_runtime.command.terminal import Terminal
    from brain_wire import NoRouter, SessionProblem
    from brain_wire.router import free_port

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))    # so that all ends that was started
    use_no_security()
    domain = use_domain(free_port() % 200)
    from brain_runtime.command.saved import provenance

    taken = {field: value for field, value in provenance().items() if field in ("command", "date", "commit")}
    found = []
    try:
        with Terminal(stderr=True).status("starting") as shown:
            for count in counts:
                endpoints = [f"tcp/127.0.0.1:{free_port()}" for _ in range(ROUTERS if linked else 1)]
                found.append({**measure(count, seconds, domain, endpoints, shown.update), "taken": taken})
    except (ScaleProblem, NoRouter, SessionProblem, OSError) as error:
        fail(str(error))
    return found


def _simulated(known: dict[str, Any], seed: int) -> dict[str, Any]:
    from brain_bench import scale_model
    from brain_bench.bench_scale import RATE

    if not known.get("sizes") or not known.get("linked"):
        fail("nothing is measured yet that could be simulated from: first `brain bench scale --processes 2,4,8 --save` "
             "and `brain bench scale --linked --save`, here", 2)
    try:
        measured = scale_model.fit(known["sizes"])
        check = scale_model.predict_linked(measured, known["linked"], seed)
    except (scale_model.ModelProblem, KeyError, TypeError) as error:
        fail(f"results/scale.json: {error}", 2)
    for one in check:
        ratio, bound = one["ratio"], WITHIN[one["what"]]
        one.update(bound=bound, within=ratio is not None and 1 / bound <= ratio <= bound)
    return {"seed": seed, "service": measured.service, "sent": measured.sent, "per_host": scale_model.PER_HOST,
            "hosts": scale_model.HOSTS, "shares": scale_model.SHARES, "check": check,
            "sizes": [scale_model.simulate(measured, count, RATE, seed) for count in LARGE],
            "lines": {name: getattr(measured, name)._asdict() for name in LINES},
            "million": scale_model.million(measured, RATE, seed)}


def _show(part: dict[str, Any]) -> None:
    for one in [*part.get("sizes", ()), *([part["linked"]] if "linked" in part else ())]:
        router = one["router"][0]
        tell(f"{one['processes']} nodes, {one['routers']} router(s): {one['lost']} of {one['sent']} lost; p50 "
             f"{1e3 * one['p50']:.2f} ms, p99 {1e3 * one['p99']:.2f} ms; nodes waited for a core in "
             f"{one['waiting']:.0%} of the time they wanted one; router {router['rss'] / 1e6:.1f} MB, "
             f"{router['descriptors']} descriptors, {router['cpu']:.1%} of a core; {one['tokens']} tokens, known after "
             f"{1e3 * one['newcomer']:.0f} ms; {one['load']['busy']:.1f} of {one['load']['cores']} cores busy, "
             f"{one['load']['ours']:.1f} of them with this")
    if "linked" in part:
        for where in ("within", "across"):
            tell(f"  {where}: p50 {1e3 * part['linked'][where]['p50']:.2f} ms, p99 "
                 f"{1e3 * part['linked'][where]['p99']:.2f} ms")
    if "simulation" in part:
        for one in part["simulation"]["check"]:
            tell(f"{one['what']}: simulated {one['simulated']:.4g}, measured {one['measured']:.4g}"
                 + ("" if one["within"] else f": more than {one['bound']:g} times apart"))
        for one in part["simulation"]["sizes"]:
            tell(f"{one['nodes']} nodes simulated: p50 {1e3 * one['all']['p50']:.2f} ms, p99 "
                 f"{1e3 * one['all']['p99']:.2f} ms; " + "; ".join(
                     f"{tier['tier']} {1e3 * tier['p50']:.2f} / {1e3 * tier['p99']:.2f} ms" for tier in one["tiers"]))

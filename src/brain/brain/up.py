# SPDX-License-Identifier: Apache-2.0
"""``brain up``: runs a brain until Ctrl-C, and starts again what dies."""
from __future__ import annotations

import json
import os
import shlex
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.graph import rooms
from brain_runtime.supervision import runs
from brain_runtime.graph.rooms import Split
from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, check_folder, fail, tell, tell_json,
                                           use_domain, use_security)
from brain_runtime.graph.rooms import SPLIT
from brain_runtime.share import state_home

INTERRUPTED = 130   # exit status after Ctrl-C before anything was started
PATIENCE = 60.0     # s until somebody is told that the brain is still not whole
SHOWN = 1.0         # s in which a simulated world has told what stands in it
CANNOT = ("the regions are a static group: none joins, leaves or is started again alone, and the first that is lost "
          "takes all others down. While one is late all wait, the brainstem too: then only the base's own command "
          "timeout stops the robot")
COLORS = {"started": "dim", "ended": "yellow", "unhealthy": "yellow", "given up": "red", "stopped": "dim"}


class Host(str, Enum):
    """Host of the regions."""

    zenoh = "zenoh"
    torch = "torch"


def default_state_dir(run: Path, world: str, domain: int, namespace: str) -> Path:
    """Folder of snapshots and of the emergency stop's record.

    A simulated robot starts anew in each run, so its brain does too; a real one finds what it knew, and stays
    stopped if it was.
    """
    if world != "none":
        return run / "state"
    return state_home() / "state" / "_".join([f"domain{domain}", *filter(None, namespace.split("/"))])


def up(graph: Annotated[str, typer.Argument(help="Graph: a name or a path.")] = "brain",
       world: Annotated[str, typer.Option(help="Simulated world of the graph: its name, or sim for the first; none: a "
                                          "real robot.")] = "sim",
       robot: Annotated[str | None, typer.Option(help="The robot's profile: a name, such as turtlebot3_burger, or a "
                                                 "path. Default: sim, in a simulated world; a real robot must be "
                                                 "named.")] = None,
       split: Annotated[Split | None, typer.Option(help=f"Rooms of the world. Default: {SPLIT}.")] = None,
       seed: Annotated[int | None, typer.Option(min=0, help="Seed of the room and of all random streams. Default, with "
                                                "that of --split: the demo's room.")] = None,
       params_file: Annotated[list[Path] | None, typer.Option(help="ROS parameter file, over the robot's profile.")
                              ] = None,
       host: Annotated[Host, typer.Option(help="What runs the regions: zenoh, each by itself; torch, all as ranks of "
                                               "one static group, for comparison.")] = Host.zenoh,
       tick: Annotated[float | None, typer.Option(min=1.0, max=200.0, metavar="HZ", help="With --host torch: rate at "
                                                  "which all regions go on together. Default: whenever there is "
                                                  "something to do.")] = None,
       one_process: Annotated[bool, typer.Option("--one-process", help="Run all regions but the brainstem in one "
                                                 "process, for a small computer: less memory, and a crash of one is "
                                                 "that of all.")] = False,
       external: Annotated[str, typer.Option(metavar="NAMES", help="Regions that others run, as vision,place: waited "
                           "for, but not started.")] = "",
       run_dir: Annotated[Path | None, typer.Option(help="Folder for logs. Default: below ~/.local/state/brain.")
                          ] = None,
       state_dir: Annotated[Path | None, typer.Option(help="Folder for snapshots. Default: with --world none one that "
                                                           "is kept, else one for this run.")] = None,
       listen: Annotated[list[str] | None, typer.Option(metavar="ENDPOINT", help="Open the router to a network, as "
                         "tcp/0.0.0.0:7447. Default: this machine only.")] = None,
       with_parent: Annotated[bool, typer.Option("--with-parent", help="End as soon as the process that started this "
                                                 "has ended, however that did: for scripts and tests.")] = False,
       dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and start nothing.")] = False,
       as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
       namespace: Namespace = "") -> None:
    """Runs a brain until Ctrl-C and starts again what dies.

    Starts a Zenoh router on this machine, unless one is there already. By default it opens the demo's room. With --json
    standard output gets one object, as soon as the robot is under control or that took too long; with --dry-run what
    would run, each region with its class, topics and parameters.
    """
    number = use_domain(domain)
    use_security(secure)
    from brain_runtime.graph import secured
    from brain_runtime.command.terminal import Terminal
    from brain_runtime.supervision.supervised_brain import (SupervisedBrain, StartError, group_child, refuse_twice,
                                                            region_children, router_child, router_endpoint)
    from brain_runtime.graph import NO_WORLD, GraphError
    from brain_runtime.graph.graphs import names_of
    from brain_runtime.graph.inspect_graph import inspect_graph
    from brain_runtime.graph.robots import RobotError
    from brain_runtime.run import keeper
    from brain_wire import NameProblem, NoRouter, SessionProblem
    from brain_wire.endings import on_ending
    from brain_wire.endpoints import malformed, open_to_a_network
    from brain_wire.session import LINKS_VARIABLE
    from brain_wire.wakeup import Flag

    console = Terminal(lasting=True, stderr=as_json)
    stop = Flag()
    on_ending(lambda *_: stop.set())
    if with_parent:
        keeper.end_with_keeper(keeper.mark(os.getppid()), stop.set)
    begin = time.monotonic()
    room = rooms.demo() if split is None and seed is None else {}
    split, seed = split or Split(rooms.SPLIT), rooms.SEED if seed is None else seed
    check_folder(run_dir or state_home() / "runs", "--run-dir")
    check_folder(state_dir, "--state-dir")
    for one in filter(malformed, listen or ()):
        fail(f"--listen {ascii(one)} is no endpoint; write it as tcp/0.0.0.0:7447, or tls/... with --secure", 2)
    if tick is not None and host is not Host.torch:
        fail("--tick is for --host torch: on other hosts no region waits for another; leave one of the two out")
    if one_process and host is Host.torch:
        fail("--one-process is not for --host torch, where each region is a rank; leave one of the two out")
    with ExitStack() as claims:
        try:
            shown = {"split": split.value, "seed": seed, **({"request": json.dumps(room)} if room else {})}
            resolved = inspect_graph(graph, world, robot or "", external=names_of(external), namespace=namespace,
                                     files=params_file or (), room=None if world == NO_WORLD else shown,
                                     host=host.value)
            if dry_run:
                _tell_dry(resolved, as_json, one_process)
                return
            world = resolved.world
            secured.check(resolved, number)
            _wait_for_the_last(number, console, stop)
            endpoint = router_endpoint(router)
            own_router = router_child(endpoint, listen or ())
            if own_router is None:
                refuse_twice([region.name for region in resolved.started], endpoint, namespace, number)
            claim = runs.new_run(state_home() / "runs", runs.KEPT) if run_dir is None else runs.Claim(run_dir)
            claims.callback(claim.release)
            run = claim.folder
            state_dir = state_dir or default_state_dir(run, world, number, namespace)
            # As each region does below it: brains of several namespaces may keep their state side by side.
            kept = state_dir / namespace.strip("/").replace("/", "%")
            if kept.resolve() != run.resolve():
                claims.callback(runs.Claim(kept).release)
            how: dict[str, Any] = {"seed": seed, "folder": run, "state_dir": state_dir, "router": endpoint}
            together = resolved.grouped
            children = [*([own_router] if own_router else []),
                        *region_children(resolved, **how, one_process=one_process),
                        *([group_child(resolved, **how, tick=tick)] if together else [])]
            # peers elsewhere that come to an open router reach no peer here
            links = ({LINKS_VARIABLE: "router"} if any(map(open_to_a_network, listen or ()))
                     and not os.environ.get(LINKS_VARIABLE) else {})
            supervised = SupervisedBrain(children, run / "logs", endpoint, namespace, external=resolved.external,
                                         grouped=together, environment=links, on_event=lambda e: console.tell(
                                             f"{datetime.fromtimestamp(e.time):%H:%M:%S} {e.name} {e.kind}: {e.text}",
                                             style=COLORS.get(e.kind)))
        except (GraphError, RobotError, StartError, NoRouter, SessionProblem, NameProblem, OSError) as error:
            if stop.is_set():   # what it waited for has had the same Ctrl-C
                raise typer.Exit(INTERRUPTED) from None
            fail(str(error))
        warnings = [*resolved.warnings, *([CANNOT] if together else []), *(
            f"the router is open to a network at {e} and not secured: whoever reaches it can command this brain; see "
            f"`brain keys --help`" for e in listen or () if open_to_a_network(e))]
        for warning in warnings:
            console.tell(f"warning: {warning}", style="yellow")
        console.tell(f"brain {resolved.name}, robot {resolved.robot or 'none'}, world {world}, domain {number}, router "
                     f"{endpoint}{'' if own_router else ' (was there)'}; logs in {run / 'logs'}")
        told = {"brain": resolved.name, "robot": resolved.robot, "world": world, "domain": number,
                "namespace": namespace or "/", "router": endpoint, "run_dir": str(run.absolute()),
                "state_dir": str(state_dir.absolute()), "regions": [region.node for region in resolved.started],
                "warnings": warnings}
        try:
            supervised.start(stop=stop)
            spoken = (_spoken(world != NO_WORLD, endpoint, secure, number, namespace) if resolved.hears_sentences
                      else None)
            _attend(supervised, console, begin, spoken, stop, told if as_json else None)
        except (NoRouter, NameProblem, StartError) as error:
            if not stop.is_set():
                fail(str(error))
        finally:
            supervised.stop()


def _wait_for_the_last(domain: int, console: Any, stop: Any) -> None:
    """Waits for a brain of this domain whose `brain up` was killed: it ends by itself, but not at once."""
    from brain_runtime.run import keeper

    told = False

    def wait(seconds: float) -> bool:
        nonlocal told
        if not told:
            console.tell("waiting for a brain whose `brain up` was killed: it is ending", style="yellow")
        told = True
        return stop.wait(seconds)

    left = keeper.wait_for_the_last(domain, wait)
    if left and not stop.is_set():
        fail(f"processes of a brain whose `brain up` was killed do not end: {', '.join(map(str, left))}; end them with "
             f"`kill -9`, or choose another --domain")


def _tell_dry(resolved: Any, as_json: bool, one_process: bool) -> None:
    """Says what would run."""
    from brain_runtime.graph.dry_run import lines

    if as_json:
        tell_json(json.loads(resolved.to_json()))
        return
    for warning in resolved.warnings:
        tell(f"warning: {warning}", "yellow", err=True)
    for line in lines(resolved, one_process=one_process):
        tell(line)


def _attend(supervised: Any, console: Any, begin: float, spoken: Spoken | None, stop: Any, told: dict | None
            ) -> None:
    """Waits for control, says what is true of it, and goes on until the end.

    Args:
        spoken: how to speak with the brain; None: it does not hear sentences.
        told: is completed and printed as JSON; None: it is not asked for.
    """
    def tell_control() -> str:
        """Says that it is under control, and how to speak with it; an example of what to say."""
        took = time.monotonic() - begin     # without what is waited for here
        words, hint = "", ""
        if spoken is not None:
            words = rooms.example(supervised, SHOWN, stop) if spoken.simulated else ""
            hint = (f" In another terminal: {spoken.command(words)}." if words else
                    f" In another terminal: {spoken.command('find the red ball')}, or what there is.")
        console.tell(f"{supervised.control()} after {took:.1f} s.{hint} Ctrl-C here ends the brain.", style="green")
        return words

    ready = supervised.wait_ready(PATIENCE, stop=stop)
    took = time.monotonic() - begin
    missing = [] if ready else supervised.missing()
    words = tell_control() if ready else ""
    if not ready and not stop.is_set():
        for line in missing:
            console.tell(f"still waiting: {line}", style="yellow")
    if told is not None:
        from brain_wire.observers import guarded

        told |= {"ready": ready, "under_control": ready and supervised.has_brainstem, "seconds": round(took, 2),
                 "example": words, "missing": missing}
        guarded(tell_json, "printing JSON")(told, None)
    while not stop.is_set():
        supervised.round()
        if not ready and supervised.ready():
            ready = True
            tell_control()
    console.tell("ending")


@dataclass(frozen=True)
class Spoken:
    """Way by which `brain say` reaches a brain.

    Attributes:
        simulated: a simulated world can tell what there is to ask for.
        options: of the command.
    """

    simulated: bool
    options: tuple[str, ...]

    def command(self, text: str) -> str:
        """The command line that says a sentence."""
        return " ".join(["brain say", *map(shlex.quote, self.options), f'"{text}"'])


def _spoken(simulated: bool, endpoint: str, secure: Path | None, domain: int, namespace: str) -> Spoken:
    """Builds the options by which another terminal, without this one's environment, reaches the brain."""
    from brain_wire.session import DEFAULT_ROUTER

    usual = DEFAULT_ROUTER if secure is None else DEFAULT_ROUTER.replace("tcp/", "tls/")
    return Spoken(simulated, (*(["--router", endpoint] if endpoint != usual else []),
                              *(["--secure", str(secure)] if secure else []),
                              *(["--domain", str(domain)] if domain else []),
                              *(["--namespace", namespace] if namespace.strip("/") else [])))

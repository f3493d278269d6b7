# SPDX-License-Identifier: Apache-2.0
"""``brain fleet demo``: a cloud and four robots that learn together while they drive; leaves a picture of it."""
from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_eval.bench.runner import check_drawing
from brain_runtime.command.options import Json, check_folder, fail, tell, tell_json

PICTURE, SUMMARY = "fleet.png", "fleet.json"


def demo(seed: Annotated[int, typer.Option(min=0, help="Of looks, rooms and goals.")] = 0,
         out: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Where the picture, the figures and "
                                                  "the logs go: a new or an empty folder. Default: one below runs/."
                                                  )] = None,
         as_json: Json = False) -> None:
    """Runs a cloud and four robots on this machine, each in rooms of its own light and things, for three minutes or so.

    They drive to what they are told to find, and improve their vision together in rounds. One robot's link is cut and
    comes back, one is killed and comes back. Exit status 0 where all rounds came about and both were back in time.
    """
    from brain_training.fleet_demo.script import Script

    run(Script(seed=seed), out, as_json)


def run(script: Any, out: Path | None, as_json: bool) -> None:
    """Plays a demo by a :class:`.script.Script`; ends the command with its status."""
    from brain_training.fleet_demo.picture import draw
    from brain_training.fleet_demo.play import DemoProblem, Play, complete, lines
    from brain_training.fleet_demo.robot_folder import put
    from brain_runtime.command.terminal import Terminal
    from brain_wire import safe_text
    from brain_wire.wakeup import Flag

    check_folder(Path("runs") if out is None else out, "--out")
    claim = _claim(out)
    check_drawing(claim.folder)
    stop = Flag()
    before = {number: signal.signal(number, lambda *_: stop.set())
              for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
              if signal.getsignal(number) not in (signal.SIG_IGN, None)}
    console = Terminal(lasting=True, stderr=as_json)
    played: Play | None = None
    why = ""
    try:
        live = console.is_terminal
        played = Play(script, claim.folder, (lambda line: None) if live else console.tell)
        with _watching(console, played, live) as show:
            played.run(stop, show)
    except (DemoProblem, OSError) as problem:
        why = str(problem)
    finally:
        try:
            found = None if played is None else played.summary()
        finally:
            if played is not None:
                played.close()
            claim.release()
            for number, handler in before.items():
                signal.signal(number, handler)
    if found is None or not found["versions"]:
        fail(why or ("ended before a round was done" if stop.is_set() else
                     f"no round was done within {script.limit_s:.0f} s; the logs are in {claim.folder}"),
             130 if stop.is_set() and not why else 1)
    try:
        put(claim.folder / SUMMARY, (safe_text.as_json(found, 1) + "\n").encode())
        draw(claim.folder / PICTURE, found)
    except OSError as problem:
        why = why or f"cannot write to {claim.folder}: {problem.strerror or problem}"
    if why:
        fail(why)
    if as_json:
        tell_json({"folder": str(claim.folder.absolute()), "picture": str((claim.folder / PICTURE).absolute()),
                   **found}, None)
    else:
        for line in lines(found):
            tell(line)
        tell(f"{claim.folder / PICTURE}; logs and figures are beside it")
    raise typer.Exit(130 if stop.is_set() else 0 if complete(found) else 1)


def _claim(out: Path | None) -> Any:
    from brain_runtime.supervision.runs import LOCK, Claim, new_run

    try:
        if out is None:
            return new_run(Path("runs"))
        claim = Claim(out)
    except OSError as problem:
        fail(str(problem))
    if any(path.name != LOCK for path in out.iterdir()):
        claim.release()
        fail(f"{out} is not empty; name a new folder with --out", 2)
    return claim


def _watching(console: Any, played: Any, live: bool) -> Any:
    """A context with what shows the table; where there is no terminal, nothing: lines are told as they come."""
    from contextlib import contextmanager

    @contextmanager
    def watching() -> Any:
        if not live:
            yield lambda: None
            return
        from rich.live import Live

        from brain_training.fleet_demo.table import live as table

        with Live(console=console, auto_refresh=False, screen=False) as safe_text:
            yield lambda: safe_text.update(table(played.head(), played.rows(), played.lines), refresh=True)

    return watching()

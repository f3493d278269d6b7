# SPDX-License-Identifier: Apache-2.0
"""``brain demo``: a robot in a room, a brain of separate processes, and two sentences; leaves pictures of it."""
from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.graph.rooms import Split
from brain_runtime.command.options import (Domain, Json, Router, Secure, check_folder, fail, tell_json, use_domain,
                                           use_security)
from brain_runtime.graph.rooms import SEED, SENTENCES, SPLIT
from brain_runtime.graph.rooms import demo as room

READY = 40.0        # s until all regions must be active
LEGS = 95.0         # s for both sentences
LEG = 60.0          # s for one of them
AGREE = 3.0         # s that the brain and the referee get to come to the same end
SETTLE = 1.0        # s that the senses get before the first word


def demo(seed: Annotated[int, typer.Option(min=0, help="Seed of the room.")] = SEED,
         split: Annotated[Split, typer.Option(help="Which rooms.")] = Split(SPLIT),
         graph: Annotated[str, typer.Option(help="Graph: a name or a path.")] = "brain",
         runs: Annotated[Path, typer.Option(help="Folder below which the run's folder is made.")] = Path("runs"),
         turn: Annotated[bool | None, typer.Option("--turn/--no-turn", help="Ask for sentences afterwards. Default: "
                                                                            "on a terminal.")] = None,
         as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None) -> None:
    """Starts a robot in a simulated room and a brain over Zenoh, and tells it twice what to find.

    Exit status 0 when both were reached. Leaves pictures, a summary and logs in runs/<time>/. On a terminal it then
    takes sentences, and a digit kills a region, so that you can see the robot stop and the region come back.
    """
    number = use_domain(domain)
    use_security(secure)
    check_folder(runs, "--runs")
    from brain_eval.shown_stage import ShownStage
    from brain_runtime.command.terminal import Terminal
    from brain_runtime.supervision.supervised_brain import StartError
    from brain_runtime.graph import GraphError
    from brain_runtime.supervision.runs import new_run
    from brain_wire import NameProblem, NoRouter, SessionProblem
    from brain_wire.wakeup import Flag

    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    stop = Flag()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: stop.set())
    try:
        claim = new_run(runs)
        folder = claim.folder
        stage = ShownStage(graph, folder, split=split.value, seed=seed, router=router, domain=number, stop=stop,
                           request=room(split.value, seed), console=Terminal(lasting=True, stderr=as_json))
    except (GraphError, StartError, SessionProblem, OSError) as error:
        fail(str(error))
    try:
        stage.start(READY)
        status, summary = _play(stage, folder, terminal and turn is not False or turn is True)
        if as_json:
            tell_json({"folder": str(folder.absolute()), "status": status, **summary}, None)
        raise typer.Exit(status)
    except (NoRouter, NameProblem, StartError) as error:
        fail("ended" if stop.is_set() else str(error), 130 if stop.is_set() else 1)
    finally:
        stage.close()
        claim.release()


def _play(stage: Any, folder: Path, turn: bool) -> tuple[int, dict[str, Any]]:
    """Plays both sentences; returns the exit status and the summary."""
    from brain_eval.draw import Leg, draw_all
    from brain_eval.results import environment
    from brain_wire import safe_text

    stage.settle(SETTLE)
    legs, outcomes, blames = [], [], []
    until = time.monotonic() + LEGS
    for text, gloss, kind in SENTENCES:
        stage.tell(f"says {text!r}" + ("" if text == gloss else f" ({gloss})"))
        outcome = stage.perform(text, min(LEG, until - time.monotonic()), AGREE)
        outcomes.append({"text": text, "gloss": gloss, "target": list(kind), **outcome})
        legs.append(Leg(text, gloss, outcome["begin"], outcome["end"],
                        "reached" if outcome["reached"] else "not reached"))
        if outcome["blame"]:
            blames.append(outcome["blame"])
        stage.tell(f"{'reached' if outcome['reached'] else 'NOT reached'} after {outcome['seconds']:.1f} s")
        if stage.stopped:
            break
    reached = len(outcomes) == len(SENTENCES) and all(o["reached"] for o in outcomes)
    summary = {"reached": reached, "sentences": outcomes, **stage.facts(), **environment()}
    targets = [o["object"] for o in outcomes if o["reached"]]
    drawing: list[str] = []
    recording = stage.recorder.freeze()
    pencil = threading.Thread(target=lambda: drawing.extend(draw_all(folder, recording, legs, targets)),
                              name="pencil")
    (folder / "summary.json").write_text(safe_text.as_json(summary, 1) + "\n", encoding="utf-8")
    stage.tell("drawing the pictures")
    pencil.start()
    if turn and not stage.stopped:
        stage.take_turns()
    stage.end()
    pencil.join()
    for problem in drawing:
        stage.tell(f"could not be drawn: {problem}")
    return _close(stage, folder, reached, outcomes, blames), summary


def _close(stage: Any, folder: Path, reached: bool, outcomes: list, blames: list) -> int:
    if reached:
        stage.tell("both reached: " + ", ".join(f"{o['gloss'].removeprefix('go to the ')} after {o['seconds']:.1f} s"
                                                for o in outcomes) + f"; pictures and logs in {folder}/")
        return 0
    if stage.stopped and not blames:
        stage.tell("ended before both were reached")
        return 130
    last = blames[0] if blames else f"not both were said; see {folder}/logs"
    stage.tell(f"failed: {last}")
    return 1

# SPDX-License-Identifier: Apache-2.0
"""A whole brain at work in the simulated room: how fast it is up and acts on what it sees, what memory it takes."""
from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Annotated, Any, Iterator

import typer

from brain_eval.bench.experiment import Experiment, Problem, alone, brain_problems
from brain_eval.bench.rows import Table
from brain_wire.temporary_folder import TemporaryFolder

UP = 15.0               # s from the start to a robot under control, at most
LATENCY = 0.100         # s from a picture to the first command that it had influence on, 95th percentile, at most
PSS_TORCH = 300.0       # MB of a region that uses torch, at most
PSS = 80.0              # MB of any other, at most
READY = 60.0            # s after which it counts as not coming up


class BrainError(Problem):
    """The brain does not come up; says why, and how the logs end."""


def measure(folder: Path, *, seconds: float, split: str, seed: int, endpoint: str, domain: int, console: Any,
            stop: threading.Event) -> dict[str, Any]:
    """Lets a brain look for one object of a room after the other, and takes its figures.

    Args:
        folder: for logs and state.
        seconds: how long it is at work.
        endpoint: of a router, which is started.

    Returns:
        ``ready_after`` (s), ``latency`` (``n``, ``p50`` and ``p95`` in s), ``pss_mb`` and ``torch`` (whether it is
        loaded) by process, ``pss_mb_without_torch`` (least and most), ``regions`` as `brain status` tells them,
        ``restarts``, and ``within``: which bounds are kept.

    Raises:
        GraphError, StartError, NoRouter: it does not come up.
    """
    from brain_eval.shown_stage import ShownStage
    from brain_runtime.interfaces import GoalStatus
    from brain_sim.room import generate_room

    stage = ShownStage("brain", folder, split=split, seed=seed, router=endpoint, domain=domain, stop=stop,
                       console=console, request={"split": split, "seed": seed})
    try:
        stage.start(READY)
        things = [f"find the {o.color} {o.shape}" for o in generate_room(split, seed).objects]
        until, spoken = time.monotonic() + seconds, 0
        ended, ended_in = True, (GoalStatus.STATE_REACHED, GoalStatus.STATE_WRONG, GoalStatus.STATE_NOT_FOUND)
        while time.monotonic() < until and not stop.is_set():
            if ended:
                stage.speaker.say(things[spoken % len(things)])
                spoken += 1
            ended = any(s.state in ended_in for s in stage.round())
        facts = stage.facts()
        torch = {name: _has_torch(stage.supervised.supervisor.pid(name)) for name in facts["pss_mb"]}
    finally:
        stage.close()
    others = [mb for name, mb in facts["pss_mb"].items() if mb is not None and not torch[name]]
    found = {"seconds": seconds, "sentences": spoken, "torch": torch,
             "pss_mb_without_torch": [min(others), max(others)] if others else None,
             **{k: facts[k] for k in ("room", "ready_after", "latency", "pss_mb", "regions", "restarts")}}
    return {**found, "within": within(found)}


def within(found: dict[str, Any]) -> dict[str, bool]:
    """Checks which bounds are kept; a figure that is missing keeps none."""
    p95, memory = found["latency"]["p95"], found["pss_mb"]
    return {"ready_after": found["ready_after"] <= UP, "latency": p95 is not None and p95 <= LATENCY,
            "pss": all(mb is not None and mb <= (PSS_TORCH if found["torch"][name] else PSS)
                       for name, mb in memory.items())}


def _has_torch(pid: int | None) -> bool:
    try:
        return "libtorch" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


class WholeBrain(Experiment):
    """A whole brain over Zenoh in the simulated room, everything on this machine: time to control, latency, memory.

    It has a router of its own. Exit status 0 when the robot was under control within 15 s, the latency from camera to
    cmd_vel is at most 100 ms (95th percentile), and no process has more memory (PSS) than 300 MB with torch, 80 MB
    without.
    """

    cpu = True
    quick = {"seconds": 5.0}

    def measure(self, seconds: Annotated[float, typer.Option(min=5, help="How long it is at work.")] = 60.0,
                seed: Annotated[int, typer.Option(min=0, help="Seed of the room.")] = 5) -> dict[str, Any]:
        """Has a brain at work; see :func:`measure`."""
        from brain_runtime.command.terminal import Terminal

        stop, endpoint, domain = alone()
        with TemporaryFolder("bench") as folder:
            try:
                return measure(Path(folder), seconds=seconds, split="val", seed=seed, domain=domain, stop=stop,
                               endpoint=endpoint, console=Terminal(stderr=True))
            except brain_problems() as error:
                logs = "; ".join(p.read_text(errors="replace").strip()[-200:] for p in Path(folder).glob("logs/*.log"))
                raise BrainError(f"{error}; the logs end: {logs}") from error

    def rows(self, found: dict[str, Any]) -> Iterator[Table]:
        latency = found["latency"]
        told = (f"p50 {1000 * latency['p50']:.0f} ms, p95 {1000 * latency['p95']:.0f} ms, {latency['n']} pictures"
                if latency["n"] else "not known")
        steps = {r["name"].rsplit("/", 1)[-1]: r for r in found["regions"]}

        def row(name: str, mb: float | None) -> tuple[str, ...]:
            r = steps.get(name, {})
            figures = (r.get("rate"), *(None if r.get(k) is None else 1000 * r[k] for k in ("step_p50", "step_p99")))
            return (name + (" (torch)" if found["torch"][name] else ""), "" if mb is None else f"{mb:.0f}",
                    *("" if v is None else f"{v:.1f}" for v in figures))

        yield Table(f"a brain at work for {found['seconds']:.0f} s",
                    ("process", "PSS, MB", "Hz", "step p50, ms", "p99"),
                    [row(name, mb) for name, mb in found["pss_mb"].items()],
                    caption=f"under control after {found['ready_after']:.1f} s; camera to cmd_vel: {told}")

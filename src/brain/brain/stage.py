# SPDX-License-Identifier: Apache-2.0
"""A brain with its world, watched, spoken to and recorded from one loop: what the demo plays on."""
from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from brain_runtime.command.terminal import Terminal
from rich.live import Live

from brain import say
from brain.blame import blame
from brain.record import Recorder
from brain.show import Ticker, View
from brain.up import refuse_twice
from brain_runtime import secured
from brain_runtime.constants import goal_state
from brain_runtime.crew import Crew, CrewError, region_children, router_child, router_endpoint
from brain_runtime.graph import SIM_WORLD
from brain_runtime.inspect_graph import inspect_graph
from brain_runtime.supervisor import Event
from brain_wire import messages
from brain_wire.observers import guarded
from brain_wire.qos import LATCHED

PICTURE = 0.25      # s between two pictures of the live view
LINE = 3.0          # s between two lines where there is no terminal


class Stage:
    """Starts the processes of a graph with the first of its worlds, and shows how they are.

    Args:
        graph: name or path.
        folder: of the run.
        split, seed: of the room.
        router: endpoint, or None.
        domain: ROS domain.
        stop: ends everything when set.
        request: for sim/episode.
        console: where lines for a person go; default: standard output.

    Raises:
        GraphError, CrewError, SessionProblem: it cannot be started.
    """

    def __init__(self, graph: str, folder: Path, *, split: str, seed: int, router: str | None, domain: int,
                 stop: threading.Event, request: dict[str, Any], console: Terminal | None = None) -> None:
        self.begin = time.monotonic()
        self._stop, self._folder, self._request, self._domain = stop, folder, request, domain
        self.console = console or Terminal(lasting=True)
        resolved = inspect_graph(graph, SIM_WORLD, None, room={"split": split, "seed": seed})
        secured.check(resolved, domain)
        endpoint = router_endpoint(router)
        own_router = router_child(endpoint)
        if own_router is None:
            refuse_twice([region.name for region in resolved.regions], endpoint, "", domain)
        children = region_children(resolved, seed=seed, state_dir=folder / "state", router=endpoint)
        self.regions = [c.name for c in children]
        self.events: list[Event] = []
        self.crew = Crew([*([own_router] if own_router else []), *children], folder / "logs", endpoint,
                         on_event=self._take_event)
        self.ready_after: float | None = None
        self._live: Live | None = None
        self._picture, self._line = Ticker(PICTURE), Ticker(LINE)
        self._closed = False
        self._show = guarded(self._show_now, "showing the brain")
        self.tell(f"starting {'a router and ' if own_router else ''}{len(children)} processes: "
                  f"{', '.join(self.regions)}; logs in {folder / 'logs'}")

    # -- telling ---------------------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        """Says a line for a person."""
        (self._live.console if self._live else self.console).tell(text)

    def _take_event(self, event: Event) -> None:
        self.events.append(event)
        if event.kind in ("ended", "unhealthy", "given up") or (event.kind == "started" and "restart" in event.text):
            self.tell(f"{event.child} {event.kind}: {event.text}")

    @property
    def stopped(self) -> bool:
        """Whether the end was asked for."""
        return self._stop.is_set()

    # -- running ---------------------------------------------------------------------------------------------------

    def start(self, patience: float) -> None:
        """Starts the processes and waits until the robot is under control.

        Raises:
            CrewError: that did not happen within ``patience`` s.
            NoRouter: there is none.
        """
        self.crew.start(stop=self._stop)
        node = self.crew.node
        self._episode = node.publisher("sim/episode", "std_msgs/msg/String", LATCHED)
        self._episode.publish(messages.make("std_msgs/msg/String", data=json.dumps(self._request, ensure_ascii=False)))
        self.recorder = Recorder(node)
        self.speaker = say.Speaker(node)
        self.view = View(self.crew.ear, self.recorder, self.crew.supervisor.nodes, self._domain, "")
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()
        until = time.monotonic() + patience
        while not (self.crew.ready() and self.recorder.request == self._request):
            if self._stop.is_set():
                raise CrewError("ended before it was ready")
            if time.monotonic() > until or self.crew.hopeless():
                world = self.recorder.report.get("error") or "it does not show the room that was asked for"
                raise CrewError(f"not ready after {time.monotonic() - self.begin:.0f} s: " + (
                    ". ".join(self.crew.missing()) or f"world: {world}; see {self.crew.supervisor.log_path('world')}"))
            self.round()
        self.ready_after = time.monotonic() - self.begin
        self.tell(f"{self.crew.control()} after {self.ready_after:.1f} s")

    def round(self) -> list:
        """Looks after everything once; returns the goal statuses that came."""
        self.crew.round()
        self.recorder.take()
        statuses = self.speaker.hear()
        if statuses:
            self.view.status = statuses[-1]
        if self._live is not None:
            if self._picture.due():
                self._show()
        elif self._line.due():
            self._show()
        return statuses

    def _show_now(self) -> None:
        if self._live is not None:
            self._live.update(self.view.render(), refresh=True)
        else:
            self.tell(self.view.line())

    def settle(self, seconds: float) -> None:
        """Goes on for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stop.is_set():
            self.round()

    def perform(self, text: str, limit: float, agree: float) -> dict[str, Any]:
        """Says a sentence and waits until the world's referee has judged it.

        Args:
            limit: s until it counts as not reached.
            agree: s that the brain and the referee get to come to the same end.
        """
        begin, events = self.recorder.now, len(self.events)
        verdicts = len(self.recorder.verdicts)
        before = None if self.view.status is None else self.view.status.goal_id
        self.speaker.say(text)
        done: float | None = None
        final: Any | None = None
        verdict: dict[str, Any] | None = None
        while self.recorder.now - begin < limit and not self._stop.is_set():
            for status in self.round():
                if status.text == say.clipped(text) and status.goal_id != before:
                    final = status
            verdict = verdict or next((v for v in self.recorder.verdicts[verdicts:] if v["sentence"] == text), None)
            ended = final is not None and final.state in (
                say.REACHED, say.WRONG, say.NOT_FOUND, say.NOT_UNDERSTOOD, say.STOPPED)
            if verdict is not None and (ended or not verdict["success"]):
                break
            if (ended or verdict is not None) and done is None:
                done = self.recorder.now
            if done is not None and self.recorder.now - done > agree:
                break
        end = self.recorder.now
        reached = bool(verdict and verdict["success"])
        found = None
        if not reached and not self._stop.is_set():
            found = str(blame(text, final, verdict, self.crew.ear.trace, self.events[events:],
                              self.crew.supervisor.log_path))
        return {"reached": reached, "seconds": round(verdict["time"] if reached else end - begin, 2),
                "begin": round(begin, 3), "end": round(end, 3), "verdict": verdict,
                "object": verdict["object"] if verdict else "",
                "goal_status": None if final is None else goal_state(final.state), "blame": found}

    def take_turns(self) -> None:
        """Takes sentences and kills regions, as the person at the terminal likes."""
        from brain.keyboard import Keyboard

        keys = {str(k): name for k, name in enumerate((r for r in self.regions if r != "world"), 1)}
        help_text = "kill with a digit: " + ", ".join(f"{k} {name}" for k, name in keys.items())
        with Keyboard() as keyboard:
            while not (self._stop.is_set() or keyboard.ended):
                for key in keyboard.poll():
                    if key in keys:
                        self.tell(f"killing {keys[key]}" if self.crew.supervisor.kill(keys[key])
                                  else f"{keys[key]} is not running")
                    elif key.strip():
                        self._say(key.strip())
                    elif key == "\n":
                        keyboard.ended = True
                self.view.note = f"{help_text}; empty line or Ctrl-D: end\nYour turn: {keyboard.line}_"
                self.round()
        self.view.note = ""

    def _say(self, text: str) -> None:
        try:
            self.speaker.say(say.checked(text))
            self.tell(f"says {text!r}")
        except ValueError as error:
            self.tell(str(error))

    # -- what is left ----------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Figures of the run so far, as plain JSON values."""
        found = self.view.report()
        moved = self.recorder.moved()
        started = self.recorder.begin - self.begin
        return {"ready_after": self.ready_after, "moved_after": None if moved is None else round(moved + started, 2),
                "room": {"split": self._request["split"], "seed": self._request["seed"]},
                "latency": found["latency"], "regions": found["regions"],
                "pss_mb": {name: pss(self.crew.supervisor.pid(name)) for name in self.crew.supervisor.names},
                "restarts": {name: self.crew.supervisor.restarts(name) for name in self.crew.supervisor.names},
                "events": [e.__dict__ for e in self.events if e.kind != "started"],
                "invariants": self.recorder.report.get("invariants")}

    def end(self) -> None:
        """Ends the live view and the processes."""
        if self._live is not None:
            self._show()
            self._live.stop()
            self._live = None
            guarded(lambda: self.console.print(self.view.render(color=False)), "showing the brain")()
        self.close()

    def close(self) -> None:
        """Ends the processes, whatever happened."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if not self._closed:
            self._closed = True
            self.crew.stop()
            sys.stdout.flush()


def pss(pid: int | None) -> float | None:
    """Proportional share of memory of a process (MB), or None where it is not known."""
    if pid is None:
        return None
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return round(int(line.split()[1]) / 1024, 1)
    except OSError:
        return None
    return None

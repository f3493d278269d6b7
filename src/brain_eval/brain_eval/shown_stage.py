# SPDX-License-Identifier: Apache-2.0
"""A stage that is shown: a live view and a record of what runs, sentences that are judged, and the person's turn."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.live import Live

from brain_eval.blame import blame
from brain_observe.record import Recorder
from brain_observe.show import Ticker, View
from brain_runtime.supervision import speaker
from brain_runtime.command.terminal import Terminal
from brain_runtime.contract.constants import goal_state
from brain_runtime.interfaces import GoalStatus
from brain_eval.stage import Stage
from brain_wire.observers import guarded

PICTURE = 0.25      # s between two pictures of the live view
LINE = 3.0          # s between two lines where there is no terminal
ENDED = (GoalStatus.STATE_REACHED, GoalStatus.STATE_WRONG, GoalStatus.STATE_NOT_FOUND, GoalStatus.STATE_NOT_UNDERSTOOD,
         GoalStatus.STATE_STOPPED)


class ShownStage(Stage):
    """A stage with a live view on a terminal, and lines elsewhere.

    Args:
        graph, folder, more: see :class:`brain_eval.stage.Stage`.
        console: where lines for a person go; default: standard output.
    """

    def __init__(self, graph: str, folder: Path, *, console: Terminal | None = None, **more: Any) -> None:
        self.console = console or Terminal(lasting=True)
        self._live: Live | None = None
        self._picture, self._line = Ticker(PICTURE), Ticker(LINE)
        self._show = guarded(self._show_now, "showing the brain")
        super().__init__(graph, folder, **more)

    # -- telling ---------------------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        """Says a line for a person."""
        (self._live.console if self._live else self.console).tell(text)

    # -- running ---------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """Records from now on, and shows it."""
        self.recorder = Recorder(self.supervised.node)
        self.view = View(self.supervised.ear, self.recorder, self.supervised.supervisor.nodes, self._domain, "")
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()

    def round(self) -> list:
        """Looks after everything once; returns the goal statuses that came."""
        statuses = super().round()
        self.recorder.take()
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
                if status.text == speaker.clipped(text) and status.goal_id != before:
                    final = status
            verdict = verdict or next((v for v in self.recorder.verdicts[verdicts:] if v["sentence"] == text), None)
            ended = final is not None and final.state in ENDED
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
            found = str(blame(text, final, verdict, self.supervised.ear.trace, self.events[events:],
                              self.supervised.supervisor.log_path))
        return {"reached": reached, "seconds": round(verdict["time"] if reached else end - begin, 2),
                "begin": round(begin, 3), "end": round(end, 3), "verdict": verdict,
                "object": verdict["object"] if verdict else "",
                "goal_status": None if final is None else goal_state(final.state), "blame": found}

    def take_turns(self) -> None:
        """Takes sentences and kills regions, as the person at the terminal likes."""
        from brain_eval.keyboard import Keyboard

        keys = {str(k): name for k, name in enumerate((r for r in self.regions if r != "world"), 1)}
        help_text = "kill with a digit: " + ", ".join(f"{k} {name}" for k, name in keys.items())
        with Keyboard() as keyboard:
            while not (self._stop.is_set() or keyboard.ended):
                for key in keyboard.poll():
                    if key in keys:
                        self.tell(f"killing {keys[key]}" if self.supervised.supervisor.kill(keys[key])
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
            self.speaker.say(speaker.checked(text))
            self.tell(f"says {text!r}")
        except ValueError as error:
            self.tell(str(error))

    # -- what is left ----------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Figures of the run so far, as plain JSON values."""
        found = self.view.report()
        moved = self.recorder.moved()
        started, supervisor = self.recorder.begin - self.begin, self.supervised.supervisor
        return {"ready_after": self.ready_after, "moved_after": None if moved is None else round(moved + started, 2),
                "room": {"split": self._request["split"], "seed": self._request["seed"]},
                "latency": found["latency"], "regions": found["regions"],
                "pss_mb": {name: pss(supervisor.pid(name)) for name in supervisor.names},
                "restarts": {name: supervisor.restarts(name) for name in supervisor.names},
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
        super().close()


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

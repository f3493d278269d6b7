# SPDX-License-Identifier: Apache-2.0
"""The live view of a run: a table of the regions, what the robot sees and wants, and its eye in the terminal."""
from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from brain_observe.record import Recorder
from brain_runtime.contract.constants import control_mode, goal_state
from brain_runtime.interfaces import Control
from brain_runtime.supervision.report import footer, report, table
from brain_runtime.contract.sights import place, thing
from brain_wire import safe_text

EYE_COLUMNS, EYE_ROWS = 32, 20  # characters wide; pixels high, two to a character


def seen(recorder: Recorder) -> str:
    """Describes what vision tells."""
    if recorder.objects is None:
        return "nothing told yet"
    found = [f"{thing(o.color, o.shape)} {place(o.bearing, o.distance)}" for o in recorder.objects.objects[:4]]
    return "; ".join(found) or "no object in view"


def wanted(recorder: Recorder, status: Any | None) -> str:
    """Describes what pfc wants, and how the goal stands."""
    text = ""
    if status is not None and status.text:
        text = f"\"{status.text}\": {goal_state(status.state)}" + (f" ({status.reason})" if status.reason else "")
    control = recorder.control
    if control is not None:
        mode = control_mode(control.mode)
        if control.mode == Control.MODE_APPROACH:
            mode += f" {thing(control.target_color, control.target_shape)}, {place(control.bearing, control.distance)}"
        elif control.mode == Control.MODE_SEARCH and math.isfinite(control.heading):
            mode += f" {place(control.heading, math.nan)}"
        text += (" - " if text else "") + mode
    return text or "nothing asked yet"


def eye(picture: np.ndarray | None) -> Text:
    """A picture [H, W, 3] in colored half blocks."""
    text = Text()
    if picture is None:
        return text
    rows = np.linspace(0, picture.shape[0] - 1, EYE_ROWS).round().astype(int)
    columns = np.linspace(0, picture.shape[1] - 1, EYE_COLUMNS).round().astype(int)
    small = picture[rows][:, columns]
    for top, bottom in zip(small[0::2], small[1::2], strict=True):
        for (r, g, b), (r2, g2, b2) in zip(top, bottom, strict=True):
            text.append("\u2580", style=f"rgb({r},{g},{b}) on rgb({r2},{g2},{b2})")
        text.append("\n")
    return text


class View:
    """Draws the live view.

    Args:
        ear: a :class:`brain_runtime.supervision.listen.Ear`.
        recorder: what is recorded.
        expected: full names of the regions.
        domain: of the brain.
    """

    def __init__(self, ear: Any, recorder: Recorder, expected: list[str], domain: int, namespace: str) -> None:
        self._ear, self._recorder = ear, recorder
        self._expected, self._domain, self._namespace = expected, domain, namespace
        self.status: Any | None = None
        self.note = ""

    def report(self) -> dict[str, Any]:
        """Reports the state of the brain, as ``brain status --json`` tells it."""
        return report(self._ear, self._expected, self._domain, self._namespace)

    def render(self, color: bool = True) -> Any:
        """Renders for Rich what to show now."""
        found = self.report()
        words = Table.grid(padding=(0, 1))
        words.add_row(Text("sees", style="bold"), Text(safe_text.line(seen(self._recorder))))
        words.add_row(Text("wants", style="bold"), Text(safe_text.line(wanted(self._recorder, self.status))))
        words.add_row(Text("does", style="bold"), Text(footer(found).split("\n")[0]))
        parts: list[Any] = []
        if self.note:   # on top: of a picture that is higher than the terminal the end is not shown
            parts.append(Text(safe_text.block(self.note), style="bold"))
        parts.append(table(found, live=True))
        if color and self._recorder.picture is not None:
            beside = Table.grid(padding=(0, 2))
            beside.add_row(eye(self._recorder.picture), words)
            parts.append(beside)
        else:
            parts.append(words)
        return Group(*parts)

    def line(self) -> str:
        """The same in one line, where there is no terminal."""
        found = self.report()
        states = [r["state"] for r in found["regions"]]
        latency = found["latency"]["p95"]
        spikes = sum(r["spikes_per_second"] or 0 for r in found["regions"])
        return (f"{self._recorder.now:5.1f} s  {states.count('active')} of {len(self._expected)} regions active, "
                f"{spikes / 1000:.0f} k spikes/s" + (f", {1000 * latency:.0f} ms p95" if latency else "")
                + f" | sees {seen(self._recorder)} | wants {wanted(self._recorder, self.status)}")


class Ticker:
    """Says when the next picture is due."""

    def __init__(self, period: float) -> None:
        self._period, self._next = period, 0.0

    def due(self) -> bool:
        """True once a period."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._period
        return True

# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of a run that failed: which part did, why, and where that is written."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence

from brain_runtime.supervision import speaker
from brain_runtime.contract.constants import goal_state
from brain_runtime.interfaces import GoalStatus, Trace
from brain_runtime.run.workload import Event

TROUBLE = ("ended", "unhealthy", "given up")
HELD = Trace.ACTION_STALE, Trace.ACTION_ESTOP, Trace.ACTION_REFUSED    # the robot may not move


@dataclass(frozen=True)
class Blame:
    """A part, why it, and its log file."""

    part: str
    why: str
    log: str

    def __str__(self) -> str:
        return f"{self.part}: {self.why}; see {self.log}"


def blame(text: str, status: Any | None, verdict: dict[str, Any] | None, trace: Any | None, events: Sequence[Event],
          log: Callable[[str], Any]) -> Blame:
    """Finds the part to blame for a sentence that was not done.

    Args:
        text: the sentence.
        status: newest goal status, or None.
        verdict: the world's, or None.
        trace: newest trace of the brainstem, or None.
        events: of the supervisor, since the sentence.
        log: from a part's name to its log file.
    """
    make = lambda part, why: Blame(part, why, str(log(part)))  # noqa: E731
    trouble = next((e for e in events if e.kind in TROUBLE), None)
    if trouble is not None:
        return make(trouble.name, trouble.text)
    if verdict is not None and verdict["outcome"] == "contact":
        return make("motor", f"it {verdict['reason']}")
    if verdict is not None and verdict["outcome"] == "wrong_object":
        return make("vision", f"it {verdict['reason']} instead")
    if verdict is not None and verdict["outcome"] == "avoid_violated":
        return make("motor", f"it {verdict['reason']}")
    if status is None or status.text != speaker.clipped(text):
        return make("language", "it did not take the sentence up")
    if status.state == GoalStatus.STATE_NOT_UNDERSTOOD:
        return make("language", f"it did not understand: {status.reason}")
    if trace is not None and trace.action in HELD:
        return make("brainstem", f"it does not let the robot move: {trace.reason}")
    if status.state == GoalStatus.STATE_WRONG:
        return make("pfc", status.reason)
    if status.state == GoalStatus.STATE_REACHED:
        return make("pfc", "it takes the target for reached, but the world's referee does not")
    if status.state == GoalStatus.STATE_APPROACHING:
        return make("motor", f"it did not get there in time ({status.reason})")
    return make("pfc", f"the target was not found in time ({goal_state(status.state)}, {status.reason})")

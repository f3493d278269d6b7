# SPDX-License-Identifier: Apache-2.0
"""Goals: takes goals of the action ``Seek``, says them to the brain, and tells those who asked how it goes.

Conventional by choice: it translates between an action, of which each goal has an owner who waits for an answer, and
the plain topics ``goal/text`` and ``goal/status``, which anybody may use meanwhile.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from brain_regions.pfc.control import (S_NOT_FOUND, S_NOT_UNDERSTOOD, S_REACHED, S_STOPPED, S_WAITING, S_WRONG,
                                       VERB_STOP)
from brain_runtime import FEATURE, LATCHED, SILENCE, Act, Goal, In, Out, Region, clip_utf8, parameter
from brain_runtime.interfaces import Seek
from brain_runtime.contract.sights import in_words

ENDED = (S_REACHED, S_WRONG, S_NOT_FOUND, S_NOT_UNDERSTOOD)     # states in which the brain is done with a goal
REPLACED, UNANSWERED = Seek.Result.OUTCOME_REPLACED, Seek.Result.OUTCOME_UNANSWERED    # others are GoalStatus STATE_*
STOP = "stop"           # the sentence by which a goal is given up
REPEAT = 5.0            # s after which a sentence that nobody took up is said again
SEEN_WITHIN = 1.0       # s, age of a camera's report
SIZE = 256              # bytes of the texts in messages


@dataclass
class _Errand:
    """The goal that the brain is at.

    Attributes:
        goal: as given.
        text: as it stands in the goal's status.
        before: id of the brain's newest goal before.
        begun: time of acceptance (s, host clock).
        said: time at which it was said last (s).
        after: it replaced another one, which the robot is still at while nothing else is understood.
        number: id that the brain gave it; None until it is taken up.
        status: newest status of it; None before.
        given_up: time at which it was told to stop (s); None before.
    """

    goal: Goal
    text: str
    before: int
    begun: float
    said: float
    after: bool
    number: int | None = None
    status: Any | None = None
    given_up: float | None = None


@dataclass(frozen=True)
class GoalsParameters:
    """Patience."""

    answer_timeout: float = parameter(30.0, "time in which the brain must have taken a goal up", unit="s", low=1.0,
                                      high=600.0)
    stop_timeout: float = parameter(5.0, "time in which the brain must have stopped when a goal is given up", unit="s",
                                    low=0.5, high=60.0)


class Goals(Region):
    """Serves ``Seek``. There is one goal at a time: a newer one replaces it, as a newer sentence does."""

    rate = 5.0
    Parameters = GoalsParameters

    seek = Act("seek", "brain_interfaces/action/Seek")
    status = In("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED.with_depth(8), trigger=True, every=True)
    language = In("lang/features", "brain_interfaces/msg/LanguageFeatures", FEATURE)
    control = In("pfc/control", "brain_interfaces/msg/Control", FEATURE)
    objects = In("vision/objects", "brain_interfaces/msg/DetectedObjects", FEATURE.with_depth(4), key="source")
    text = Out("goal/text", "std_msgs/msg/String", LATCHED)

    def configure(self, parameters):
        super().configure(parameters)
        # Not of the state: whoever asked learns from ROS 2 that this process ended, and asks the next one.
        self._errand: _Errand | None = None
        self._newest = 0

    def step(self, inbox, state, dt, rng):
        self._news: list[Any] = []
        self._said: list[str] = []
        self._take(inbox.goals("seek"), inbox.now)
        for received in inbox.each("status"):
            if received.new:
                self._hear(received.message, inbox)
        if self._errand is not None:
            self._follow(self._errand, inbox)
        if self._errand is not None:
            self._news.append(self._feedback(self._errand, inbox))
        return {"seek": self._news, "text": [self.text(data=text) for text in self._said]}, state

    # -- the beginning and the end ---------------------------------------------------------------------------------

    def _take(self, goals: list[Goal], now: float) -> None:
        errand = self._errand
        if not goals:
            return
        newest = goals[-1]
        if errand is not None and newest.id == errand.goal.id:
            errand.goal = newest    # which may be to be given up now
            return
        for goal in goals[:-1]:
            begun = errand.begun if errand is not None and errand.goal.id == goal.id else now
            ended = self.seek.canceled if goal.canceling else self.seek.aborted
            self._news.append(ended(goal, outcome=REPLACED, reason="another goal came", duration=now - begun))
        self._errand = _Errand(newest, clip_utf8(newest.request.text, SIZE), self._newest, now, now, errand is not None)
        self._said.append(newest.request.text)

    def _end(self, outcome: int, reason: str, now: float, *, cause: int = 0, well: bool = False) -> None:
        errand, self._errand = self._errand, None
        ended = self.seek.succeeded if well else self.seek.canceled if errand.goal.canceling else self.seek.aborted
        self._news.append(ended(errand.goal, outcome=outcome, cause=cause, reason=clip_utf8(reason, SIZE),
                                duration=now - errand.begun))
        # What is latched must not be a new sentence to a language that joins later.
        self._said.append(SILENCE)

    # -- what the brain says of it ---------------------------------------------------------------------------------

    def _hear(self, status: Any, inbox: Any) -> None:
        errand, number = self._errand, int(status.goal_id)
        self._newest = max(self._newest, number)
        if errand is None or number <= errand.before:
            return
        if status.text == errand.text:
            errand.number, errand.status = number, status
            if status.state in ENDED:
                self._end(status.state, status.reason, inbox.now, cause=status.cause, well=status.state == S_REACHED)
            elif status.state == S_STOPPED:
                said = inbox.get("language")
                meant = said is not None and said.goal_id == number and said.verb == VERB_STOP
                self._end(S_STOPPED, status.reason or "it stands", inbox.now, well=meant)
            return
        newer = errand.number is not None and number > errand.number
        if status.state == S_STOPPED and (newer or errand.given_up is not None):
            self._end(S_STOPPED, "it was told to stop", inbox.now)
        elif newer and status.text != STOP:
            self._end(REPLACED, f"another sentence came: {status.text}", inbox.now)

    def _follow(self, errand: _Errand, inbox: Any) -> None:
        now, p = inbox.now, self.parameters
        if errand.goal.canceling and errand.given_up is None:
            errand.given_up = now
            self._said.append(STOP)
        elif errand.given_up is not None:
            if now - errand.given_up > p.stop_timeout:
                self._end(S_STOPPED, "it was told to stop, but nobody said that it stands; `brain status` shows "
                                     "whether language and pfc are well", now)
        elif errand.number is None:
            said = inbox.get("language")
            if said is not None and said.understood and said.reason and said.text == errand.text:   # it is no order
                self._said += [STOP] if errand.after else []    # nobody waits for that one any more
                self._end(S_NOT_UNDERSTOOD, said.reason, now)
            elif now - errand.begun > p.answer_timeout:
                self._end(UNANSWERED, f"nobody took it up within {p.answer_timeout:g} s; `brain status` shows whether "
                                      "language and pfc are well", now)
            elif now - errand.said > REPEAT:
                errand.said = now
                self._said.append(errand.goal.request.text)

    # -- feedback --------------------------------------------------------------------------------------------------

    @staticmethod
    def _seen(inbox: Any) -> str:
        return clip_utf8(in_words([o for r in inbox.each("objects", SEEN_WITHIN) for o in r.message.objects]), SIZE)

    def _feedback(self, errand: _Errand, inbox: Any) -> Any:
        control = inbox.get("control", SEEN_WITHIN)
        followed = control is not None and control.goal_id == errand.number
        state, reason = (S_WAITING, "nobody has taken it up yet") if errand.status is None else (
            errand.status.state, errand.status.reason)
        return self.seek.feedback(
            errand.goal, state=state, reason=reason, seen=self._seen(inbox),
            distance=control.distance if followed else math.nan, bearing=control.bearing if followed else math.nan)

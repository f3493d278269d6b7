# SPDX-License-Identifier: Apache-2.0
"""Effects: brings the brain that runs on this robot to what is wanted of it, over its ROS 2 services.

It compares what is wanted with what is, and changes what differs: so a region that was started again, by a supervisor
that knows nothing of a fleet, has its parameters again a moment later, and nothing is done twice.
"""
from __future__ import annotations

import logging
from typing import Any, Callable, Mapping

from brain_edge.messages.outbox import OutboxFull
from brain_edge.models.goals import GoalWatch
from brain_edge.models.loading import Loading
from brain_edge.schema import FormProblem
from brain_edge.state.brain import ANSWER, Brain, Never, NotNow
from brain_edge.state.desired_state import DesiredState, Wanted
from brain_edge.state.kinds import DEVICES, EFFECTIVE, PROGRAMS, WEIGHTS, check_spec
from brain_edge.state.worker import Woken
from brain_edge.store import StoreProblem
from brain_wire import NoRouter, Node, ParameterError, SessionProblem, open_session
from brain_wire.credentials import EDGE
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.wakeup import Flag

LOOK = 2.0          # s between two looks at whether the brain still is as it is wanted
AGAIN = 1.0         # s until the next attempt where a region or the router is not there
NODE = "brain_edge"

limited_log = RateLimitedLog(logging.getLogger(__name__))


def settled(wanted: list[Wanted]) -> dict[tuple[str, str], dict[str, Any]]:
    """Returns the states that are known without a brain, by kind and name.

    They are those of kinds without effect, of specs of another version, and of what a later order contradicts.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    claims: dict[tuple[str, str], tuple[Wanted, Any]] = {}
    for one in reversed(wanted):        # what was ordered last holds
        if one.kind not in EFFECTIVE:
            found[one[:2]] = {"state": "kept", "why": f"robots of this version do nothing about a {one.kind}"}
            continue
        try:
            check_spec(one.kind, one.spec)
        except FormProblem as problem:      # the cloud is of another version
            found[one[:2]] = {"state": "refused", "why": f"this robot's brain_edge does not know it so: {problem}"}
            continue
        claimed = {(one.spec["region"], name): value for name, value in _claims(one).items()}
        taken = next((claim for claim, value in claimed.items() if claim in claims and claims[claim][1] != value), None)
        if taken is not None:
            other = claims[taken][0]
            what = f"{taken[1]} of {taken[0]}" if taken[1] else f"whether {taken[0]} is active"
            found[one[:2]] = {"state": "refused", "why": f"{other.kind} {other.name}, ordered later, says otherwise "
                                                         f"of {what}; delete one of them"}
            continue
        claims.update({claim: (one, value) for claim, value in claimed.items()})
    return found


def _claims(one: Wanted) -> Mapping[str, Any]:
    """Returns what an order says of its region: parameters by name, and under no name whether it is active."""
    if one.kind == "Model":
        return {WEIGHTS: one.spec["digest"]}
    return one.spec["values"] if one.kind == "Parameters" else {"": one.spec["active"]}


class Effects(Woken):
    """One thread that keeps the brain as it is wanted.

    Args:
        held: what is wanted.
        loading: gives regions their models.
        router: of the brain.
        namespace: of the brain.
        reported: called when something was reported.
        stop: ends it.
    """

    def __init__(self, held: DesiredState, loading: Loading, router: str | None, namespace: str,
                 reported: Callable[[], None], stop: Flag) -> None:
        super().__init__("effects", 2 * ANSWER, held, reported, stop)
        self._loading, self._router, self._namespace = loading, router, namespace

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._in_session()
            except Exception:   # whatever the brain's side or the disk does, the robot's side of the fleet goes on
                limited_log("effects", "what is wanted could not be brought about", trace=True, level=logging.ERROR)
                self._wake.wait(AGAIN)

    def _in_session(self) -> None:
        """Keeps the brain as it is wanted for as long as its router is there; where it is not, says so and waits."""
        try:
            with open_session(self._router, identity=EDGE, patience=0.0) as session, \
                    Node(session, NODE, self._namespace) as node:
                self._loading.begin()
                self._keep(Brain(node), GoalWatch(node, self._goal, begun=self.wake), lambda: session.linked)
        except NoRouter as problem:
            self._all_wait(f"no brain runs on this robot: {problem}")
            self._wake.wait(AGAIN)
        except SessionProblem as problem:
            limited_log("brain", f"the brain cannot be reached: {problem}")
            self._all_wait(str(problem))
            self._wake.wait(10.0)

    def _keep(self, brain: Brain, watch: GoalWatch, linked: Callable[[], bool]) -> None:
        """Keeps the brain as it is wanted until its router goes, or ``stop``."""
        while not self._stop.is_set() and linked():
            absent: dict[str, dict[str, Any]] = {}      # regions that do not answer; each is waited for once
            watch.look()
            try:    # with a disk that is full the link to the brain stays, and what is known of its regions with it
                self._loading.look(watch)
            except StoreProblem as problem:
                limited_log("failed", f"a region that failed with its model waits for what it had before: {problem}")
            try:
                wanted, known = self._look()
            except StoreProblem as problem:
                limited_log("look", f"what is wanted is not looked at: {problem}")
                self._wake.wait(AGAIN)
                continue
            waits = self._loading.guarded()
            for one in wanted:
                if self._stop.is_set():
                    return
                status = known.get(one[:2]) or absent.get(one.spec["region"])
                try:
                    if status is None:
                        status = (self._loading.bring_about(brain, one, watch) if one.kind == "Model" else
                                  brain.bring_about(one))
                except NotNow as problem:
                    status = absent[one.spec["region"]] = {"state": "waiting", "why": str(problem)[:500]}
                except (Never, ParameterError) as problem:
                    status = {"state": "refused", "why": str(problem)[:500]}
                except StoreProblem as problem:     # this order waits for the disk, and none behind it
                    status = {"state": "waiting", "why": str(problem)[:500]}
                waits |= status["state"] == "waiting"
                self._report(one, status)
            self._wake.wait(AGAIN if waits else LOOK)

    def _look(self) -> tuple[list[Wanted], dict[tuple[str, str], dict[str, Any]]]:
        """All that is wanted of the brain, and what is known of it without one."""
        wanted = [one for one in self._held.wanted() if one.kind not in (*DEVICES, *PROGRAMS)]
        known = settled(wanted)
        known |= self._loading.prepare([one for one in wanted if one[:2] not in known])
        return wanted, known

    def _goal(self, ended: Mapping[str, Any]) -> None:
        """A goal has ended. In a thread of the watch's."""
        try:
            self._held.goal(ended)
        except (StoreProblem, FormProblem) as problem:
            limited_log("goal", f"how a goal ended is not told: {problem}")
        self._reported()
        self._wake.set()    # what has waited for that

    def _all_wait(self, why: str) -> None:
        wanted, known = self._look()
        for one in wanted:
            self._report(one, known.get(one[:2], {"state": "waiting", "why": why[:500]}))

    def _report(self, one: Wanted, status: Mapping[str, Any]) -> bool:
        try:
            return super()._report(one, status)
        except (StoreProblem, OutboxFull) as problem:
            limited_log("report", f"not reported: {problem}")
            return False

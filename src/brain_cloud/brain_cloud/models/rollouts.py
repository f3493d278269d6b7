# SPDX-License-Identifier: Apache-2.0
"""Roll-outs: a model's way through the fleet, a few robots first, and back where it is worse.

A roll-out is one row of the cloud's database. Each step from one state to the next is one transaction, with the orders
that it gives in it; what step is due follows from what is in the database alone. So it goes on rightly after a kill at
any moment, and doing it twice does nothing.

    canary ──────► rest ──────► done
       │             │            │
       └──────┬──────┴────────────┘  the trial says so, a region fails, or a person does
              ▼
        rolling_back ──► rolled_back
"""
from __future__ import annotations

import json
import sqlite3
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from brain_cloud import audit
from brain_cloud.models import rollout_test
from brain_cloud.models.registry import Registry
from brain_cloud.models.rollout_test import NOTHING, Expected, Goal, Tally
from brain_cloud.state.desired import Desired
from brain_edge.models.model_file import OWN, ModelProblem
from brain_edge.state import events
from brain_edge.state.manifests import ALL, Resource
from brain_edge.store import Store
from brain_wire.safe_text import quoted

KIND = "Model"
CANARY, REST, DONE, BACK, TAKEN_BACK, REPLACED = ("canary", "rest", "done", "rolling_back", "rolled_back", "replaced")
STATES = (CANARY, REST, DONE, BACK, TAKEN_BACK, REPLACED)
WATCHED = (CANARY, REST)            # where the trial may take it back
_COLUMNS = "number, region, digest, state, why, robots, canaries, before, watch, after, at, person"


class Rollout(NamedTuple):
    """A row.

    Attributes:
        robots: who is to have it; None: all, those that join later too.
        canaries: who has it first.
        before: the order of that region that was there: ``robots`` and ``spec``; None: there was none.
        watch: ``goals`` of each canary, ``when`` it may be loaded, what is :class:`~.trial.Expected`, and how its
            goals ended so far: ``seen`` (see :class:`Seen`).
        after: number of the last goal that does not count.
    """

    number: int
    region: str
    digest: str
    state: str
    why: str
    robots: tuple[str, ...] | None
    canaries: tuple[str, ...]
    before: Mapping[str, Any] | None
    watch: Mapping[str, Any]
    after: int
    at: str
    person: str

    @property
    def name(self) -> str:
        """Of the order for all."""
        return order_name(self.region)

    @property
    def first_name(self) -> str:
        """Of the order for the canaries, while there is one."""
        return f"{self.name}-canary"

    @property
    def expected(self) -> Expected:
        """Expectation that the model is measured against."""
        return Expected(**self.watch["expected"])


class Seen(NamedTuple):
    """Evidence of a trial so far. It is kept in the roll-out's row: of goals only the newest are.

    Attributes:
        number: of the last goal that was looked at.
        tally: of goals with the model.
        counts: of these, by robot.
    """

    number: int
    tally: Tally
    counts: dict[str, int]


def order_name(region: str) -> str:
    """Name of the order that says which model a region has in the whole fleet."""
    return region.lower().replace("_", "-")[:50].strip("-") or "region"


def _row(values: Sequence[Any]) -> Rollout:
    number, region, digest, state, why, robots, canaries, before, watch, after, at, person = values
    robots, before = json.loads(robots), json.loads(before)
    return Rollout(number, region, digest, state, why, None if robots == ALL else tuple(robots),
                   tuple(json.loads(canaries)), before, json.loads(watch), after, at, person)


class Rollouts:
    """The roll-outs of a cloud.

    Args:
        store, desired: its parts.
        registry: of its models.

    Attributes:
        gone: whether a robot was revoked: it is not waited for when what was there before is given back.
    """

    def __init__(self, store: Store, desired: Desired, registry: Registry) -> None:
        self._store, self._desired, self._registry = store, desired, registry
        self.gone: Callable[[str], bool] = lambda robot: False

    # -- what people order -------------------------------------------------------------------------------------------

    def begin(self, model: str, robots: tuple[str, ...] | None, canaries: Sequence[str], *, goals: int, when: str,
              expect: float | None, person: str) -> tuple[Rollout, set[str]]:
        """Begins a roll-out; returns it, and the robots that have something to hear.

        Args:
            model: the beginning of its digest.
            robots: who is to have it; None: all.
            canaries: who has it first; none: all at once.
            goals: that each canary is watched for.
            when: ``idle`` or ``now``: whether it may be loaded while a goal is pursued.
            expect: share of goals that are reached; None: that is measured on the goals before.

        Raises:
            ModelProblem: there is no such model, or another roll-out of its region is under way.
            OutboxFull, StoreProblem.
        """
        with self._store.change() as db:
            digest, region = self._registry.find(db, model)
            for one in self._all(db, "WHERE region = ?", region):
                if one.state == CANARY:
                    raise ModelProblem(f"roll-out {one.number} of {region} is under way; see `brain fleet models`, and "
                                       f"take it back with `brain fleet rollback {region}`, or wait")
                if one.state == BACK:
                    raise ModelProblem(f"roll-out {one.number} of {region} is being taken back, and not all robots "
                                       f"have said so yet; see `brain fleet models`, and wait")
                if one.state == REST:
                    self._become(db, one, REPLACED, "another model was rolled out")
            self._check_others(db, region)
            before = db.execute("SELECT robots, spec FROM resources WHERE kind = ? AND name = ?",
                                (KIND, order_name(region))).fetchone()
            (after,) = db.execute("SELECT COALESCE(MAX(number), 0) FROM goals").fetchone()
            bad = {one.digest for one in self._all(db, "WHERE region = ?", region) if one.state in (BACK, TAKEN_BACK)}
            expected = rollout_test.expect(self._goals_without(db, region, {digest, *bad}, robots), expect)
            number = db.execute(
                "INSERT INTO rollouts (region, digest, state, why, robots, canaries, before, watch, after, at, person) "
                "VALUES (?, ?, ?, '', ?, ?, ?, ?, ?, ?, ?)",
                (region, digest, CANARY, json.dumps(ALL if robots is None else list(robots)),
                 json.dumps(list(canaries)), json.dumps(before and {
                     "robots": json.loads(before[0]), "spec": json.loads(before[1])}),
                 json.dumps({"goals": goals, "when": when, "expected": expected._asdict()}), after, events.now(),
                 person)).lastrowid
            one = self._all(db, "WHERE number = ?", number)[0]
            told = set(self._desired.apply(db, self._order(one, one.first_name, tuple(canaries)), person)) \
                if canaries else set()
            audit.write(db, "", person, f"began roll-out {number} of model {digest[:19]} for {region}"
                        + (f", first on {', '.join(canaries)}" if canaries else ""))
            told |= self._step(db, one)
            return self._all(db, "WHERE number = ?", number)[0], told

    def back(self, region: str | None, person: str) -> tuple[Rollout, set[str]]:
        """Takes the newest roll-out of a region back; returns it, and the robots that have something to hear.

        Args:
            region: None: whichever was rolled out last.

        Raises:
            ModelProblem: there is none that could be taken back. OutboxFull, StoreProblem.
        """
        with self._store.change() as db:
            which, values = ("", ()) if region is None else (" AND region = ?", (region,))
            found = self._all(db, f"WHERE state IN ('{CANARY}', '{REST}', '{DONE}'){which} ORDER BY number DESC "
                                  f"LIMIT 1", *values)
            for one in self._all(db, f"WHERE state = '{BACK}'{which} ORDER BY number DESC", *values):
                if not found or one.region == found[0].region or one.number > found[0].number:
                    raise ModelProblem(f"roll-out {one.number} of {one.region} is being taken back, and not all robots "
                                       f"have said so yet; see `brain fleet models`, and wait")
            if not found:
                raise ModelProblem(f"there is no roll-out{f' of {quoted(region)}' if region else ''} that could be "
                                   f"taken back; see `brain fleet models`")
            told = self._take_back(db, found[0], f"{person} took it back", person)
            return self._all(db, "WHERE number = ?", found[0].number)[0], told

    def _check_others(self, db: sqlite3.Connection, region: str) -> None:
        for name, spec in db.execute("SELECT name, spec FROM resources WHERE kind = ?", (KIND,)):
            whose = json.loads(spec).get("region")
            if name == order_name(region) and whose != region:
                raise ModelProblem(f"the order Model {name} is of the region {whose}, and its name is that of a "
                                   f"roll-out of {region}; give it another name")
            if name != order_name(region) and whose == region:
                raise ModelProblem(f"the order Model {name} says already which weights {region} has; delete it first "
                                   f"(`brain fleet delete FILE`), so that one order says it")

    # -- what follows from what is in the database -------------------------------------------------------------------

    def look(self) -> set[str]:
        """Does each step that is due; returns the robots that have something to hear.

        Raises:
            StoreProblem: the database cannot be written. OutboxFull: of one robot; nothing was done.
        """
        if not self._store.read(f"SELECT 1 FROM rollouts WHERE state IN ('{CANARY}', '{REST}', '{BACK}') LIMIT 1"):
            return set()
        told: set[str] = set()
        with self._store.change() as db:
            for one in self._all(db, f"WHERE state IN ('{CANARY}', '{REST}', '{BACK}')"):
                told |= self._step(db, one)
        return told

    def _step(self, db: sqlite3.Connection, one: Rollout) -> set[str]:
        if one.state in WATCHED:
            seen, verdict = self._seen(db, one)
            if (now := {**seen._asdict(), "tally": list(seen.tally)}) != one.watch.get("seen"):
                one = one._replace(watch={**one.watch, "seen": now})
                db.execute("UPDATE rollouts SET watch = ? WHERE number = ?", (json.dumps(one.watch), one.number))
            why = self._refused(db, one) or verdict
            if why:
                return self._take_back(db, one, why, "")
        if one.state == CANARY:
            counts = seen.counts
            if all(self._reported(db, robot, one.first_name) == "applied" and counts.get(robot, 0) >= one.watch["goals"]
                   for robot in one.canaries):
                return self._to_all(db, one)
        elif one.state == REST:
            if self._all_say(db, one.name, ("applied",)):
                self._become(db, one, DONE, "")
        elif one.state == BACK and self._all_say(db, one.first_name, ("applied", "refused"), self.gone) and (
                one.watch["from"] == CANARY or self._all_say(db, one.name, ("applied", "refused"), self.gone)):
            told = set(self._desired.delete(db, KIND, one.first_name, "") or ())
            if one.before is not None:      # as it was, and no longer at once
                robots = None if one.before["robots"] == ALL else tuple(one.before["robots"])
                told |= set(self._desired.apply(db, Resource(KIND, one.name, robots, one.before["spec"]), ""))
            self._become(db, one, TAKEN_BACK, one.why)
            return told
        return set()

    def _seen(self, db: sqlite3.Connection, one: Rollout) -> tuple[Seen, str]:
        """Judges goals that ended since the last look; returns what the trial has seen with them, and the verdict."""
        kept = one.watch.get("seen") or {"number": one.after, "tally": NOTHING, "counts": {}}
        last, counts, goals = kept["number"], dict(kept["counts"]), []
        for number, robot, goal, model in self._ended(db, one.region, last):
            last = number
            if model == one.digest[7:23]:
                counts[robot] = counts.get(robot, 0) + 1
                if one.robots is None or robot in one.robots:
                    goals.append(goal)
        verdict, tally = rollout_test.judged(goals, one.expected, Tally(*kept["tally"]))
        return Seen(last, tally, counts), verdict

    def _refused(self, db: sqlite3.Connection, one: Rollout) -> str:
        """Finds a robot that refuses it, and why; empty where none does."""
        name = one.first_name if one.state == CANARY else one.name
        for robot, status in db.execute(
                "SELECT robot, status FROM reported JOIN desired USING (robot, kind, name, version) WHERE kind = ? AND "
                "name = ? ORDER BY robot", (KIND, name)):
            found = json.loads(status)
            if found["state"] == "refused":
                return f"{robot}: {found.get('why', 'it is refused')}"
        return ""

    def _to_all(self, db: sqlite3.Connection, one: Rollout) -> set[str]:
        told = set(self._desired.apply(db, self._order(one, one.name, one.robots), ""))
        told |= set(self._desired.delete(db, KIND, one.first_name, "") or ())
        self._become(db, one, REST, "")
        return told

    def _take_back(self, db: sqlite3.Connection, one: Rollout, why: str, person: str) -> set[str]:
        """Orders what was there before, at once, of all who may have it."""
        had = one.before or {"robots": [], "spec": {"digest": OWN}}
        spec = {**had["spec"], "region": one.region, "when": "now"}
        if one.state == CANARY:
            # The canaries' order stays until all have said that they are as before; then the order for all holds again.
            told = set(self._desired.apply(db, Resource(KIND, one.first_name, one.canaries, spec), person))
        else:
            robots = None if had["robots"] == ALL else tuple(had["robots"])
            # Who was not named by the order before had its own weights.
            others = set() if robots is None else self._having(db, one.name) - set(robots)
            told = set(self._desired.apply(db, Resource(KIND, one.name, robots, spec), person)) if robots != () else \
                set(self._desired.delete(db, KIND, one.name, person) or ())
            if others:
                own = {"region": one.region, "digest": OWN, "when": "now"}
                told |= set(self._desired.apply(db, Resource(KIND, one.first_name, tuple(sorted(others)), own), person))
        db.execute("UPDATE rollouts SET watch = ? WHERE number = ?", (json.dumps({**one.watch, "from": one.state}),
                                                                      one.number))
        self._become(db, one, BACK, why, person)
        return told

    def _having(self, db: sqlite3.Connection, name: str) -> set[str]:
        return {robot for (robot,) in db.execute("SELECT robot FROM desired WHERE kind = ? AND name = ?", (KIND, name))}

    def _all_say(self, db: sqlite3.Connection, name: str, states: Sequence[str],
                 but: Callable[[str], bool] = lambda robot: False) -> bool:
        """Checks whether all robots of an order, but for some, report one of these states."""
        return all(self._reported(db, robot, name) in states for robot in self._having(db, name) if not but(robot))

    def _reported(self, db: sqlite3.Connection, robot: str, name: str) -> str:
        row = db.execute("SELECT status FROM reported JOIN desired USING (robot, kind, name, version) WHERE robot = ? "
                         "AND kind = ? AND name = ?", (robot, KIND, name)).fetchone()
        return "ordered" if row is None else json.loads(row[0])["state"]

    def _become(self, db: sqlite3.Connection, one: Rollout, state: str, why: str, person: str = "") -> None:
        db.execute("UPDATE rollouts SET state = ?, why = ? WHERE number = ?", (state, why[:500], one.number))
        says = {REST: "is for all now", DONE: "is done", BACK: "is taken back", TAKEN_BACK: "was taken back",
                REPLACED: "was replaced"}[state]
        audit.write(db, "", person, f"roll-out {one.number} of model {one.digest[:19]} for {one.region} {says}"
                    + (f": {why}" if why else ""))

    def _order(self, one: Rollout, name: str, robots: tuple[str, ...] | None) -> Resource:
        return Resource(KIND, name, robots, {"region": one.region, "digest": one.digest, "when": one.watch["when"]})

    def remove(self, model: str, person: str) -> dict[str, str]:
        """Removes a model from the registry: its file, its card and its evaluation.

        Args:
            model: the beginning of its digest.
            person: who orders it.

        Returns:
            Its ``digest`` and ``region``.

        Raises:
            ModelProblem: there is none, a robot is to have it, or a roll-out that is not over may order it.
            StoreProblem.
        """
        with self._store.change() as db:
            digest, region = self._registry.find(db, model)
            for name, spec in db.execute("SELECT name, spec FROM resources WHERE kind = ?", (KIND,)).fetchall():
                if json.loads(spec)["digest"] == digest:
                    raise ModelProblem(f"model {digest[:19]} is what the order {name} of kind {KIND} wants; roll "
                                       f"another model out, or delete that order")
            newest = self._all(db, f"WHERE region = ? AND state IN ('{CANARY}', '{REST}', '{DONE}') ORDER BY number "
                                   f"DESC LIMIT 1", region)      # which is what back() finds
            for one in [*newest, *self._all(db, f"WHERE region = ? AND state = '{BACK}'", region)]:
                if one.before and one.before["spec"]["digest"] == digest:
                    raise ModelProblem(f"model {digest[:19]} is what `brain fleet rollback {region}` would go back to; "
                                       f"keep it until another model was rolled out")
            self._registry.remove(db, digest, region, person)
        return {"digest": digest, "region": region}

    # -- what is known -----------------------------------------------------------------------------------------------

    def _all(self, db: sqlite3.Connection, where: str, *values: Any) -> list[Rollout]:
        order = "" if "ORDER BY" in where else " ORDER BY number"
        return [_row(row) for row in db.execute(f"SELECT {_COLUMNS} FROM rollouts {where}{order}", values).fetchall()]

    def _goals_without(self, db: sqlite3.Connection, region: str, digests: set[str], robots: tuple[str, ...] | None
                       ) -> list[Goal]:
        """Goals with other models of a region than these, in the order in which they ended."""
        known = {digest[7:23] for digest in digests}
        return [goal for _, robot, goal, model in self._ended(db, region, 0)
                if model not in known and (robots is None or robot in robots)]

    def _ended(self, db: sqlite3.Connection, region: str, after: int) -> list[tuple[int, str, Goal, str]]:
        """Goals that ended behind number ``after`` with any model of a region: number, robot, goal, model."""
        found = []
        for number, robot, outcome, reflexes, weights in db.execute(
                "SELECT number, robot, outcome, reflexes, weights FROM goals WHERE number > ? ORDER BY number",
                (after,)):
            model = json.loads(weights).get(region)
            if model is not None:
                found.append((number, robot, Goal(outcome == "reached", reflexes), model))
        return found

    def told(self) -> list[dict[str, Any]]:
        """All roll-outs, the newest first, and how each is."""
        with self._store.change() as db:
            return [self.describe(db, one) for one in self._all(db, "ORDER BY number DESC LIMIT 100")]

    def describe(self, db: sqlite3.Connection, one: Rollout) -> dict[str, Any]:
        """A roll-out for people."""
        robots: dict[str, dict[str, Any]] = {}
        counts = self._seen(db, one)[0].counts if one.state in (*WATCHED, BACK) else {}
        for robot, name in db.execute("SELECT robot, name FROM desired WHERE kind = ? AND name IN (?, ?) ORDER BY name",
                                      (KIND, one.name, one.first_name)).fetchall():
            if one.state in (*WATCHED, BACK) and (one.state != CANARY or name == one.first_name):
                robots[robot] = {"state": self._reported(db, robot, name), "goals": counts.get(robot, 0)}
        return {"number": one.number, "region": one.region, "digest": one.digest, "state": one.state, "why": one.why,
                "canaries": list(one.canaries), "robots": robots, "at": one.at,
                "watch": {name: value for name, value in one.watch.items() if name != "seen"},
                "person": one.person}

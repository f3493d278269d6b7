# SPDX-License-Identifier: Apache-2.0
"""What people ask the cloud and order of it: a query with a JSON object, on a key with the person's name."""
from __future__ import annotations

import json
import logging
import time
from typing import Any, Callable

import zenoh
from zenoh.handlers import RingChannel

from brain_fleet.jobs.runner import Runner
from brain_fleet.jobs.served import serve
from brain_fleet.messages.outbox import OutboxFull
from brain_fleet.processes.cloud import Cloud
from brain_fleet.processes.settings import software
from brain_fleet.schema import FormProblem, check, read_json
from brain_fleet.state.kinds import EFFECTIVE
from brain_fleet.state.manifests import MOST, resource
from brain_fleet.store import StoreProblem
from brain_security.fleet_keys import orders
from brain_wire.messages import clip_utf8
from brain_wire.seldom import Seldom
from brain_wire.shown import quoted

WAITING = 64
LONGEST = 2**20         # bytes of an order
ANSWER = 12 * 2**20     # bytes of an answer
LINES = 1000            # events in an answer

_PLAIN: dict[str, Any] = {"type": "string", "maxLength": 80}
_FORM = {"type": "object", "required": ["do"], "properties": {
    "do": {"enum": ["status", "robots", "resources", "apply", "delete", "accept", "logs", "jobs"]},
    "resources": {"type": "array", "maxItems": MOST, "items": {"type": "object", "additionalProperties": True}},
    "robots": {"type": "array", "maxItems": 10_000, "items": _PLAIN}, "robot": _PLAIN,
    "after": {"type": "integer", "minimum": 0}, "job": {"type": "object", "additionalProperties": True}}}

log = logging.getLogger("brain.cloud")
seldom = Seldom(log)


class Orders:
    """Serves people until the session is closed.

    Args:
        cloud: that they ask.
        runner: of jobs; None: it runs none.
    """

    def __init__(self, cloud: Cloud, runner: Runner | None = None) -> None:
        self._cloud, self._runner = cloud, runner
        self._queryable = cloud.session.zenoh.declare_queryable(orders("*"), RingChannel(WAITING), complete=True)
        cloud.session.run(self._run, "orders")

    def _run(self) -> None:
        while True:
            try:
                query = self._queryable.recv()
            except zenoh.ZError:
                return      # the session is closed
            with query:
                self._serve(query)

    def _serve(self, query: zenoh.Query) -> None:
        key = str(query.key_expr)
        person = key.rpartition("/")[2]
        try:
            if not person.isidentifier() or not person.isascii():
                raise FormProblem(f"{quoted(key)} is nobody's key")
            if query.payload is None or len(query.payload) > LONGEST:
                raise FormProblem(f"an order has at most {LONGEST} bytes; divide it")
            order = read_json(query.payload.to_bytes(), LONGEST)
            check(order, _FORM)
            does: dict[str, Callable[[dict[str, Any], str], Any]] = {
                "status": self._status, "robots": self._robots, "resources": self._resources, "apply": self._apply,
                "delete": self._delete, "accept": self._accept, "logs": self._logs,
                "jobs": lambda order, person: serve(self._runner, order.get("job"), person)}
            answer = json.dumps(does[order["do"]](order, person)).encode()
            if len(answer) > ANSWER:
                raise FormProblem(f"the answer would have {len(answer)} bytes, and at most {ANSWER} are sent")
            query.reply(key, answer)
        except (FormProblem, OutboxFull, StoreProblem) as problem:
            self._refuse(query, str(problem))
        except Exception as error:  # whatever one order is, the next is taken
            seldom("order", f"an order of {person} failed", trace=True, level=logging.ERROR)
            self._refuse(query, f"the cloud failed at it: {type(error).__name__}; its log says more")

    @staticmethod
    def _refuse(query: zenoh.Query, why: str) -> None:
        try:
            query.reply_err(clip_utf8(why, 2000))
        except zenoh.ZError as error:
            seldom("refusal", f"a refusal could not be sent: {error}")

    def _status(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        robots = self._cloud.robots()
        states = [robot["state"] for robot in robots]
        return {"software": software(), "database": str(self._cloud.store.path), "runs_s": time.monotonic() -
                self._cloud.began, "robots": {state: states.count(state) for state in sorted(set(states))},
                "waiting": sum(robot["waiting"] for robot in robots), **self._resources(order, person)}

    def _robots(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        return {"robots": self._cloud.robots()}

    def _resources(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        rows = self._cloud.store.read(
            "SELECT desired.robot, desired.kind, desired.name, desired.version, reported.version, reported.status FROM "
            "desired LEFT JOIN reported USING (robot, kind, name) ORDER BY 2, 3, 1 LIMIT 10000")
        found = []
        for robot, kind, name, version, told, status in rows:
            status = json.loads(status) if status is not None and told == version else {"state": "ordered"}
            found.append({"kind": kind, "name": name, "robot": robot, "version": version, **status})
        return {"resources": found}

    def _apply(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        found = []
        for number, one in enumerate(order.get("resources", ()), 1):
            try:
                found.append(resource(one))
            except FormProblem as problem:
                raise FormProblem(f"resource {number}: {problem}") from None
        done: list[dict[str, Any]] = []
        with self._cloud.store.change() as db:      # all of a file, or nothing
            for one in found:
                changed = self._cloud.desired.apply(db, one, person)
                done.append({"kind": one.kind, "name": one.name, "changed": changed, "effect": one.kind in EFFECTIVE})
        for robot in {robot for one in done for robot in one["changed"]}:
            self._cloud.wake(robot)
        return {"resources": done}

    def _delete(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        done: list[dict[str, Any]] = []
        with self._cloud.store.change() as db:
            for one in order.get("resources", ()):
                kind, name = one.get("kind"), one.get("name")
                if not isinstance(kind, str) or not isinstance(name, str):
                    raise FormProblem("a resource that is to be deleted has a kind and a name")
                robots = self._cloud.desired.delete(db, kind, name, person)
                done.append({"kind": kind, "name": name, "known": robots is not None, "changed": robots or []})
        for robot in {robot for one in done for robot in one["changed"]}:
            self._cloud.wake(robot)
        return {"resources": done}

    def _accept(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        robots = order.get("robots")
        if robots is None:
            robots = [robot["robot"] for robot in self._cloud.robots() if robot["state"] == "apart"]
        with self._cloud.store.change() as db:
            unknown = [robot for robot in robots if not self._cloud.accept(db, robot, person)]
            if unknown:
                raise FormProblem(f"no robot {quoted(unknown[0])} has come yet; see `brain fleet nodes`")
        for robot in robots:
            log.info("%s is taken in anew, ordered by %s", robot, person)
            self._cloud.wake(robot)
        return {"robots": robots}

    def _logs(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        rows = self._cloud.store.read(
            "SELECT number, at, robot, person, text FROM (SELECT * FROM events WHERE number > ? AND (? = '' OR robot = "
            "?) ORDER BY number DESC LIMIT ?) ORDER BY number",
            (order.get("after", 0), order.get("robot", ""), order.get("robot", ""), LINES))
        return {"events": [dict(zip(("number", "at", "robot", "person", "text"), row)) for row in rows]}

# SPDX-License-Identifier: Apache-2.0
"""Questions and orders that people send the cloud: a query with a JSON object, on a key with the person's name."""
from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Callable

import zenoh

from brain_cloud import audit
from brain_cloud.enrolment import versions
from brain_cloud.jobs.runner import Runner
from brain_cloud.jobs.served import serve
from brain_cloud.processes import model_orders
from brain_cloud.processes.cloud import SILENT, Cloud
from brain_cloud.state import device_orders
from brain_edge.blobs.store import BlobProblem
from brain_edge.messages import history
from brain_edge.messages.answering import answer
from brain_edge.messages.outbox import OutboxFull
from brain_edge.messages.rate_limit import Bucket
from brain_edge.processes.settings import ANSWER, software
from brain_edge.schema import FormProblem, check, read_json
from brain_edge.state.kinds import EFFECTIVE
from brain_edge.state.manifests import MOST, Resource, resource
from brain_edge.store import StoreProblem
from brain_runtime.metrics.families import OTHER
from brain_security.fleet_keys import orders
from brain_wire.messages import clip_utf8
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

if TYPE_CHECKING:
    from brain_cloud.enrolment.service import Belonging     # which a person's terminal need not load

WAITING = 16            # orders of one person
LONGEST = 2**20         # bytes of an order, and of what goes with it
LINES = 1000            # events in an answer
LONGEST_NAME = 80       # characters of a person's
REFUSALS, BURST = 0.1, 100.0    # refused orders a second that are written down, and at once
CHANGES = ("apply", "delete", "accept", "enroll", "revoke", "model_add", "model_remove", "rollout", "rollback")

_PLAIN: dict[str, Any] = {"type": "string", "maxLength": 80}
_FORM: dict[str, Any] = {"type": "object", "required": ["do"], "properties": {
    "do": {"enum": ["status", "robots", "resources", "apply", "delete", "accept", "logs", "audit", "enroll", "revoke",
                    "devices", "jobs", "learning", *model_orders.DOES]},
    **model_orders.FIELDS, "hours": {"type": "number"},
    "installation": {"type": "string", "pattern": "[0-9a-f]+", "maxLength": 16},
    "resources": {"type": "array", "maxItems": MOST, "items": {"type": "object", "additionalProperties": True}},
    "robots": {"type": "array", "maxItems": 10_000, "items": _PLAIN}, "robot": _PLAIN,
    "after": {"type": "integer", "minimum": 0}, "job": {"type": "object", "additionalProperties": True}}}

DOES = tuple(_FORM["properties"]["do"]["enum"])

log = logging.getLogger("brain.cloud")
limited_log = RateLimitedLog(log)


class Orders:
    """Serves people until the session is closed.

    Args:
        cloud: that they ask.
        belonging: who belongs to it.
        runner: of jobs; None: it runs none.

    Attributes:
        counts: of orders, by what they ask for and what came of them (``done``, ``refused``, ``failed``).
    """

    def __init__(self, cloud: Cloud, belonging: Belonging, runner: Runner | None = None) -> None:
        self._cloud, self._belonging, self._runner = cloud, belonging, runner
        self._models = model_orders.orders(cloud)
        self.counts: Counter[tuple[str, str]] = Counter()
        self._refusals = Bucket(REFUSALS, BURST)
        answer(cloud.session, orders("*"), LONGEST, self._serve, "orders", limited_log, each=WAITING)

    def _serve(self, query: zenoh.Query) -> None:
        key, order = str(query.key_expr), None
        person = key.rpartition("/")[2]
        try:
            if not person.isidentifier() or not person.isascii() or len(person) > LONGEST_NAME:
                raise FormProblem(f"{quoted(key)} is nobody's key")
            order = read_json(b"" if query.payload is None else query.payload.to_bytes(), LONGEST)
            check(order, _FORM)
            if query.attachment is not None:
                order["data"] = query.attachment.to_bytes()
            does: dict[str, Callable[[dict[str, Any], str], Any]] = {
                "status": self._status, "robots": self._robots, "resources": self._resources, "apply": self._apply,
                "delete": self._delete, "accept": self._accept, "logs": self._logs, "audit": self._audit,
                "enroll": self._belonging.order, "revoke": self._belonging.order, "devices": self._devices,
                "learning": self._learning, **self._models,
                "jobs": self._jobs}
            found = json.dumps(does[order["do"]](order, person)).encode()
            if len(found) > ANSWER:
                raise FormProblem(f"the answer would have {len(found)} bytes, and at most {ANSWER} are sent")
            query.reply(key, found)
            self._count(order, "done")
        except (FormProblem, BlobProblem, OutboxFull, StoreProblem) as problem:
            self._refused(order, person, str(problem))
            self._refuse(query, str(problem))
        except Exception as error:  # whatever one order is, the next is taken
            limited_log("order", f"an order of {person} failed", trace=True, level=logging.ERROR)
            self._count(order, "failed")
            self._refuse(query, f"the cloud failed at it: {type(error).__name__}; its log says more")

    def _count(self, order: Any, outcome: str) -> None:
        do = order.get("do") if isinstance(order, dict) else None
        self.counts[do if isinstance(do, str) and do in DOES else OTHER, outcome] += 1

    def _refused(self, order: Any, person: str, why: str) -> None:
        """Counts an order that was refused, and writes down who tried it, where it would have changed something."""
        self._count(order, "refused")
        if not isinstance(order, dict) or order.get("do") not in CHANGES or self._refusals.wait() > 0.0:
            return      # who floods us with bad orders does not drive good ones out of the log
        self._refusals.take(1.0)
        try:
            with self._cloud.store.change() as db:
                audit.write(db, "", person, f"was refused `{order['do']}`: {why}", what={
                    "do": order["do"], "refused": True})
        except StoreProblem as problem:
            limited_log("refused", f"a refused order is not written down: {problem}")

    @staticmethod
    def _refuse(query: zenoh.Query, why: str) -> None:
        try:
            query.reply_err(clip_utf8(why, 2000))
        except zenoh.ZError as error:
            limited_log("refusal", f"a refusal could not be sent: {error}")

    def _status(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        robots = self._cloud.robots()
        states = [robot["state"] for robot in robots]
        return {"software": software(), "database": str(self._cloud.store.path), "runs_s": time.monotonic() -
                self._cloud.began, "robots": {state: states.count(state) for state in sorted(set(states))},
                "second": {robot["robot"]: robot["second"] for robot in robots if robot["second"]},
                "waiting": sum(robot["waiting"] for robot in robots), **self._resources(order, person)}

    def _robots(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        return {"robots": self._cloud.robots(), "tokens": self._belonging.tokens()}

    def _resources(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        rows = self._cloud.store.read(
            "SELECT desired.robot, desired.kind, desired.name, desired.version, reported.version, reported.status FROM "
            "desired LEFT JOIN reported USING (robot, kind, name) ORDER BY 2, 3, 1 LIMIT 10000")
        found = []
        for robot, kind, name, version, told, status in rows:
            status = json.loads(status) if status is not None and told == version else {"state": "ordered"}
            status.pop("twin", None)    # which is asked for by itself
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
            device_orders.check_orders(db, found)
            for one in found:
                changed = self._cloud.desired.apply(db, one, person)
                done.append({"kind": one.kind, "name": one.name, "changed": changed, "effect": one.kind in EFFECTIVE,
                             "cannot": self._cannot(db, one, changed, person)})
        for robot in {robot for one in done for robot in one["changed"]}:
            self._cloud.wake(robot)
        return {"resources": done}

    @staticmethod
    def _cannot(db: sqlite3.Connection, one: Resource, robots: list[str], person: str) -> list[str]:
        """Of which of these robots the version is another, so that it cannot do the order: why, and what helps."""
        found = []
        for robot in robots:
            known = db.execute("SELECT 1 FROM peers WHERE name = ? AND epoch IS NOT NULL", (robot,)).fetchone()
            why = None if known is None else versions.cannot(robot, versions.of(db, robot), one.kind, one.spec)
            if why is not None:
                audit.write(db, robot, person, f"{one.kind} {one.name}: {why}")
                found.append(why)
        return found

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
            which = {robot: self._installation(db, robot, order.get("installation")) for robot in robots}
            unknown = [robot for robot in robots if not self._cloud.accept(db, robot, person, which[robot])]
            if unknown:
                raise FormProblem(f"no robot {quoted(unknown[0])} has come yet; see `brain fleet nodes`")
        for robot in robots:
            log.info("%s is taken in anew, ordered by %s", robot, person)
            self._cloud.wake(robot)
        return {"robots": robots}

    def _installation(self, db: sqlite3.Connection, robot: str, named: str | None) -> str:
        """The installation that a person means; empty: the one that was taken in. Raises FormProblem."""
        seconds, known = list(self._cloud.seconds(robot)), history.read(db, robot)
        current = None if known is None else known.installation or known.incarnation
        ago = self._cloud.connected(robot)[1]
        if named is None:
            if not seconds or len(seconds) == 1 and (ago is None or ago > SILENT):
                return "".join(seconds)
            raise FormProblem(f"several installations say that they are {robot}: {current}, which was taken in, and "
                              f"{', '.join(seconds)}; name the right one with --installation")
        found = [one for one in [*seconds, *filter(None, [current])] if one.startswith(named)]
        if len(found) != 1:
            raise FormProblem(f"no installation, or more than one, of {robot} begins with {quoted(named)}; there is "
                              f"{', '.join([*filter(None, [current]), *seconds]) or 'none'}")
        return "" if found[0] == current else found[0]

    def _logs(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        rows = self._cloud.store.read(
            "SELECT number, at, robot, person, text FROM (SELECT * FROM events WHERE number > ? AND (? = '' OR robot = "
            "?) ORDER BY number DESC LIMIT ?) ORDER BY number",
            (order.get("after", 0), order.get("robot", ""), order.get("robot", ""), LINES))
        return {"events": [dict(zip(("number", "at", "robot", "person", "text"), row)) for row in rows]}

    def _devices(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        rows = self._cloud.store.read(
            "SELECT desired.robot, desired.name, desired.version, desired.spec, reported.version, reported.status FROM "
            "desired LEFT JOIN reported USING (robot, kind, name) WHERE kind = 'Device' AND (? = '' OR desired.robot = "
            "?) ORDER BY 1, 2 LIMIT 10000", (order.get("robot", ""), order.get("robot", "")))
        return {"devices": device_orders.devices(rows, {robot: self._cloud.connected(robot)[0] for robot in
                                                        {row[0] for row in rows}})}

    def _audit(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        with self._cloud.store.change():    # entries and head are of one moment
            return audit.page(self._cloud.store.read, order.get("after", 0), LINES)

    def _jobs(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        asked: Any = order.get("job")
        answer = serve(self._runner, asked, person)
        if asked["ask"] in ("apply", "delete"):     # both run, or end, what a person has chosen
            named = [f"{one['kind']} {one['metadata']['name']}" for one in asked.get("manifests", ())]
            with self._cloud.store.change() as db:
                audit.write(db, "", person, f"{asked['ask']} of jobs: {', '.join(named)}", what={
                    "do": f"jobs {asked['ask']}", "jobs": named})
        return answer

    def _learning(self, order: dict[str, Any], person: str) -> dict[str, Any]:
        learning = self._cloud.learning
        return {"learning": None if learning is None else learning.status()}

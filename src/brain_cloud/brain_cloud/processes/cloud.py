# SPDX-License-Identifier: Apache-2.0
"""The cloud of a fleet: it takes robots in, tells each what is wanted of it, and hears what each reports."""
from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Callable

import zenoh
from zenoh.handlers import Callback

from brain_cloud import audit
from brain_cloud.blobs.serving import Serving
from brain_cloud.enrolment import admission, versions
from brain_cloud.models.registry import Registry
from brain_cloud.models.rollouts import Rollouts
from brain_cloud.state.desired import FROM_CLOUD, Desired, hear
from brain_edge.blobs.carry import MODELS
from brain_edge.messages.delivery_counters import DeliveryCounters
from brain_edge.messages.inbox import Message
from brain_edge.messages.outbox import Limits, Outbox, OutboxFull
from brain_edge.messages.receiver import Desk, Receiver
from brain_edge.messages.sender import Hooks, Sender
from brain_edge.processes.settings import software
from brain_edge.state import events
from brain_edge.store import Store, StoreProblem
from brain_security.fleet_keys import CLOUD, alive, down, robot_of, up
from brain_wire import Session
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.wakeup import Signal

if TYPE_CHECKING:
    from brain_cloud.federated.aggregator import Aggregator
    from brain_cloud.federated.plan import Plan
    from brain_cloud.federated.rounds import Rounds

KEEPALIVE = 60.0    # s; robots tell of themselves far more often
ROLL = 1.0          # s between two looks at the roll-outs at the latest
NAMES = 2 * admission.MOST     # of robots that it is noted of that they are there: without keys anybody makes up names
SECONDS = 8         # installations that are refused of one robot and remembered
LATELY = 30.0       # s since such a one has come, for which it is told of
SILENT = 8.0        # s after which the one that was taken in is silent: it tells of itself every five
HERE = 15.0         # s since a robot has been heard, up to which it counts as connected

log = logging.getLogger("brain.cloud")
limited_log = RateLimitedLog(log)


class Cloud:
    """A cloud that runs until its session is closed.

    Args:
        store: its database.
        session: open session in which, or beside which, a router runs that robots reach.
        limits: of what may wait for one robot.
        authority: certificate of the fleet's, PEM; None: it has no keys.

    Attributes:
        store, outbox, desired, registry, rollouts, blobs: its parts.
        learning: what the fleet learns together; None: nothing.
        began: steady time.
        barred: whether a robot was revoked: nothing of it is taken, whatever the router lets through.
        tally: of its deliveries.
        losses: times that each robot's token vanished.
    """

    def __init__(self, store: Store, session: Session, limits: Limits = Limits(), authority: bytes | None = None
                 ) -> None:
        self.store, self.session = store, session
        self.outbox = Outbox(store, FROM_CLOUD, limits)
        self.desired = Desired(self.outbox)
        self.registry = Registry(store, authority)
        self.rollouts = Rollouts(store, self.desired, self.registry)
        self._news, self._stopping = Signal(), False
        self.began = time.monotonic()
        self.barred: Callable[[str], bool] = lambda robot: False
        self.rollouts.gone = lambda robot: self.barred(robot)
        self.tally = DeliveryCounters()
        self.losses: Counter[str] = Counter()
        self.learning: Rounds | None = None
        self._aggregator: Aggregator | None = None
        self._heard: dict[str, float] = {}      # steady time, by robot
        self._here: set[str] = set()            # robots whose token is there
        self._seconds: dict[str, dict[str, tuple[float, str]]] = {}     # by robot and installation: heard, and why
        self._lock = threading.Lock()
        version = software()
        self._sender = Sender(session, store, self.outbox, founds=True, software=version, tally=self.tally,
                              hooks=Hooks(apart=self._apart, heard=self._hear, refused=self._refused))
        desk = Desk(sender=self._speaker, standing=admission.admit, apply=self._apply,
                    joined=self._joined, begun=self.wake, apart=self._apart, heard=self._hear,
                    applied=lambda robot: self._news.set(), reads=self._sender.reads, second=self._second)
        for (robot,) in store.read("SELECT name FROM peers"):
            self._sender.serve(robot, down(robot), KEEPALIVE)
        self._reception = Receiver(session, up("*"), store, desk, software=version, tally=self.tally)
        self._tokens = session.zenoh.liveliness().declare_subscriber(
            alive("*"), Callback(self._token, indirect=False), history=True)
        self._sender.start()
        self.blobs = Serving(session, lambda robot: self.barred(robot))
        self.blobs.collections[MODELS] = self.registry
        session.run(self._roll, "rollouts")
        self._own = session.zenoh.liveliness().declare_token(alive(CLOUD))

    def stop(self) -> None:
        """Delivers nothing more; then the session may be closed."""
        self._sender.stop()
        self._stopping = True
        self._news.set()

    def _roll(self) -> None:
        """Does what is due of the roll-outs, when robots have told something and now and then."""
        while not self._stopping and not self.session.zenoh.is_closed():
            try:
                for robot in self.rollouts.look():
                    self.wake(robot)
            except (StoreProblem, OutboxFull) as problem:
                limited_log("rollouts", f"a roll-out cannot go on: {problem}")
            except Exception:   # the next look may
                limited_log("rollouts", "a roll-out cannot go on", trace=True, level=logging.ERROR)
            self._news.wait(ROLL)
            time.sleep(ROLL / 10)   # many robots that tell much are looked at together

    def _speaker(self, key: str) -> str | None:
        robot = robot_of(key, "up")
        return None if robot is not None and self.barred(robot) else robot

    def _apply(self, db: sqlite3.Connection, message: Message) -> None:
        hear(db, message)

    def _joined(self, db: sqlite3.Connection, robot: str) -> None:
        self.desired.joined(db, robot)
        events.write(db, robot, f"{robot} was taken in")
        log.info("%s was taken in", robot)
        self._sender.serve(robot, down(robot), KEEPALIVE)

    def _apart(self, robot: str, why: str) -> None:
        self.tally.apart += 1
        log.warning("%s is set apart: %s. Nothing is exchanged with it until `brain fleet accept %s`", robot, why,
                    robot)
        self._event(robot, f"{robot} is set apart: {why}")
        self._sender.serve(robot, down(robot), KEEPALIVE)

    def _refused(self, robot: str, stream: str, number: int, why: str) -> None:
        limited_log(f"refused {robot}", f"{robot} could not take in message {number} of the stream {stream}: {why}")
        self._event(robot, f"{robot} could not take in message {number} of the stream {stream}: {why}")

    def _event(self, robot: str, text: str) -> None:
        try:
            with self.store.change() as db:
                events.write(db, robot, text)
        except StoreProblem as problem:
            limited_log("event", f"an event is not written down: {problem}")

    def _hear(self, robot: str) -> None:
        with self._lock:
            if robot in self._heard or len(self._heard) < NAMES:
                self._heard[robot] = time.monotonic()

    def _token(self, sample: zenoh.Sample) -> None:
        """In Zenoh's thread: it only notes, and wakes."""
        robot = robot_of(str(sample.key_expr), "alive")
        if robot is None:
            return
        with self._lock:
            if sample.kind == zenoh.SampleKind.PUT:
                if len(self._here) < NAMES:
                    self._here.add(robot)
            else:
                self._here.discard(robot)
                if robot in self._heard:    # of others there is no end
                    self.losses[robot] += 1
        if sample.kind == zenoh.SampleKind.PUT:
            self._sender.wake(robot)

    def learn(self, plan: Plan) -> Rounds:
        """Begins, or goes on with, what the fleet learns together, in place of what it learned before.

        Raises:
            RecordsProblem: what is on the disk cannot be used.
        """
        from brain_cloud.federated.aggregator import Aggregator     # numpy, for who learns only
        from brain_cloud.federated.rounds import Rounds

        self.learning = Rounds(self.store.path.parent / "learning" / plan.name, plan, happened=self._event)
        if self._aggregator is None:
            self._aggregator = Aggregator(self.session, self.learning, lambda robot: self.barred(robot), self.blobs)
        else:
            self._aggregator.follow(self.learning)
        return self.learning

    def wake(self, robot: str) -> None:
        """There is something for a robot."""
        self._sender.wake(robot)

    def _second(self, robot: str, installation: str, why: str) -> None:
        now = time.monotonic()
        with self._lock:
            others = self._seconds.setdefault(robot, {})
            news = installation not in others and len(others) < SECONDS     # who makes them up fills no log
            if installation not in others and not news:
                del others[min(others, key=others.__getitem__)]
            others[installation] = now, why
        if news:
            log.warning("a second installation is refused: %s; `brain fleet accept %s --installation %s` makes it the "
                        "one", why, robot, installation)
            self._event(robot, f"a second installation is refused: {why}")

    def seconds(self, robot: str) -> dict[str, str]:
        """Other installations that have come lately under a robot's name: why each is refused."""
        with self._lock:
            return {one: why for one, (heard, why) in self._seconds.get(robot, {}).items()
                    if time.monotonic() - heard < LATELY}

    def accept(self, db: sqlite3.Connection, robot: str, person: str, installation: str | None = "") -> bool:
        """Takes a robot in anew, and is to tell it all that is wanted; whether it is known.

        Args:
            installation: see :func:`brain_cloud.enrolment.admission.accept`.
        """
        if not admission.accept(db, robot, self.outbox, installation):
            return False
        with self._lock:
            self._seconds.pop(robot, None)      # whoever is refused from now on comes again
        db.execute("DELETE FROM reported WHERE robot = ?", (robot,))
        self.desired.joined(db, robot)
        audit.write(db, robot, person, f"{robot} is taken in anew")
        return True

    def connected(self, robot: str) -> tuple[bool, float | None]:
        """Tells whether a robot is connected, and how long ago it was heard (s; None: not since this process began)."""
        with self._lock:
            heard, here = self._heard.get(robot), robot in self._here
        ago = None if heard is None else time.monotonic() - heard
        return here and ago is not None and ago < HERE, ago

    def robots(self, read: Callable[..., list[Any]] | None = None) -> list[dict[str, Any]]:
        """All robots that are known, and how each is.

        Args:
            read: runs a query; None: that of the store.
        """
        read = read or self.store.read
        found = []
        counts: dict[str, dict[str, int]] = {}
        for robot, state, count in read(
                "SELECT desired.robot, json_extract(status, '$.state'), COUNT(*) FROM desired LEFT JOIN reported ON "
                "reported.robot = desired.robot AND reported.kind = desired.kind AND reported.name = desired.name AND "
                "reported.version = desired.version GROUP BY 1, 2"):
            counts.setdefault(robot, {})[state or "ordered"] = count
        rows = read(
            "SELECT name, apart, pending, software, COALESCE((SELECT last FROM versions WHERE robot = name), 0), "
            "COALESCE((SELECT SUM(waiting) FROM outgoing WHERE peer = name), 0) FROM peers ORDER BY name")
        knows, own = versions.of_all(self.store), software()
        for name, apart, pending, version, wanted, waiting in rows:
            here, ago = self.connected(name)
            seconds = self.seconds(name)
            if seconds and not pending and apart is None and (ago is None or ago > SILENT):
                apart = next(iter(seconds.values()))    # it alone is there
            state = ("revoked" if self.barred(name) else "apart" if apart is not None and not pending else
                     "connected" if here else "away")
            found.append({"robot": name, "state": state, "apart": None if pending else apart, "heard_s": ago,
                          "second": seconds, "waiting": waiting, "version": wanted, "resources": counts.pop(name, {}),
                          "software": knows.get(name, {}).get("software", version),
                          "lacks": versions.lacks(name, knows.get(name, versions.FIRST), own)})
        # ordered for robots that have not come yet
        found += [{"robot": name, "state": "unknown", "apart": None, "heard_s": None, "second": {}, "waiting": 0,
                   "version": 0, "resources": count, "software": None, "lacks": []}
                  for name, count in sorted(counts.items())]
        return found

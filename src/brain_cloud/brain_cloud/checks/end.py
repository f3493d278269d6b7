# SPDX-License-Identifier: Apache-2.0
"""One end of a link as a process that only counts: ``python -m brain_cloud.checks.end ROLE FOLDER PORT``.

It reads from standard input how many messages of each stream there are to be, as ``{"a": 100}`` in a line, makes those
that are missing, and says on standard output what it accepted and how much waits. What arrives it writes into a table
that takes anything, in the order in which it comes: doubles and gaps would show.
"""
from __future__ import annotations

import json
import logging
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

import zenoh
from zenoh.handlers import Callback

from brain_cloud.enrolment import admission
from brain_edge.messages import history
from brain_edge.messages.history import Standing
from brain_edge.messages.inbox import Message
from brain_edge.messages.outbox import Limits, Outbox, OutboxFull, Stream
from brain_edge.messages.receiver import Desk, Receiver
from brain_edge.messages.sender import Sender
from brain_edge.processes.settings import ZENOH
from brain_edge.store import Store
from brain_runtime.run.ending import Ending, leave
from brain_security.fleet_keys import CLOUD, alive, down, up
from brain_wire import Session, open_session
from brain_wire.router import Router
from brain_wire.session import Elsewhere

ROBOT = "robot1"
STREAMS = (Stream("a", 0), Stream("b", 1))
AT_ONCE = 200       # messages that are accepted in one transaction
TELL = 0.1          # s between two lines about itself

TABLES = ("CREATE TABLE IF NOT EXISTS made (stream TEXT PRIMARY KEY, count INTEGER NOT NULL)",
          "CREATE TABLE IF NOT EXISTS arrived (place INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT, number INTEGER)")


class End:
    """Makes numbered messages for the other end, and writes down those that come.

    Args:
        role: ``cloud`` or ``robot``.
        store: its database.
        session: open session.
    """

    def __init__(self, role: str, store: Store, session: Session) -> None:
        self.store, self.peer = store, ROBOT if role == CLOUD else CLOUD
        self.outbox = Outbox(store, STREAMS, Limits(messages=50_000))
        self.targets: dict[str, int] = {}
        self.changed = threading.Event()
        with store.change() as db:
            for table in TABLES:
                db.execute(table)
        self.sender = Sender(session, store, self.outbox, founds=role == CLOUD)
        standing = admission.admit if role == CLOUD else self._standing
        key = up(ROBOT) if role == CLOUD else down(ROBOT)
        Receiver(session, key, store, Desk(lambda _: self.peer, standing, self._arrive))
        self.sender.serve(self.peer, down(ROBOT) if role == CLOUD else up(ROBOT), 1.0)
        self._tokens = session.zenoh.liveliness().declare_subscriber(
            alive(self.peer), Callback(self._token, indirect=False), history=True)
        self.sender.start()
        self._own = session.zenoh.liveliness().declare_token(alive(store.member))

    def _token(self, sample: zenoh.Sample) -> None:
        self.sender.wake(self.peer)

    @staticmethod
    def _standing(db: sqlite3.Connection, request: Any) -> Standing:
        known = history.read(db, CLOUD)
        if known is None or known.apart is not None or request.epoch != known.epoch:
            return Standing(None if known is None else known.epoch, apart=None if known is None else known.apart)
        return Standing(known.epoch, open=True)

    @staticmethod
    def _arrive(db: sqlite3.Connection, message: Message) -> None:
        db.execute("INSERT INTO arrived (stream, number) VALUES (?, ?)", (message.stream, message.body["number"]))

    def make(self) -> bool:
        """Makes some of the messages that are missing; whether there may be more to make."""
        more = False
        for stream, target in self.targets.items():
            try:
                with self.store.change() as db:
                    row = db.execute("SELECT count FROM made WHERE stream = ?", (stream,)).fetchone()
                    made = 0 if row is None else row[0]
                    until = min(target, made + AT_ONCE)
                    for number in range(made + 1, until + 1):
                        self.outbox.put(db, self.peer, stream, "number", {"number": number})
                    db.execute("INSERT OR REPLACE INTO made VALUES (?, ?)", (stream, until))
            except OutboxFull:
                time.sleep(TELL)    # it is made when there is room
                more = True
                continue
            more |= until < target
        self.sender.wake(self.peer)
        return more

    def tell(self) -> dict[str, Any]:
        """Returns the progress of this end; what it says that it has made is on the disk."""
        made = dict(self.store.read("SELECT stream, count FROM made"))
        arrived = dict(self.store.read("SELECT stream, applied FROM incoming WHERE peer = ?", (self.peer,)))
        apart = self.store.read("SELECT apart FROM peers WHERE name = ?", (self.peer,))
        return {"made": made, "arrived": arrived, "waiting": self.outbox.waiting(self.peer),
                "apart": apart[0][0] if apart else None}


def main(argv: list[str]) -> int:
    """Runs until standard input ends, SIGTERM or SIGKILL."""
    role, folder, port = argv[0], Path(argv[1]), int(argv[2])
    ending = Ending()
    logging.basicConfig(level=logging.WARNING, format=f"%(asctime)s {role} %(levelname)s %(message)s")
    endpoint = f"tcp/127.0.0.1:{port}"
    with Store(folder, CLOUD if role == CLOUD else ROBOT) as store:
        if role == CLOUD:
            with Router([endpoint], more=ZENOH) as router, Session(router.session, endpoint) as session:
                _run(End(role, store, session), ending)
        else:
            with open_session(endpoint, patience=60.0, stop=ending.asked, more=ZENOH, elsewhere=Elsewhere()) as session:
                _run(End(role, store, session), ending)
    return 0


def _run(end: End, ending: Ending) -> None:
    threading.Thread(target=_listen, args=(end, ending), daemon=True).start()
    more, told = True, ""
    while not ending.asked.is_set():
        more = end.make() if more or end.changed.is_set() else False
        end.changed.clear()
        line = json.dumps(end.tell())
        if line != told:
            print(line, flush=True)
            told = line
        if not more:
            end.changed.wait(TELL)
    end.sender.stop()


def _listen(end: End, ending: Ending) -> None:
    for line in sys.stdin:
        end.targets = json.loads(line)
        end.changed.set()
    ending.asked.set()
    end.changed.set()


if __name__ == "__main__":
    leave(main(sys.argv[1:]))

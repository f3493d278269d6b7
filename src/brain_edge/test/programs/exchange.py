# SPDX-License-Identifier: Apache-2.0
"""A sender and a receiver in one process, without a wire, killed at one of their statements.

``python exchange.py FOLDER STATEMENT``: SIGKILL comes before that statement of either database; 0: never. It goes on
from whatever it finds in the folder.
"""
from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path

from brain_edge.messages import envelope, inbox
from brain_edge.messages.envelope import Request
from brain_edge.messages.outbox import Outbox, Stream
from brain_edge.store import Store

MESSAGES = 30


def main(folder: Path, statement: int) -> None:
    counter = itertools.count(1)

    def count(_: str) -> None:
        if next(counter) == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    with Store(folder / "sender", "robot1") as sender, Store(folder / "receiver", "cloud") as receiver:
        with sender.change() as db:
            db.execute("CREATE TABLE IF NOT EXISTS made (number INTEGER)")
        with receiver.change() as db:
            db.execute("CREATE TABLE IF NOT EXISTS arrived (place INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER)")
        for store in (sender, receiver):
            store._db.set_trace_callback(count)
        outbox = Outbox(sender, [Stream("numbers", 0)])
        made = sender.read("SELECT COUNT(*) FROM made")[0][0]
        while made < MESSAGES or outbox.waiting("cloud"):
            if made < MESSAGES:
                with sender.change() as db:
                    numbers = range(made + 1, min(MESSAGES, made + 4) + 1)
                    for number in numbers:
                        db.execute("INSERT INTO made VALUES (?)", (number,))
                        # every fifth is of no use any more when it is delivered
                        outbox.put(db, "cloud", "numbers", "number", {"number": number}, lives=0.0 if number % 5 == 0
                                   else None)
                    outbox.expire(db)
                made = numbers[-1]
            request = Request("robot1", "cloud", sender.incarnation, "0" * 16, outbox.take("cloud", most=7))
            request = envelope.read_request(envelope.write_request(request))
            with receiver.change() as db:
                inbox.receive(db, "robot1", request.portions, lambda db, message: db.execute(
                    "INSERT INTO arrived (number) VALUES (?)", (message.body["number"],)))
            with receiver.change() as db:
                applied = inbox.places(db, "robot1")
            with sender.change() as db:
                outbox.acknowledge(db, "cloud", applied)
    print(next(counter), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

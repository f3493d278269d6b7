# SPDX-License-Identifier: Apache-2.0
"""Epochs: whether the two ends of a link still have the same history.

Numbers of messages mean something within an *epoch* only: a name that the cloud draws when it takes a robot in, and
that both keep. An end that lost its database has another *incarnation* and no epoch; one that was restored from a
backup knows fewer messages than the other end has applied or acknowledged, or other ones of the same number. Whichever
end notices sets the other *apart*: nothing is exchanged, since either could be obeyed backwards, until a person who
knows what happened says ``brain fleet accept ROBOT``. Then a new epoch begins.
"""
from __future__ import annotations

import sqlite3
from typing import NamedTuple

from brain_edge.messages.envelope import Answer, Request
from brain_edge.messages.outbox import Outbox

REMEDY = "`brain fleet accept {}` at the cloud takes it in anew"


class Peer(NamedTuple):
    """Another end, as it is known here.

    Attributes:
        name: robot, or ``cloud``.
        incarnation: of its database.
        epoch: of the link; None before it was taken in.
        apart: why nothing is exchanged with it; None where it is.
        pending: a new epoch began of which it has not heard yet.
        installation: that was taken in; None: whoever has that database, or comes first.
    """

    name: str
    incarnation: str | None
    epoch: str | None
    apart: str | None
    pending: bool
    installation: str | None = None


class Standing(NamedTuple):
    """Decision on a request: its epoch, and whether its messages may be applied.

    Attributes:
        epoch: that holds here.
        open: its messages may be applied.
        joined: the robot has just been taken in: it must be told all that is wanted of it.
        begun: the sender has just begun this epoch: what waits for it can be delivered.
        found: the sender is to begin this epoch.
        apart: why nothing is exchanged with it.
        second: another installation has this name: nothing is exchanged with this one, and with that one all is well.
    """

    epoch: str | None
    open: bool = False
    joined: bool = False
    begun: bool = False
    found: bool = False
    apart: str | None = None
    second: bool = False


def read(db: sqlite3.Connection, name: str) -> Peer | None:
    """A peer; None where nobody of that name is known."""
    row = db.execute("SELECT name, incarnation, epoch, apart, pending, installation FROM peers WHERE name = ?",
                     (name,)).fetchone()
    return None if row is None else Peer(row[0], row[1], row[2], row[3], bool(row[4]), row[5])


def set_apart(db: sqlite3.Connection, name: str, why: str) -> bool:
    """Exchanges nothing more with a peer; whether that is news."""
    return db.execute("INSERT INTO peers (name, apart) VALUES (?, ?) ON CONFLICT DO UPDATE SET apart = excluded.apart "
                      "WHERE apart IS NULL", (name, why)).rowcount > 0


def named(request: Request) -> str:
    """The installation that a robot's request comes from; one that tells of none is known by its database."""
    return request.installation or request.incarnation


def adopt(db: sqlite3.Connection, cloud: str, answer: Answer, outbox: Outbox) -> int | None:
    """Begins the epoch that the cloud tells a robot to begin; returns how many of its messages the robot lets go of.

    None where it is in that epoch already. What waits is sent in the new epoch, but for messages that the cloud may
    have applied already.
    """
    known = read(db, cloud)
    if not answer.found or answer.epoch is None or (known is not None and known.epoch == answer.epoch):
        return None
    dropped = outbox.begin_anew(db, cloud, keep=True)
    db.execute("DELETE FROM incoming WHERE peer = ?", (cloud,))
    db.execute("INSERT INTO peers (name, incarnation, epoch) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET incarnation = "
               "excluded.incarnation, epoch = excluded.epoch, apart = NULL, pending = 0",
               (cloud, answer.incarnation, answer.epoch))
    return dropped

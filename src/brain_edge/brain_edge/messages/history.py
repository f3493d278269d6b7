# SPDX-License-Identifier: Apache-2.0
"""Epochs: whether the two ends of a link still have the same history.

Numbers of messages mean something within an *epoch* only: a name that the cloud draws when it takes a robot in, and
that both keep. An end that lost its database has another *incarnation* and no epoch; one that was restored from a
backup knows fewer messages than the other end has applied or acknowledged, or other ones of the same number. Whichever
end notices sets the other *apart*: nothing is exchanged, since either could be obeyed backwards, until a person who
knows what happened says ``brain fleet accept ROBOT``. Then a new epoch begins.
"""
from __future__ import annotations

import secrets
import sqlite3
from typing import NamedTuple

from brain_edge.messages.envelope import Answer, Request
from brain_edge.messages.outbox import Outbox
from brain_edge.schema import FormProblem

MOST = 20_000       # robots of a cloud
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


def _second(known: Peer, request: Request) -> str | None:
    """Returns why a request is of another installation than the one that was taken in; None where it is of that one.

    Raises:
        FormProblem: it does not say which, and could.
    """
    robot, same = known.name, known.incarnation in (None, request.incarnation)
    if known.installation in (None, named(request)):
        if known.installation is not None or same:
            return None
    elif request.installation is None and same:     # from before installations had ids
        if request.formats is not None and request.formats[1] >= 3:
            raise FormProblem("it does not say which installation it comes from, as format 3 does")
        return None
    why = ("its database was restored from an older state, or is a copy of another robot's" if same else
           "the one that it had was lost, or two robots have this name")
    return f"{robot} comes with another database than before, as installation {named(request)}: {why}"


def admit(db: sqlite3.Connection, request: Request) -> Standing:
    """Decides, in the cloud, what a robot's request may do.

    Raises:
        FormProblem: it lacks what it could say.
    """
    robot, known = request.sender, read(db, request.sender)
    if known is None and db.execute("SELECT COUNT(*) FROM peers").fetchone()[0] >= MOST:
        return Standing(None, apart=f"this cloud knows {MOST} robots already, and takes no more in")
    if known is None and request.epoch is None:
        epoch = secrets.token_hex(8)
        db.execute("INSERT INTO peers (name, incarnation, epoch, software, installation) VALUES (?, ?, ?, ?, ?)",
                   (robot, request.incarnation, epoch, request.software, request.installation))
        return Standing(epoch, joined=True, found=True)
    if known is None:
        return _apart(db, robot, None, f"{robot} belongs to a fleet that the database of this cloud does not know: "
                                       f"that was lost, or {robot} had another cloud before")
    second = _second(known, request)
    if second is not None:
        return Standing(None, apart=second, second=True)
    if known.installation != request.installation:
        db.execute("UPDATE peers SET installation = ?, incarnation = ? WHERE name = ?",
                   (request.installation, request.incarnation, robot))
    if known.pending:
        if request.epoch != known.epoch:
            return Standing(known.epoch, found=True)
        db.execute("UPDATE peers SET pending = 0, apart = NULL, incarnation = ? WHERE name = ?",
                   (request.incarnation, robot))
        return Standing(known.epoch, open=True, begun=True)
    if known.apart is not None:
        return Standing(known.epoch, apart=known.apart)
    if request.apart is not None:
        return _apart(db, robot, known.epoch, request.apart)
    if request.incarnation != known.incarnation and known.incarnation is not None:
        return _apart(db, robot, known.epoch, f"{robot} comes with another database than before: the one that it had "
                                              f"was lost, or two robots have this name")
    if request.epoch is None:       # the answer that told it was lost
        return Standing(known.epoch, found=True)
    if request.epoch != known.epoch:
        return _apart(db, robot, known.epoch, f"{robot} and this cloud are not in the same epoch: the database of one "
                                              f"of them was restored, from before {robot} was taken in anew")
    return Standing(known.epoch, open=True)


def _apart(db: sqlite3.Connection, robot: str, epoch: str | None, why: str) -> Standing:
    set_apart(db, robot, why)
    return Standing(epoch, apart=why)


def accept(db: sqlite3.Connection, robot: str, outbox: Outbox, installation: str | None = "") -> bool:
    """Takes a robot in anew: a new epoch, in which nothing has been sent yet. Whether the robot is known at all.

    Args:
        installation: that is the robot from now on; None: the first that comes; empty: the same as before.
    """
    if read(db, robot) is None:
        return False
    if installation != "":
        db.execute("UPDATE peers SET installation = ?, incarnation = NULL WHERE name = ?", (installation, robot))
    db.execute("UPDATE peers SET epoch = ?, apart = NULL, pending = 1 WHERE name = ?", (secrets.token_hex(8), robot))
    outbox.begin_anew(db, robot, keep=False)
    db.execute("DELETE FROM incoming WHERE peer = ?", (robot,))
    return True


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

# SPDX-License-Identifier: Apache-2.0
"""Admission: which robots a cloud exchanges messages with, in which epoch; see :mod:`brain_edge.messages.history`."""
from __future__ import annotations

import secrets
import sqlite3

from brain_edge.messages.envelope import Request
from brain_edge.messages.history import Peer, Standing, named, read, set_apart
from brain_edge.messages.outbox import Outbox
from brain_edge.schema import FormProblem

MOST = 20_000       # robots of a cloud


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

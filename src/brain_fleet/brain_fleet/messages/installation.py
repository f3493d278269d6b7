# SPDX-License-Identifier: Apache-2.0
"""Installations: which of two robots of one name is the one that was taken in.

An installation has a random id, drawn with its database. What others are told is that id bound to the machine and to
the file of the database, so that a copy, be it of a disk or of a folder, is another installation. It is no secret: a
fleet with keys knows its robots by their certificates, of which a copied disk has copies too.
"""
from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from brain_fleet.store import Store

# What names a machine, as far as any user can read it: of the system, and of boards whose disks are copied often.
MACHINE = ("/etc/machine-id", "/var/lib/dbus/machine-id", "/sys/firmware/devicetree/base/serial-number")


def installation(store: Store) -> str:
    """Id of the installation whose database this is, 16 digits of base 16. Raises StoreProblem, OSError."""
    with store.change() as db:
        db.execute("INSERT OR IGNORE INTO about VALUES ('installation', ?)", (secrets.token_hex(16),))
        (drawn,) = db.execute("SELECT value FROM about WHERE key = 'installation'").fetchone()
    bound = [*map(_text, MACHINE), str(os.stat(store.path).st_ino)]
    return hmac.new(drawn.encode(), "\n".join(bound).encode(), hashlib.sha256).hexdigest()[:16]


def _text(path: str) -> str:
    """What a file says; empty where there is none, as in many containers."""
    try:
        return Path(path).read_bytes()[:200].decode("ascii", "replace").strip("\0\n ")
    except OSError:
        return ""

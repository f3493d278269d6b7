# SPDX-License-Identifier: Apache-2.0
"""Installations: which of two robots of one name is the one that was taken in.

An installation has a random id, drawn with its database. What others are told is that id bound to the machine, to the
disk and to the file of the database, so that a copy, be it of a disk or of a folder, is another installation. It is no
secret: a fleet with keys knows its robots by their certificates, of which a copied disk has copies too.

A copied disk has copies of the machine's id and of the file's number too. So the database remembers the serial numbers
of the disk on which it was seen first, and what is told is bound to those of another disk. To the same one it is not: a
robot of a version that knew nothing of disks stays the same.
"""
from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from brain_edge.store import Store

# What names a machine, as far as any user can read it: of the system, and of boards whose disks are copied often.
DISKS = Path("/sys/dev/block")      # by the numbers of their devices
SERIALS = ("device/cid", "device/wwid", "wwid", "device/serial", "serial")     # SD cards, SATA and USB, NVMe, virtual
MACHINE = ("/etc/machine-id", "/var/lib/dbus/machine-id", "/sys/firmware/devicetree/base/serial-number")


def installation(store: Store) -> str:
    """Id of the installation whose database this is, 16 digits of base 16. Raises StoreProblem, OSError."""
    with store.change() as db:
        db.execute("INSERT OR IGNORE INTO about VALUES ('installation', ?)", (secrets.token_hex(16),))
        (drawn,) = db.execute("SELECT value FROM about WHERE key = 'installation'").fetchone()
        here = disk(store.path)
        if here:
            db.execute("INSERT OR IGNORE INTO about VALUES ('disk', ?)", ("\n".join(sorted(here)),))
        first = db.execute("SELECT value FROM about WHERE key = 'disk'").fetchone()
    another = sorted(here) if here and here.isdisjoint(first[0].split("\n")) else []
    bound = [*map(_text, MACHINE), str(os.stat(store.path).st_ino), *another]
    return hmac.new(drawn.encode(), "\n".join(bound).encode(), hashlib.sha256).hexdigest()[:16]


def disk(path: str | os.PathLike[str]) -> set[str]:
    """Serial numbers of the disk that holds a file, or of the disks; empty where none can be read."""
    number = os.stat(path).st_dev
    return _serials(DISKS / f"{os.major(number)}:{os.minor(number)}", 8)


def _serials(device: Path, deep: int) -> set[str]:
    try:
        device = device.resolve(strict=True)
        below = list((device / "slaves").iterdir()) if deep and (device / "slaves").is_dir() else []
    except OSError:
        return set()
    if below:       # encrypted, mirrored, or of several disks
        return set().union(*(_serials(one, deep - 1) for one in below))
    whole = device.parent if (device / "partition").exists() else device
    return {_text(whole / name) for name in SERIALS} - {""}


def _text(path: str | Path) -> str:
    """Reads the text of a file; empty where there is none, as in many containers."""
    try:
        return Path(path).read_bytes()[:200].decode("ascii", "replace").strip("\0\n ")
    except OSError:
        return ""

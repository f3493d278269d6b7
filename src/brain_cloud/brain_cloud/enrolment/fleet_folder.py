# SPDX-License-Identifier: Apache-2.0
"""Changes of the fleet's folder by its cloud: its members, the router's rules, and the router's certificate."""
from __future__ import annotations

import contextlib
import fcntl
import json
from dataclasses import asdict
from pathlib import Path
from typing import Iterator

from brain_security.access import access_control
from brain_security.certificates import Pair, make_pair
from brain_security.folder import FolderError, read_router, rewrite, router_bytes, tls_settings
from brain_security.members import FILE, FORMAT, Register, read_register, robots_of
from brain_security.rights import AUTHORITY, ROUTER, rights_of_fleet

LOCK = ".members.lock"


@contextlib.contextmanager
def change(folder: Path) -> Iterator[Register]:
    """Yields the register, to be changed; it is on the disk as a whole when this ends, and unchanged where it raises.

    Raises:
        FolderError: it cannot be read or written.
    """
    folder = Path(folder)
    try:
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            register = read_register(folder)
            yield register
            rewrite(folder / FILE, json.dumps({
                "format": FORMAT, "members": [asdict(one) for _, one in sorted(register.members.items())],
                "tokens": register.tokens}, indent=1).encode() + b"\n")
    except OSError as error:
        raise FolderError(f"cannot write {folder / FILE}: {error.strerror or error}") from error


def write_rules(folder: Path) -> bool:
    """Brings the router's rules to what is known of members; whether they were others.

    Raises:
        FolderError: the folder is no fleet's, or cannot be written.
    """
    folder = Path(folder)
    robots = robots_of(folder)
    tree = read_router(folder)
    about = tree["metadata"]["brain"]
    people = [one for one in about.get("operators", ()) if isinstance(one, str)]
    rules = access_control(rights_of_fleet(robots, people), about.get("domain", 0), [f"/{ROUTER}"], robots)
    if tree.get("access_control") == rules and about["robots"] == list(robots):
        return False
    tree["access_control"], about["robots"] = rules, list(robots)
    about["names"] = sorted([*robots, *people])
    try:
        rewrite(folder / f"{ROUTER}.json5", router_bytes(tree))
    except OSError as error:
        raise FolderError(f"cannot write {folder / f'{ROUTER}.json5'}: {error.strerror or error}") from error
    return True


def renew_router(folder: Path, days: float, at: float | None = None) -> Pair:
    """Gives the router another certificate and key, with the names that it has; the rules stay as they are.

    Raises:
        FolderError: a file cannot be read or written.
        CertificateError: nothing can be signed.
        FileNotFoundError: the folder has no router, or no authority that signs.
    """
    folder = Path(folder)
    tree = read_router(folder)
    try:
        authority, before = (Pair((folder / f"{name}.key").read_bytes(), (folder / f"{name}.crt").read_bytes())
                             for name in (AUTHORITY, ROUTER))
        pair = make_pair(authority, before.name, days, sorted(before.hosts()), at=at)
        # The one file that the router reads is written last: until then it goes on with what it had.
        rewrite(folder / f"{ROUTER}.key", pair.key)
        rewrite(folder / f"{ROUTER}.crt", pair.certificate, 0o644)
        for side in ("listen", "connect"):
            tree["transport"]["link"]["tls"].update(tls_settings(pair, authority, side))
        tree["metadata"]["brain"]["valid_until"] = pair.ends.timestamp()
        rewrite(folder / f"{ROUTER}.json5", router_bytes(tree))
    except FileNotFoundError:
        raise
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise FolderError(f"the router's certificate in {folder} cannot be renewed ({error})") from error
    return pair

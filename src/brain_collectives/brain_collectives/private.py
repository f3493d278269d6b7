# SPDX-License-Identifier: Apache-2.0
"""Links that nobody but the group can come by: sockets in a folder of this user alone, or a secret that all ranks have.

The store by which ranks meet is open to all that reach it, as torch's is. So the folder does not come from there, and a
secret is not in there: with one, what ranks write into the store is sealed.
"""
from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator

from brain_collectives.errors import CollectiveError

FOLDER = f"/tmp/brain_collectives-{os.getuid()}"     # whatever TMPDIR says, which may differ between ranks
USER = "brain_collectives"      # by whose name ranks with a secret know each other
SEAL = hashlib.sha256().digest_size * 2     # characters


def folder() -> Path:
    """The folder of this user's sockets: the same for all of its processes that share ``/tmp``.

    Raises:
        CollectiveError: others can enter it.
    """
    path = Path(FOLDER)
    with suppress(FileExistsError):
        path.mkdir(0o700)
    its = path.lstat()
    if not stat.S_ISDIR(its.st_mode) or its.st_uid != os.getuid() or its.st_mode & 0o077:
        raise CollectiveError(f"{path} must be a folder that this user alone may enter (mode 700), and is not; have it "
                              f"removed")
    return path


def clear(path: Path) -> None:
    """Removes what processes that were killed have left in the folder: Zenoh holds a lock on what is in use."""
    for lock in path.glob("*.lock"):
        with suppress(OSError), lock.open() as its:
            fcntl.flock(its, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.with_suffix("").unlink()       # first: a process that begins here makes both
            lock.unlink()


def seal(text: str, secret: str | None, where: str) -> str:
    """Seals a text that is written into a store under a key, by an HMAC with the secret.

    Args:
        secret: None: as it is.
        where: the key, of which the seal is a part: what was written elsewhere, or before, is no good here.
    """
    if secret is None:
        return text
    return hmac.new(secret.encode(), f"{where}\n{text}".encode(), hashlib.sha256).hexdigest() + text


def unseal(data: bytes, secret: str | None, where: str) -> str:
    """Checks the seal of what was read from a store, and returns the text that :func:`seal` was given.

    Raises:
        ValueError: it was not written by who has the secret.
    """
    text = data.decode()
    if secret is None:
        return text
    if not hmac.compare_digest(seal(text[SEAL:], secret, where).encode(), data):
        raise ValueError("its seal is not of this rank's BRAIN_COLLECTIVES_SECRET; give all ranks the same")
    return text[SEAL:]


@contextmanager
def known_by(secret: str | None) -> Iterator[dict[str, object]]:
    """Yields Zenoh's configuration, by key, for links only with who has the secret; until its session is open.

    Without a secret it is told nothing.
    """
    if secret is None:
        yield {}
        return
    with tempfile.NamedTemporaryFile("w", dir=folder(), prefix="secret-") as file:
        file.write(f"{USER}:{secret}\n")
        file.flush()
        yield {"transport/auth/usrpwd/user": USER, "transport/auth/usrpwd/password": secret,
               "transport/auth/usrpwd/dictionary_file": file.name}

# SPDX-License-Identifier: Apache-2.0
"""The data gate, an init container: fetches and checks a worker's data, and by its end releases the worker.

``python -m brain_fleet.cluster.gate --data URL PATH SHA256 ...``. Status 0: all is there and right; 1: not, and why.
"""
from __future__ import annotations

import argparse
import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Callable, Sequence

from brain_wire import safe_text

ANY = "any"
PIECE = 2**20           # bytes read at once
PATIENCE = 30.0         # s without a byte
WAITS = (1.0, 2.0, 4.0, 8.0, 15.0)      # s between tries; then the container ends, and Kubernetes starts it again
MOST = 200 * 2**30      # bytes of a data set


class NotRight(RuntimeError):
    """The data are not there or not right; says which and the remedy."""


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()


def check(path: Path, sha256: str) -> None:
    """Raises NotRight where a file or a folder of this node is not there, or is another than it must be."""
    try:
        if not path.exists():
            raise NotRight(f"{path} is not on this node; copy the data there, or set nodeName of the Dataset")
        if path.is_dir():
            if sha256 != ANY:
                raise NotRight(f"{path} is a folder, and a sha256 is checked of files only")
            os.listdir(path)
        elif sha256 != ANY and (found := digest_of(path)) != sha256:
            raise NotRight(f"{path} has sha256 {found}, and must have {sha256}; it is another file, or torn")
        else:
            path.open("rb").close()
    except OSError as error:
        raise NotRight(f"{path} cannot be read: {error.strerror or error}") from None


def fetch(url: str, path: Path, sha256: str, most: int = MOST, sleep: Callable[[float], None] = time.sleep) -> None:
    """Fetches a file, unless it is there and right; what is not complete and right never has its name.

    Raises:
        NotRight: it cannot be had, or is another than it must be.
    """
    if sha256 != ANY and path.is_file() and digest_of(path) == sha256:
        return
    part = path.with_name(path.name + ".part")
    for wait in (*WAITS, None):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            found = _download(url, part, most)
            break
        except urllib.error.HTTPError as error:
            why = f"{error.code} {error.reason}"
            if 400 <= error.code < 500 and error.code != 429:
                raise NotRight(f"{safe_text.quoted(url)} answers {why}") from None
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            why = str(getattr(error, "reason", error)) or type(error).__name__
        except (OSError, ValueError) as error:
            raise NotRight(f"{safe_text.quoted(url)} cannot be written to {path}: {error}") from None
        if wait is None:
            raise NotRight(f"{safe_text.quoted(url)} cannot be fetched: {why}")
        print(f"data gate: {safe_text.line(f'{url}: {why}; again in {wait:g} s')}", file=sys.stderr, flush=True)
        sleep(wait)
    if sha256 not in (ANY, found):
        part.unlink()
        raise NotRight(f"{safe_text.quoted(url)} has sha256 {found}, and must have {sha256}; it is another file, "
                       f"or torn")
    os.replace(part, path)


def _download(url: str, part: Path, most: int) -> str:
    found, size = hashlib.sha256(), 0
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer, part.open("wb") as file:
        told = answer.headers.get("Content-Length", "")
        while piece := answer.read(PIECE):
            size += len(piece)
            if size > most:
                raise ValueError(f"it has more than {most} bytes")
            found.update(piece)
            file.write(piece)
        if told.isdigit() and size != int(told):
            raise ConnectionError(f"it ended after {size} of {told} bytes")
        file.flush()
        os.fsync(file.fileno())
    return found.hexdigest()


def main(argv: Sequence[str] | None = None) -> int:
    """Opens the gate, or says why not; returns the exit status."""
    parser = argparse.ArgumentParser(prog="data gate", description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs=3, action="append", required=True, metavar=("URL", "PATH", "SHA256"))
    for url, path, sha256 in parser.parse_args(argv).data:
        try:
            if url.startswith(("http://", "https://")):
                fetch(url, Path(path), sha256)
            else:
                check(Path(path), sha256)
        except NotRight as problem:
            print(f"data gate: {safe_text.line(problem)}", file=sys.stderr)
            return 1
        print(f"data gate: {safe_text.line(path)} is there and right", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Inputs of workers: files and folders of this machine, or fetched from elsewhere; checked, and whole or not there.

Paths and ``file://`` are read here, ``http://`` and ``https://`` too, from where a download was cut off where its
digest is known. Other schemes are read by fsspec, where that and what the scheme needs are installed.
"""
from __future__ import annotations

import base64
import hashlib
import http.client
import importlib
import os
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Callable

from brain_edge.blobs.store import PART, SHA256, digest_of
from brain_wire.safe_text import line, quoted

PATIENCE = 30.0         # s without a byte
WAITS = (1.0, 2.0, 4.0, 8.0, 15.0)      # s between tries; whoever started this starts it again later
PIECE = 2**20           # bytes read at once
MOST = 200 * 2**30      # bytes of a download


class InputProblem(RuntimeError):
    """An input is not there, or not what it is to be; says which, and the remedy."""


def digest(path: Path) -> str:
    """SHA-256 of a file; of a folder that of its files' digests and names, in order, as sha256sum writes them.

    Returns:
        64 digits of base 16.

    Raises:
        OSError: it cannot be read.
        InputProblem: it holds what is neither file nor folder.
    """
    if not path.is_dir():
        return digest_of(path).removeprefix(SHA256)
    found = []
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            one = Path(folder, name)
            if one.is_symlink() and one.is_dir() or not (one.is_dir() or one.is_file()):
                raise InputProblem(f"{one} is neither a file nor a folder of its own; take it out of the data")
        found += [Path(folder, name) for name in files]
    whole = hashlib.sha256()
    for one in sorted(found, key=lambda its: its.relative_to(path).as_posix()):
        whole.update(f"{digest(one)}  {one.relative_to(path).as_posix()}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def local_path(uri: str) -> Path | None:
    """The path that a URI names on this machine; None: it is elsewhere."""
    if uri.startswith("file://"):
        return Path(uri.removeprefix("file://"))
    return None if "://" in uri else Path(uri)


def load(uri: str, sha256: str | None, to: Path | None) -> tuple[Path, str]:
    """Fetches and checks; returns where it is, and its digest (empty: none was asked for, and it stays in place).

    Args:
        uri: of a file or folder.
        sha256: that it must have.
        to: folder that it is put into; None: data of this machine stays where it is.

    Raises:
        InputProblem: see there.
        OSError: a disk is full, or cannot be read.
    """
    source = local_path(uri)
    if source is not None and not source.exists():
        raise InputProblem(f"{quoted(uri)} is not there; put the data there, or change the URI")
    if to is None:
        assert source is not None
        found = digest(source) if sha256 else ""
        _check(uri, found, sha256)
        return source, found
    if sha256 and to.is_dir() and _holds(to, sha256):
        return to, sha256       # of a loader that ran before
    part, over_http = to.with_name(f"{to.name}{PART}"), uri.startswith(("http://", "https://"))
    if not over_http:
        _remove(part)
    part.mkdir(parents=True, exist_ok=True)
    if over_http:
        name = Path(urllib.parse.urlsplit(uri).path).name or "data"
        for other in part.iterdir():
            if other.name != f"{name}{PART}":
                _remove(other)
        checked = fetch(uri, part / name, sha256)
    elif source is None:
        checked = _by_fsspec(uri, part)
    elif source.is_dir():
        checked = Path(shutil.copytree(source, part, dirs_exist_ok=True))
    else:
        checked = Path(shutil.copy(source, part / source.name))
    found = digest(checked)
    _check(uri, found, sha256)
    _remove(to)
    part.rename(to)
    return to, found


def _holds(to: Path, sha256: str) -> bool:
    inside = list(to.iterdir())
    try:
        return sha256 in [digest(one) for one in (to, *(inside if len(inside) == 1 else ()))]
    except InputProblem:
        return False


def _check(uri: str, found: str, sha256: str | None) -> None:
    if sha256 and found != sha256:
        raise InputProblem(f"{quoted(uri)} has the digest {found}, and {sha256} was asked for: it is other data "
                           f"(another file, or a torn one); fetch the right data, or change the digest")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def fetch(url: str, path: Path, sha256: str | None = None, most: int = MOST,
          told: Callable[[str], None] = lambda text: None) -> Path:
    """Fetches a file over HTTP, unless it is there and right; what is not complete and right never has its name.

    Args:
        sha256: that it must have; None: any, and then nothing is gone on from, since it may be another by now.
        most: bytes.
        told: called where it is tried again.

    Raises:
        InputProblem: it cannot be had, or is another than it must be.
    """
    if sha256 and path.is_file() and digest(path) == sha256:
        return path
    part = path.with_name(f"{path.name}{PART}")
    for wait in (*WAITS, None):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not sha256:
                part.unlink(missing_ok=True)
            _download(url, part, most)
            break
        except urllib.error.HTTPError as error:
            why = f"{error.code} {error.reason}"
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)    # it has become shorter, or had all come
            elif 400 <= error.code < 500 and error.code != http.client.TOO_MANY_REQUESTS:
                raise InputProblem(f"{quoted(url)} answers {why}") from None
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            why = str(getattr(error, "reason", error)) or type(error).__name__
        except (OSError, ValueError) as error:
            raise InputProblem(f"{quoted(url)} cannot be written to {path}: {error}") from None
        if wait is None:
            raise InputProblem(f"{quoted(url)} cannot be fetched: {why}")
        told(f"{url}: {why}; again in {wait:g} s")
        time.sleep(wait)
    if sha256 and (found := digest(part)) != sha256:
        part.unlink()
        _check(url, found, sha256)
    os.replace(part, path)
    return path


def _download(url: str, part: Path, most: int) -> None:
    """Brings what is missing of a download to the disk. Raises what urllib raises, OSError, or ValueError."""
    parts = urllib.parse.urlsplit(url)
    request = urllib.request.Request(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())
    if parts.username is not None:
        name = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(name.encode()).decode()}")
    have = part.stat().st_size if part.exists() else 0
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        goes_on = answer.status == http.client.PARTIAL_CONTENT and str(
            answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-")
        size = have if goes_on else 0
        told = answer.headers.get("Content-Length", "")
        end = size + int(told) if told.isdigit() else None
        with part.open("ab" if goes_on else "wb") as file:
            while piece := answer.read(PIECE):
                size += len(piece)
                if size > most:
                    raise ValueError(f"it has more than {most} bytes")
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
    if end is not None and size != end:
        raise ConnectionError(f"it ended after {size} of {end} bytes")


def _by_fsspec(uri: str, to: Path) -> Path:
    """Fetches a URI into a folder; returns that folder, or the file in it."""
    scheme = uri.partition("://")[0]
    try:
        fsspec = importlib.import_module("fsspec")      # comes with torch; who reads files only needs none
    except ImportError:
        raise InputProblem(f"{quoted(uri)}: what is not on this machine is fetched by fsspec, which is not installed; "
                           f"pip install fsspec, or give file://") from None
    try:
        system, path = fsspec.core.url_to_fs(uri)
        one: Any = system.info(path)
        if one["type"] == "directory":
            system.get(path.rstrip("/") + "/", f"{to}/", recursive=True)
            return to
        file = to / (Path(path).name or "data")
        system.get_file(path, str(file))
        return file
    except Exception as error:  # each scheme's library raises its own
        raise InputProblem(f"{quoted(uri)} cannot be fetched ({type(error).__name__}: {line(error, 300)}); see that "
                           f"what fsspec needs for {scheme}:// is installed, and that it can be reached") from error

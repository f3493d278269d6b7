# SPDX-License-Identifier: Apache-2.0
"""Fetches and checks what a worker waits for: ``python -m brain_fleet.jobs.loader URI --signal FILE``.

What an init container does on a cluster. Paths and ``file://`` are read here, other schemes by fsspec, where that and
what the scheme needs are installed. Only when all of it is there and its digest is the one that was asked for is the
signal written, and only by the signal is the worker released.
"""
from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Sequence

from brain_wire.safe_text import line, quoted

CHUNK = 2**20


class LoadProblem(RuntimeError):
    """The data is not there, or not what it is to be; says what, and the remedy."""


def digest(path: Path) -> str:
    """SHA-256 of a file; of a folder that of its files' digests and names, in order, as sha256sum writes them.

    Raises:
        OSError: it cannot be read.
        LoadProblem: it holds what is neither file nor folder.
    """
    if not path.is_dir():
        return _of_file(path)
    found = []
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            one = Path(folder, name)
            if one.is_symlink() and one.is_dir() or not (one.is_dir() or one.is_file()):
                raise LoadProblem(f"{one} is neither a file nor a folder of its own; take it out of the data")
        found += [Path(folder, name) for name in files]
    whole = hashlib.sha256()
    for one in sorted(found, key=lambda its: its.relative_to(path).as_posix()):
        whole.update(f"{_of_file(one)}  {one.relative_to(path).as_posix()}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _of_file(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            found.update(data)
    return found.hexdigest()


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
        LoadProblem: see there.
        OSError: a disk is full, or cannot be read.
    """
    source = local_path(uri)
    if source is not None and not source.exists():
        raise LoadProblem(f"{quoted(uri)} is not there; put the data there, or change the URI")
    if to is None:
        assert source is not None
        found = digest(source) if sha256 else ""
        _check(uri, found, sha256)
        return source, found
    if sha256 and to.is_dir() and _holds(to, sha256):
        return to, sha256       # of a loader that ran before
    part = to.with_name(f"{to.name}.part")
    _remove(part)
    part.mkdir(parents=True)
    if source is None:
        checked = _fetch(uri, part)
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
    except LoadProblem:
        return False


def _check(uri: str, found: str, sha256: str | None) -> None:
    if sha256 and found != sha256:
        raise LoadProblem(f"{quoted(uri)} has the digest {found}, and {sha256} was asked for: it is other data; fetch "
                          f"the right data, or change the digest")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _fetch(uri: str, to: Path) -> Path:
    """Fetches a URI into a folder; returns that folder, or the file in it."""
    scheme = uri.partition("://")[0]
    try:
        fsspec = importlib.import_module("fsspec")      # comes with torch; who reads files only needs none
    except ImportError:
        raise LoadProblem(f"{quoted(uri)}: what is not on this machine is fetched by fsspec, which is not installed; "
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
        raise LoadProblem(f"{quoted(uri)} cannot be fetched ({type(error).__name__}: {line(error, 300)}); see that "
                          f"what fsspec needs for {scheme}:// is installed, and that it can be reached") from error


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="loader")
    parser.add_argument("uri")
    parser.add_argument("--sha256")
    parser.add_argument("--to", type=Path)
    parser.add_argument("--signal", type=Path, required=True)
    told = parser.parse_args(argv)
    try:
        told.signal.unlink(missing_ok=True)
        place, found = load(told.uri, told.sha256, told.to)
        temporary = told.signal.with_name(f"{told.signal.name}.tmp")
        temporary.write_text(json.dumps({"uri": told.uri, "at": str(place), "sha256": found}), encoding="utf-8")
        temporary.replace(told.signal)
    except LoadProblem as problem:
        print(line(problem), file=sys.stderr)
        return 1
    except OSError as error:
        print(line(f"{quoted(told.uri)}: {error}; make room, or let it be read"), file=sys.stderr)
        return 1
    print(line(f"{told.uri} is there" + (f", sha256 {found}" if found else "")))
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a region's state: safetensors files, written whole or not at all, refused when they do not fit.

Two generations are kept. What cannot be used is set aside, the newest few of it, and not overwritten.
"""
from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from pathlib import Path
from typing import Any, Callable, Mapping, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from brain_runtime.contract.region import Region
from brain_wire import private

log = logging.getLogger(__name__)

Used = TypeVar("Used")
FORMAT = "1"
REFUSED = 5     # snapshots that were set aside and are kept


class SnapshotError(RuntimeError):
    """A snapshot cannot be written or used; names the file and what to do."""


def metadata(region: Region) -> dict[str, str]:
    """Returns the metadata that a snapshot must have to fit this region.

    It is format, class, hash of its code, and what the region adds (weights, micro-step, ...).
    """
    cls = type(region)
    code = _code(cls)   # type: ignore[arg-type] # mypy looks for the hash of its instances
    return {"format": FORMAT, "class": f"{cls.__module__}:{cls.__qualname__}", "code": code,
            **region.snapshot_metadata()}


@functools.cache
def _code(cls: type) -> str:
    """Hash of the module that defines a region."""
    import hashlib  # loads OpenSSL, which a region without snapshots does not need

    try:
        source = inspect.getsource(sys.modules[cls.__module__])
    except (KeyError, OSError, TypeError):
        source = cls.__qualname__  # defined where no source can be read, as in an interactive session
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def previous(path: Path) -> Path:
    """Returns the path of the previous generation."""
    return path.with_name(path.name + ".previous")


def _keep(path: Path) -> None:
    """Makes the snapshot at ``path`` the previous one too, so that there is one at every moment."""
    link = path.with_name(f"{path.name}.{os.getpid()}.link")
    link.unlink(missing_ok=True)
    try:
        os.link(path, link)
    except OSError:  # a file system without hard links: for a moment there is only the previous one
        os.replace(path, previous(path))
    else:
        os.replace(link, previous(path))


def pack(region: Region, state: Mapping[str, Any]) -> bytes:
    """The snapshot of a region's state, as it stands in a file."""
    arrays = {name: np.ascontiguousarray(np.asarray(value), dtype=np.float32) for name, value in state.items()}
    return save(arrays, metadata=metadata(region))


def write(path: Path, region: Region, state: Mapping[str, Any]) -> None:
    """Writes ``state`` to ``path`` by an atomic rename; the snapshot that was there becomes the previous one.

    Raises:
        SnapshotError: it could not be written (a full disk, no permission); the old ones are untouched.
    """
    put(path, pack(region, state), region.name)


def put(path: Path, blob: bytes, whose: str) -> None:
    """Writes a snapshot as :func:`write` does; ``whose`` stands in its error."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        private.folder(path.parent)
        with open(temporary, "wb", opener=private.opener) as file:
            file.write(blob)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            _keep(path)
        os.replace(temporary, path)
    except OSError as error:
        try:
            temporary.unlink(missing_ok=True)
        except OSError as second:
            error.add_note(f"and the unfinished file could not be removed: {second}")
        raise SnapshotError(f"cannot save the state of {whose} to {path}: {error.strerror or error}. The last "
                            f"snapshot is kept; free space or choose another folder with --state-dir.") from error


def content(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and arrays of a snapshot.

    Raises:
        FileNotFoundError: there is none.
        SnapshotError: it is torn, or holds what numpy has not.
    """
    if not path.exists():
        raise FileNotFoundError(path)
    try:
        with safe_open(path, framework="numpy") as file:
            return file.metadata() or {}, arrays_of(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise SnapshotError(f"snapshot {path} is torn or no snapshot ({error})") from error


def arrays_of(file: Any) -> dict[str, np.ndarray]:
    """All arrays of a safetensors file that was opened for numpy, by name.

    Raises:
        SafetensorError: one is of a kind that numpy has not, as bfloat16; or the file is torn.
    """
    found = {}
    for name in file.keys():
        try:
            found[name] = file.get_tensor(name)
        except (TypeError, AttributeError, KeyError) as error:
            kind = file.get_slice(name).get_dtype()
            raise SafetensorError(f"{name[:80]!r} is {kind}, which numpy has not") from error
    return found


def read(path: Path, region: Region) -> dict[str, np.ndarray]:
    """Arrays of the snapshot at ``path`` for a configured ``region``.

    Raises:
        FileNotFoundError: there is none.
        SnapshotError: it is torn, or of another region, code or weights.
    """
    found, arrays = content(path)
    wanted = metadata(region)
    for key, value in wanted.items():
        if found.get(key) != value:
            raise SnapshotError(f"snapshot {path} does not fit {region.name}: {key} is {found.get(key)!r}, "
                                f"but {value!r} is needed")
    expected = {name: np.asarray(value).shape for name, value in region.initial_state().items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    if shapes != expected:
        odd = sorted(n for n in expected.keys() | shapes.keys() if expected.get(n) != shapes.get(n))
        raise SnapshotError(f"snapshot {path} does not fit {region.name}: other shapes of {', '.join(odd)}")
    broken = [name for name, array in arrays.items() if array.dtype != np.float32]
    if broken:
        raise SnapshotError(f"snapshot {path} does not fit {region.name}: {', '.join(broken)} not float32")
    return arrays


def restore(path: Path, region: Region) -> tuple[dict[str, Any] | None, list[str]]:
    """State from the newest usable snapshot, as :func:`newest` finds it."""
    return newest(path, lambda candidate: region.restore(read(candidate, region)), region.name)


def newest(path: Path, use: Callable[[Path], Used], whose: str) -> tuple[Used | None, list[str]]:
    """Uses the newest snapshot that can be used, and tells what is to be told a person.

    A snapshot that cannot be used is renamed to ``*.refused-N``; then the previous one is tried.

    Args:
        path: of the newest.
        use: what it is to be used for; raises FileNotFoundError or SnapshotError where it cannot.
        whose: it is.

    Returns:
        What ``use`` gives, or None where there is nothing to use; and warnings.
    """
    warnings: list[str] = []
    for candidate in (path, previous(path)):
        try:
            return use(candidate), warnings
        except FileNotFoundError:
            continue
        except SnapshotError as error:
            aside = set_aside(candidate)
            warnings.append(f"{error}. It is kept as {aside.name}; {whose} starts without it.")
    return None, warnings


def set_aside(path: Path) -> Path:
    """Renames a snapshot that is not to be used to ``*.refused-N``; of those the newest :data:`REFUSED` are kept.

    Raises:
        SnapshotError: that is not possible.
    """
    try:
        before = _refused(path)
        aside = path.with_name(f"{path.name}.refused-{max(before, default=0) + 1}")
        os.replace(path, aside)
    except OSError as error:
        raise SnapshotError(f"snapshot {path} cannot be used, and not be set aside either: {error}") from error
    for number in sorted(before)[:max(0, len(before) + 1 - REFUSED)]:
        try:
            before[number].unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be removed, though newer ones are kept: %s", before[number], error.strerror)
    return aside


def _refused(path: Path) -> dict[int, Path]:
    """Finds the files that were set aside of a snapshot, by their numbers."""
    begin = f"{path.name}.refused-"
    endings = ((p, p.name.removeprefix(begin)) for p in path.parent.iterdir() if p.name.startswith(begin))
    return {int(end): p for p, end in endings if end.isascii() and end.isdecimal()}

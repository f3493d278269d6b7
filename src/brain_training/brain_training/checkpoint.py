# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a training: one file, tensors as safetensors and the rest as JSON in its metadata; no pickle.

Several processes write folders beside it, see :mod:`.checkpoint_folder`.
"""
from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from torch import Tensor

from brain_wire import private

VERSION = "1"
ENDING, MANIFEST = ".checkpoints", "checkpoint.json"      # of the folder of several processes
TEMPORARY = ".tmp"      # ending of a file that is being written
NAME = re.compile(r"(\d{6,})-step-(\d+)")


class CheckpointError(RuntimeError):
    """A checkpoint cannot be used; names it and the remedy."""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keeps other trainings from a checkpoint until the block ends, or the process, however it ends.

    Args:
        path: of the checkpoint; the lock is a file beside it.

    Raises:
        CheckpointError: another training holds it.
        OSError: nothing can be written there.
    """
    private.folder(path.parent)
    beside = path.with_name(f"{path.name}.lock")
    while True:
        lock = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise CheckpointError(f"another training is writing {path}; wait for its end, or name another place with "
                                  f"--out and --checkpoint") from None
        except OSError:
            break       # a file system without locks
        if beside.exists() and os.path.samestat(os.fstat(lock), beside.stat()):
            break
        os.close(lock)  # whoever held it removed it meanwhile
    try:
        yield
    finally:
        beside.unlink(missing_ok=True)
        os.close(lock)


def save(path: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Writes a checkpoint; whenever the process is killed, a whole one is in place, the last or the one before.

    Args:
        path: of the file.
        tensors: by name, on any device.
        values: what JSON can say.

    Raises:
        CheckpointError: it cannot be written, as where the disk is full; the last one is still in place.
    """
    try:
        private.folder(path.parent)
        save_tensors(path, tensors, {"checkpoint": VERSION, "values": json.dumps(values)}, private.opener)
    except OSError as error:
        raise CheckpointError(f"cannot write checkpoint {path} ({error}); make room, or name another folder with "
                              f"--checkpoint, and go on from the last one with --resume") from error


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str],
                 opener: Callable[[str, int], int] | None = None) -> None:
    """Writes a file of safetensors, whole or not at all; raises OSError where it cannot be written.

    It is not written by safetensors' own ``save_file``: that begins with a file of a name that is drawn, which a
    process that is killed leaves behind for ever. Ours has one name, and is written over the next time.
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save as serialized

    temporary = path.with_name(f"{path.name}{TEMPORARY}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = serialized({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, dict(metadata))
        with open(temporary, "wb", opener=opener) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with safe_open(temporary, framework="pt") as read:      # what cannot be read takes nothing's place
            if {*read.keys()} != {*tensors}:
                raise OSError("what was written is not what it reads as")
        temporary.replace(path)
    except (SafetensorError, OSError) as error:
        with suppress(OSError):
            temporary.unlink()
        raise OSError(str(error)) from error


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Loads the tensors and values that :func:`save` wrote, on the CPU.

    Raises:
        CheckpointError: the file is torn, or no checkpoint.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("checkpoint") != VERSION:
                raise CheckpointError(f"{path} is no checkpoint of this version; remove it, or train without --resume")
            values = json.loads(metadata["values"])
            if not isinstance(values, dict):
                raise ValueError("it holds no values by name")
            return {name: file.get_tensor(name) for name in file.keys()}, values
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"checkpoint {path} is torn ({error}); remove it, or train without --resume") from error


def folder_of(path: Path) -> Path:
    """The folder of the checkpoints of several, beside the file ``path`` of one process."""
    return path.with_suffix(ENDING)


def all_of(folder: Path) -> list[Path]:
    """The whole checkpoints in a folder, the newest first."""
    found = [(int(match[1]), entry) for entry in (folder.iterdir() if folder.is_dir() else ())
             if (match := NAME.fullmatch(entry.name)) and entry.is_dir()]
    return [entry for _, entry in sorted(found, reverse=True)]


def newest(path: Path) -> Path | None:
    """The newer of the file ``path`` and the newest in the folder beside it; None: there is none."""
    found = [place for place in (path, *all_of(folder_of(path))[:1]) if place.exists()]
    return max(found, key=lambda place: (place / MANIFEST if (place / MANIFEST).exists() else place).stat().st_mtime_ns,
               default=None)

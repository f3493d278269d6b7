# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a training by several processes: a folder for each, to which each rank writes what it holds.

They are written and read by ``torch.distributed.checkpoint`` (DCP), in the background while the training goes on, as
safetensors with the place of each part in the metadata; what is no tensor is JSON in :data:`MANIFEST`. No pickle::

    motor.checkpoints/
      000041-step-1200/
        checkpoint.json                                 what is no tensor, and size and SHA-256 of each file
        shard-00001-model-00001-of-00001.safetensors    what rank 0 wrote
        shard-00002-...
      000042-step-1260.part/                            being written

A checkpoint is whole when it has lost its ending: that rename is the last thing that is done. The newest has the
highest number, which is never used twice.
"""
from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Mapping

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from brain_training.checkpoint import MANIFEST, NAME, CheckpointError, all_of, folder_of
from brain_wire import private

VERSION = "2"
PART = ".part"
KEPT = 3                                            # of the newest
Room = Callable[[str, torch.Size, torch.dtype], Any]
"""Gives room for what a process holds of a tensor (name, whole size, type): a tensor, or a DTensor."""


class Part(Tensor):
    """Shard of a tensor that is divided along one dimension, as DCP wants to know it: the part that a rank holds."""

    _at: tuple[int, int, int]

    @classmethod
    def of(cls, local: Tensor, dim: int, start: int, whole: int) -> Part:
        """The same memory.

        Args:
            local: the own part.
            dim: along which the tensor is divided.
            start: where the own part begins there.
            whole: how many there are in that dimension.
        """
        found = local.detach().as_subclass(cls)
        found._at = dim, start, whole
        return found

    def copied(self) -> Part:
        """The same in memory of its own, on the CPU."""
        return Part.of(_copied(self.as_subclass(Tensor)), *self._at)

    def __create_write_items__(self, name: str, value: object) -> list[WriteItem]:
        (dim, start, whole), local = self._at, self.as_subclass(Tensor)
        size = torch.Size(whole if k == dim else its for k, its in enumerate(local.shape))
        chunk = ChunkStorageMetadata(torch.Size(start * (k == dim) for k in range(local.dim())), local.shape)
        return [WriteItem(MetadataIndex(name, chunk.offsets), WriteItemType.SHARD, tensor_data=TensorWriteData(
            chunk, TensorProperties.create_from_tensor(local), size))]

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        return self.as_subclass(Tensor)


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format).cpu()


class _Copies:
    """DCP's stager: one copy of each tensor, so that the training may go on."""

    should_synchronize_after_execute = False

    def stage(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: value.copied() if isinstance(value, Part) else _copied(value) for name, value in tensors.items()}

    def synchronize_staging(self) -> None:
        """It is done when :meth:`stage` returns."""

    def close(self) -> None:
        """There is nothing to close."""


class _Writer(dcp.HuggingFaceStorageWriter):
    """DCP's writer of safetensors, which tells sizes and digests, and ends with the manifest and the rename."""

    def __init__(self, whole: Path, values: Mapping[str, Any]) -> None:
        super().__init__(str(whole.with_name(whole.name + PART)), save_distributed=True)
        # as they are now: a task's own lists may have grown when this is written, in another thread
        self._whole, self._values = whole, json.loads(json.dumps(values))

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> torch.futures.Future[list[WriteResult]]:
        results = super().write_data(plan, planner).wait()
        names = {result.storage_data.relative_path for result in results}
        told = {name: {"bytes": (Path(self.path) / name).stat().st_size, "sha256": _digest(Path(self.path) / name)}
                for name in names}
        done: torch.futures.Future[list[WriteResult]] = torch.futures.Future()
        done.set_result([replace(result, storage_data=told) for result in results[:1]])
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Called at rank 0, when all have written."""
        files = {name: its for of_rank in results for result in of_rank for name, its in result.storage_data.items()}
        folder = Path(self.path)
        away = [name for name, its in files.items()
                if not (folder / name).is_file() or (folder / name).stat().st_size != its["bytes"]]
        if away:
            raise OSError(f"{', '.join(away)} is not in the folder of rank 0: the ranks do not share it")
        with (folder / MANIFEST).open("w", encoding="utf-8") as file:
            json.dump({"checkpoint": VERSION, "files": files, "values": self._values}, file)
            file.flush()
            os.fsync(file.fileno())
        _settle(folder)
        folder.rename(self._whole)
        _settle(self._whole.parent)


class _Reader(dcp.HuggingFaceStorageReader):
    """DCP's reader of safetensors, which looks at each file before."""

    def __init__(self, folder: Path, files: Mapping[str, Mapping[str, Any]], mine: slice) -> None:
        super().__init__(str(folder))
        self._folder, self._files, self._mine = folder, files, mine
        self._known: Metadata | None = None

    def read_metadata(self, *args: Any, **more: Any) -> Metadata:
        """Once; each rank computes the digests of some of the files."""
        if self._known is None:
            for name, its in self._files.items():
                path = self._folder / name
                if not path.is_file():
                    raise ValueError(f"{name} is not there")
                if path.stat().st_size != its["bytes"]:
                    raise ValueError(f"{name} has {path.stat().st_size} bytes, not {its['bytes']}")
            for name in sorted(self._files)[self._mine]:
                if _digest(self._folder / name) != self._files[name]["sha256"]:
                    raise ValueError(f"{name} is not what was written")
            self._known = super().read_metadata()
        return self._known


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _settle(folder: Path) -> None:
    """Names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Folder:
    """Checkpoints of one training, as one of its ranks writes them; all ranks call each method.

    Args:
        path: of the file that one process would write; the folder is beside it.
        ranks: that train, which tell each other.
    """

    def __init__(self, path: Path, ranks: Any) -> None:
        self._path, self._ranks = path, ranks
        self._writing: tuple[Path, Future[Any]] | None = None

    @property
    def shared(self) -> bool:
        """True where all ranks see the folder: on several machines they may not."""
        folder, rank = folder_of(self._path), self._ranks.rank
        name = f"shared-{os.urandom(8).hex()}{PART}" if rank == 0 else ""
        with suppress(OSError):     # what cannot be written is told by the first checkpoint
            if rank == 0:
                private.folder(folder)
                (folder / name).touch()
        name = self._ranks.told(name.encode()).decode()
        there = [int(one) for one in self._ranks.gather(torch.tensor([int((folder / name).exists())]))]
        if rank == 0:
            (folder / name).unlink(missing_ok=True)
        return all(there) or not there[0]

    def save(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any], step: int) -> None:
        """Copies what this rank holds, and begins to write it; the one before is whole then.

        Args:
            tensors: of which several ranks may have the same.
            values: what JSON can say, the same at all ranks.
            step: how many are done.

        Raises:
            CheckpointError: the one before could not be written, as where a disk is full; at all ranks.
        """
        self.wait()
        folder = folder_of(self._path)
        name = ""
        if self._ranks.rank == 0:
            last = [int(match[1]) for entry in (folder.iterdir() if folder.is_dir() else ())
                    if (match := NAME.match(entry.name))]
            for torn in folder.glob(f"*{PART}") if folder.is_dir() else ():
                shutil.rmtree(torn, ignore_errors=True) if torn.is_dir() else torn.unlink(missing_ok=True)
            name = f"{max(last, default=0) + 1:06}-step-{step}"
        whole = folder / self._ranks.told(name.encode()).decode()
        writing: Any = dcp.async_save(dict(tensors), storage_writer=_Writer(whole, values),
                                      process_group=self._ranks.beside, async_stager=_Copies())
        self._writing = whole, writing

    def wait(self) -> None:
        """Until what :meth:`save` began is on the disk; older ones are removed then. See there for what it raises."""
        if self._writing is None:
            return
        (whole, writing), self._writing = self._writing, None
        try:
            writing.result()
        except CheckpointException as error:
            if self._ranks.rank == 0:
                shutil.rmtree(whole.with_name(whole.name + PART), ignore_errors=True)
            if not any(isinstance(cause, OSError) for cause, _ in error.failures.values()):
                raise
            raise CheckpointError(f"cannot write checkpoint {whole} ({_why(error)}); make room, or name another folder "
                                  f"with --checkpoint, and go on from the last one with --resume") from error
        if self._ranks.rank == 0:
            for old in all_of(whole.parent)[KEPT:]:
                shutil.rmtree(old, ignore_errors=True)
            self._path.unlink(missing_ok=True)      # of one process, from which this one went on


def load(place: Path, room: Room, ranks: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads a checkpoint that so many ranks as may be have written.

    Args:
        place: its folder.
        room: for what this process wants of each tensor.
        ranks: that read it together; None: this process alone.

    Raises:
        CheckpointError: it is torn, or none; at all ranks.
    """
    mine = slice(0, None) if ranks is None else slice(ranks.rank, None, ranks.size)
    try:
        about = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        if about["checkpoint"] != VERSION:
            raise CheckpointError(f"{place} is no checkpoint of this version; remove it, or train without --resume")
        reader, shapes = _Reader(place, about["files"], mine), about["values"].pop("shapes", {})
        found = {}
        for name, its in _together(reader.read_metadata, ranks).state_dict_metadata.items():
            found[name] = torch.empty(its.size, dtype=its.properties.dtype) if name in shapes else room(
                name, its.size, its.properties.dtype)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is disabled, unavailable or uninitialized")
            dcp.load(found, storage_reader=reader, process_group=ranks and ranks.beside, no_dist=ranks is None)
        return {name: value.view(shapes[name]) if name in shapes else value for name, value in found.items()}, (
            about["values"])
    except (CheckpointException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = _why(error) if isinstance(error, CheckpointException) else " ".join(str(error).split())
        raise CheckpointError(f"checkpoint {place} is torn ({why}); remove it to go on from the one before, or train "
                              f"without --resume") from error


def _together(work: Callable[[], Any], ranks: Any) -> Any:
    """Runs ``work`` at all ranks and returns its result here; where it fails at one rank, it fails at all."""
    from safetensors import SafetensorError

    found, error = None, ""
    try:
        found = work()
    except (OSError, ValueError, KeyError, SafetensorError) as failed:
        error = " ".join(str(failed).split()) or type(failed).__name__
    every: list[str | None] = [error]
    if ranks is not None:
        every = [None] * ranks.size
        dist.all_gather_object(every, error, group=ranks.beside)
    wrong = [f"rank {rank}: {one}" if ranks is not None and ranks.size > 1 else one
             for rank, one in enumerate(every) if one]
    if wrong:
        raise ValueError(wrong[0])
    return found


def _why(error: CheckpointException) -> str:
    """Returns the error of the first rank that failed, with its number."""
    rank, (cause, _) = min(error.failures.items())
    return f"rank {rank}: {' '.join(str(cause).split()) or type(cause).__name__}"

# SPDX-License-Identifier: Apache-2.0
"""The optimizer's state in files, mapped into memory: the kernel keeps of it what there is room for.

torch changes the mapped tensors in place, as it does others, so that the bits are the same. The files have no names any
more once they are mapped, and go with the process, however it ends.
"""
from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from brain_training.task import TrainingError
from brain_wire import private


class OnDisk:
    """Keeps the state of an optimizer in a folder, from its first step on.

    Args:
        optimizer: on the CPU; of ZeroRedundancyOptimizer the one within.
        folder: where there is room for the state.

    Attributes:
        bytes: that are there.

    Raises:
        TrainingError: nothing can be written there.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, folder: Path) -> None:
        self._folder, self.bytes = folder, 0
        self._mapped: dict[tuple[int, str], Tensor] = {}
        try:
            private.folder(folder)
            if not os.access(folder, os.W_OK):
                raise PermissionError(f"no right to write to {folder}")
        except OSError as error:
            raise self._cannot(error) from error
        optimizer.register_step_post_hook(lambda its, args, more: self.keep(its))

    def _cannot(self, error: OSError) -> TrainingError:
        return TrainingError(f"cannot keep the optimizer's state in {self._folder}: {error.strerror or error}; name "
                             f"another folder with --offload-folder, or make room")

    def keep(self, optimizer: torch.optim.Optimizer) -> None:
        """Maps what is not mapped yet: after the first step, and after a checkpoint was read."""
        for number, state in enumerate(optimizer.state.values()):
            for name, value in state.items():
                if isinstance(value, Tensor) and value.dim() and self._mapped.get((number, name)) is not value:
                    state[name] = self._mapped[number, name] = self._moved(value)

    def _moved(self, value: Tensor) -> Tensor:
        """A tensor like another, in a file."""
        if isinstance(value, DTensor):
            found: Any = DTensor.from_local(self._moved(value.to_local()), value.device_mesh, value.placements,
                                            run_check=False, shape=value.shape, stride=value.stride())
        else:
            found = self._file(value)
        found.on_disk = True
        return found

    def _file(self, value: Tensor) -> Tensor:
        if not value.numel():
            return value
        size = value.numel() * value.element_size()
        try:
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix="brain-optimizer-") as file:
                os.posix_fallocate(file.fileno(), 0, size)      # a full disk is known now, and not as a signal later
                flat = torch.from_file(file.name, shared=True, size=value.numel(), dtype=value.dtype)
        except OSError as error:
            raise self._cannot(error) from error
        self.bytes += size
        # in the layout of the other: dense strides of any order
        return flat.as_strided(value.shape, torch.empty_like(value, device="meta").stride()).copy_(value)

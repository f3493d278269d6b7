# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a training: one file, tensors as safetensors and the rest as JSON in its metadata; no pickle."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping

from torch import Tensor

VERSION = "1"


class CheckpointError(RuntimeError):
    """A checkpoint cannot be used; names it and the remedy."""


def save(path: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Writes a checkpoint; whenever the process is killed, a whole one is in place, the last or the one before.

    Args:
        path: of the file.
        tensors: by name, on any device.
        values: what JSON can say.
    """
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, temporary,
              metadata={"checkpoint": VERSION, "values": json.dumps(values)})
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`save` wrote, on the CPU.

    Raises:
        CheckpointError: the file is torn, or no checkpoint.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("checkpoint") != VERSION:
                raise CheckpointError(f"{path} is no checkpoint of this version; remove it, or train without --resume")
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(metadata["values"])
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"checkpoint {path} is torn ({error}); remove it, or train without --resume") from error

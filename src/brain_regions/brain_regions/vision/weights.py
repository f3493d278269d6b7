# SPDX-License-Identifier: Apache-2.0
"""The weight file of vision: safetensors with metadata that says what it fits, how it was made and how good it is."""
from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

FORMAT = "1"
REGION = "vision"
SHIPPED = Path(__file__).parent / "weights" / "vision.safetensors"
_CODE = ("network.py", "../neurons.py")


class WeightsError(RuntimeError):
    """A weight file cannot be used; names it and the remedy."""


@functools.cache
def code_hash() -> str:
    """Hash of the code that gives the weights their meaning: network and neurons."""
    digest = hashlib.sha256()
    for name in _CODE:
        digest.update((Path(__file__).parent / name).resolve().read_bytes())
    return digest.hexdigest()[:16]


def needed() -> dict[str, str]:
    """Metadata that a file must have to fit this code."""
    from brain_regions.neurons import MICRO_STEP
    from brain_regions.vision.network import INPUT_SCALING

    return {"format": FORMAT, "region": REGION, "h": repr(MICRO_STEP), "input": INPUT_SCALING, "code": code_hash()}


def save(path: Path, network: Any, training: dict[str, Any], report: dict[str, Any]) -> None:
    """Writes a folded network's weights.

    Args:
        path: of the file.
        network: folded :class:`SpikingVision`.
        training: how it was made (split, seeds, recipe).
        report: held-out figures; ``report["threshold"]`` is what detections are cut at.
    """
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().contiguous() for name, value in network.state_dict().items()}
    metadata = {**needed(), "training": json.dumps(training), "held_out": json.dumps(report)}
    temporary = path.with_suffix(".tmp")
    save_file(tensors, temporary, metadata=metadata)
    temporary.replace(path)


def load(path: Path = SHIPPED) -> tuple[Any, dict[str, Any], str]:
    """A folded network for inference.

    Returns:
        The network, its held-out figures, and the hash of the file.

    Raises:
        WeightsError: the file is missing, torn, or of other code.
    """
    from safetensors import SafetensorError, safe_open

    from brain_regions.vision.network import SpikingVision

    remedy = "make new ones with `brain train vision`"
    if not path.is_file():
        raise WeightsError(f"the weights of vision are missing: {path}; {remedy}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"weight file {path} is torn or none ({error}); {remedy}") from error
    for key, value in needed().items():
        if metadata.get(key) != value:
            raise WeightsError(f"weight file {path} does not fit: {key} is {metadata.get(key)!r}, but {value!r} is "
                               f"needed; {remedy}")
    network = SpikingVision().folded()
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise WeightsError(f"weight file {path} does not fit the network ({error}); {remedy}") from error
    return network, json.loads(metadata["held_out"]), hashlib.sha256(path.read_bytes()).hexdigest()[:16]

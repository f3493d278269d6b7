# SPDX-License-Identifier: Apache-2.0
"""The weight file of vision: safetensors with metadata that says what it fits, how it was made and how good it is.

A file fits when the network that it was made for has the same layers, neurons and units (a hash of these is in it),
and when the code of today computes with its weights what the code of then did: the file holds the answer to one
picture. So an edit that changes no meaning costs no training, and one that does is found out.
"""
from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

FORMAT = "2"
REGION = "vision"
SHIPPED = Path(__file__).parent / "weights" / "vision.safetensors"
PROBE = "probe"
ALIKE = 0.05
"""Share of its mean size that an answer may be off: another processor rounds otherwise, and a few neurons so fire a
micro-step sooner or later."""


class WeightsError(RuntimeError):
    """A weight file cannot be used; names it and the remedy."""


def network_hash() -> str:
    """Hash of what gives the weights their meaning: layers, neurons, and the units of input and answer."""
    from brain_regions.vision import network as n

    rows = [[r.start, r.stop] for r in (n.OBJECT, n.COLOR, n.SHAPE, n.ASIDE, n.DISTANCE, n.EXTENT)]
    meaning = [n.LAYERS, n.LAYERS_READ, n.NEURON, n.READOUT, rows, n.SLOTS, n.ASIDE_UNIT, n.FOCAL, n.TOP, n.COLUMNS]
    return hashlib.sha256(json.dumps(meaning).encode()).hexdigest()[:16]


def needed() -> dict[str, str]:
    """Metadata that a file must have to fit this code."""
    from brain_regions.neurons import MICRO_STEP
    from brain_regions.vision.network import INPUT_SCALING

    return {"format": FORMAT, "region": REGION, "h": repr(MICRO_STEP), "input": INPUT_SCALING,
            "network": network_hash()}


def probe(network: Any) -> Any:
    """Answer [OUTPUTS, COLUMNS] of a folded network at rest to a picture of colored patches, after ten micro-steps."""
    import torch

    from brain_regions.vision.network import HEIGHT, WIDTH, prepare

    rows, columns = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
    picture = torch.stack([(rows // 8 * 40 + columns // 12 * k) % 256 for k in (30, 70, 110)], dim=-1).to(torch.uint8)
    with torch.inference_mode():
        state, _ = network(prepare(picture[None]), network.rest(), 10)
    return state["u"][0]


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
    tensors[PROBE] = probe(network).clone().contiguous()
    metadata = {**needed(), "training": json.dumps(training), "held_out": json.dumps(report)}
    temporary = path.with_suffix(".tmp")
    save_file(tensors, temporary, metadata=metadata)
    temporary.chmod(0o644)      # the writer makes it for its owner alone
    temporary.replace(path)


def load(path: Path = SHIPPED) -> tuple[Any, dict[str, Any], str]:
    """A folded network for inference.

    Returns:
        The network, its held-out figures, and the hash of the file.

    Raises:
        WeightsError: the file is missing, torn, or made for a network that computes something else.
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
    answer = tensors.pop(PROBE, None)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise WeightsError(f"weight file {path} does not fit the network ({error}); {remedy}") from error
    now = probe(network)
    if answer is None or now.shape != answer.shape or not (now - answer).abs().mean() <= ALIKE * answer.abs().mean():
        raise WeightsError(f"weight file {path} does not fit: this code answers to the file's picture otherwise than "
                           f"the code that it was made with; {remedy}")
    return network, json.loads(metadata["held_out"]), hashlib.sha256(path.read_bytes()).hexdigest()[:16]

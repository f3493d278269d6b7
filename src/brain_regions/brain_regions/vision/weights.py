# SPDX-License-Identifier: Apache-2.0
"""The weight file of vision; see :mod:`brain_regions.weight_files`."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from brain_regions import weight_files
from brain_regions.weight_files import WeightsError
from brain_runtime.contract import git_lfs

FORMAT = "3"
REGION = "vision"
SHIPPED = Path(__file__).parent / "weights" / "vision.safetensors"
ANN = Path(__file__).parent / "weights" / "vision_ann.safetensors"
WIDEST = 8      # times the hidden neurons; a larger network was never tried
REMEDY = "make new ones with `brain train vision`"

__all__ = ["ANN", "SHIPPED", "WIDEST", "WeightsError", "factor", "load", "needed", "network_hash", "patches", "probe",
           "save"]


def network_hash(layers: Any = None) -> str:
    """Hash of what gives the weights their meaning: layers, neurons, and the units of input and answer."""
    from brain_regions.vision import network as n

    rows = [[r.start, r.stop] for r in (n.OBJECT, n.COLOR, n.SHAPE, n.ASIDE, n.DISTANCE, n.EXTENT)]
    meaning = [layers or n.LAYERS, n.LAYERS_READ, n.NEURON, n.READOUT, rows, n.SLOTS, n.ASIDE_UNIT, n.WIDTH, n.HEIGHT,
               n.RESOLUTION, n.TOP, n.COLUMNS]
    return weight_files.meaning_hash(meaning)


def needed(layers: Any = None) -> dict[str, str]:
    """Metadata that a file must have to fit this code; of other layers than the region's what no region takes."""
    from brain_regions.vision.network import INPUT_SCALING, MICRO_STEP

    return {"format": FORMAT, "region": REGION, "h": repr(MICRO_STEP), "input": INPUT_SCALING,
            "network": network_hash(layers)}


def patches() -> Any:
    """A picture of colored patches, uint8 [HEIGHT, WIDTH, 3]."""
    import numpy as np

    from brain_regions.vision.network import HEIGHT, WIDTH

    rows, columns = np.meshgrid(np.arange(HEIGHT), np.arange(WIDTH), indexing="ij")
    return np.stack([(rows // 8 * 40 + columns // 12 * k) % 256 for k in (30, 70, 110)], -1).astype(np.uint8)


def probe(network: Any) -> Any:
    """Answer [OUTPUTS, COLUMNS] of a folded network at rest to a picture of colored patches, after ten micro-steps."""
    import torch

    from brain_regions.vision.looking import Looking
    from brain_regions.vision.network import AnnBaseline, prepare

    picture = patches()
    if isinstance(network, AnnBaseline):
        with torch.inference_mode():
            return network(prepare(torch.from_numpy(picture)[None]))[0].numpy()
    looking = Looking(network)
    return looking.look(picture, looking.rest(), 10).state["u"].T


def save(path: Path, network: Any, training: dict[str, Any], report: dict[str, Any]) -> None:
    """Writes a folded network's weights.

    Args:
        path: of the file.
        network: folded :class:`SpikingVision` or :class:`AnnBaseline`.
        training: how it was made (split, seeds, recipe).
        report: held-out figures; ``report["threshold"]`` is what detections are cut at.
    """
    tensors = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    weight_files.save(path, _fits(network), tensors, probe(network), training, report)


def _fits(network: Any) -> dict[str, str]:
    from brain_regions.vision.network import AnnBaseline

    # "twin" is the key in files that there are
    found = needed(network.layers)
    return {**found, "twin": "ann"} if isinstance(network, AnnBaseline) else found


def factor(path: Path) -> int:
    """Reads how many times the usual hidden neurons a weight file's network has, 1 to :data:`WIDEST`.

    Raises:
        WeightsError: the file is missing or torn, or its network is no vision of such a size.
    """
    from safetensors import SafetensorError, safe_open

    from brain_regions.vision.network import widened

    if not path.is_file():
        raise WeightsError(f"the weights of {REGION} are missing: {path}; {REMEDY}")
    if git_lfs.is_pointer(path):
        raise WeightsError(f"weight file {path} cannot be read: {git_lfs.ADVICE}")
    try:
        with safe_open(path, framework="np") as file:
            said = (file.metadata() or {}).get("network")
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"weight file {path} is torn or none ({error}); {REMEDY}") from error
    for times in range(1, WIDEST + 1):
        if said == network_hash(widened(times)):
            return times
    raise WeightsError(f"weight file {path} holds no vision of 1 to {WIDEST} times the usual hidden neurons; {REMEDY}")


def load(path: Path = SHIPPED, *, ann: bool = False, times: int = 1) -> tuple[Any, dict[str, Any], str]:
    """A folded network for inference.

    Args:
        path: of the file.
        ann: it holds the weights of :class:`AnnBaseline`.
        times: how many times the hidden neurons of the network that a robot runs it has.

    Returns:
        The network, its held-out figures, and the hash of the file.

    Raises:
        WeightsError: the file is missing, torn, or made for a network that computes something else.
    """
    import torch

    from brain_regions.vision.network import AnnBaseline, SpikingVision, widened

    network = (AnnBaseline if ann else SpikingVision)(widened(times)).folded()

    def answer(tensors):
        network.load_state_dict({name: torch.from_numpy(value) for name, value in tensors.items()})
        return probe(network)

    loaded = weight_files.load(path, _fits(network), answer, REMEDY)
    return network, loaded.report, loaded.digest

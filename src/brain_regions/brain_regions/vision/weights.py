# SPDX-License-Identifier: Apache-2.0
"""The weight file of vision; see :mod:`brain_regions.weight_files`."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

import numpy as np

from brain_regions import weight_files
from brain_regions.vision import network as n
from brain_regions.weight_files import Loaded, WeightsError
from brain_runtime.contract import git_lfs

FORMAT = "3"
REGION = "vision"
SHIPPED = Path(__file__).parent / "weights" / "vision.safetensors"
ANN = Path(__file__).parent / "weights" / "vision_ann.safetensors"
FOVEA = SHIPPED.parent / "fovea" / "fovea.safetensors"      # apart, since vision cannot run with it in place of its own
FOVEA_ANN = FOVEA.with_name("fovea_ann.safetensors")
WIDEST = 8      # times the hidden neurons; a larger network was never tried
REMEDY = "make new ones with `brain train vision`"

__all__ = ["ANN", "FOVEA", "FOVEA_ANN", "SHIPPED", "WIDEST", "WeightsError", "factor", "load", "needed",
           "network_hash", "patches", "probe", "save", "threshold"]


def network_hash(layers: n.Layers = n.LAYERS) -> str:
    """Hash of what gives the weights their meaning: layers, neurons, and the units of input and answer."""
    rows = [[r.start, r.stop] for r in (n.OBJECT, n.COLOR, n.SHAPE, n.ASIDE, n.DISTANCE, n.EXTENT)]
    height, width = layers.size
    meaning = [tuple(layers), layers.read, n.NEURON, n.LEFT, n.READOUT, rows, layers.slots, n.ASIDE_UNIT, width,
               height, n.RESOLUTION, n.TOP, layers.columns]
    return weight_files.meaning_hash(meaning)


def needed(ann: bool = False, layers: n.Layers = n.LAYERS) -> dict[str, str]:
    """Metadata that a file must have to fit this code; of other layers than the region's what no region takes."""
    found = {"format": FORMAT, "region": REGION, "h": repr(n.MICRO_STEP), "input": n.INPUT_SCALING,
             "network": network_hash(layers)}
    return {**found, "twin": "ann"} if ann else found       # the name of the ANN baseline in files that there are


def patches(size: tuple[int, int] = (n.HEIGHT, n.WIDTH)) -> np.ndarray:
    """A picture of colored patches, uint8 [rows, columns, 3]."""
    rows, columns = np.meshgrid(*map(np.arange, size), indexing="ij")
    return np.stack([(rows // 8 * 40 + columns // 12 * k) % 256 for k in (30, 70, 110)], -1).astype(np.uint8)


def probe(tensors: n.Tensors, ann: bool = False, layers: n.Layers = n.LAYERS) -> np.ndarray:
    """Answer [OUTPUTS, COLUMNS] of a network at rest to a picture of colored patches, after ten micro-steps."""
    if ann:
        return n.Rates(tensors, layers).answer(patches(layers.size)).T
    looking = n.Looking(tensors, layers)
    return looking.look(patches(layers.size), looking.rest(), 10).state["u"].T


def save(path: Path, tensors: n.Tensors, training: Mapping[str, Any], report: Mapping[str, Any], *, ann: bool = False,
         layers: n.Layers = n.LAYERS) -> None:
    """Writes a folded network's weights.

    Args:
        path: of the file.
        tensors: see :data:`.network.Tensors`.
        training: how it was made (split, seeds, recipe).
        report: held-out figures; ``report["threshold"]`` is what detections are cut at.
        ann: they are the ANN baseline's.
        layers: that they are of.
    """
    weight_files.save(path, needed(ann, layers), tensors, probe(tensors, ann, layers), training, report)


def factor(path: Path) -> int:
    """Reads how many times the usual hidden neurons a weight file's network has, 1 to :data:`WIDEST`.

    Raises:
        WeightsError: the file is missing or torn, or its network is no vision of such a size.
    """
    from safetensors import SafetensorError, safe_open

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
        if said == network_hash(n.widened(times)):
            return times
    raise WeightsError(f"weight file {path} holds no vision of 1 to {WIDEST} times the usual hidden neurons; {REMEDY}")


def load(path: Path = SHIPPED, *, ann: bool = False, times: int = 1, layers: n.Layers = n.LAYERS) -> Loaded:
    """Reads a weight file.

    Args:
        path: of the file.
        ann: it holds the weights of the ANN baseline.
        times: how many times the hidden neurons of the network that a robot runs it has.
        layers: of that network.

    Raises:
        WeightsError: the file is missing, torn, or made for a network that computes something else.
    """
    layers = n.widened(times, layers)
    return weight_files.load(path, needed(ann, layers), lambda tensors: probe(tensors, ann, layers), REMEDY)


def threshold(path: Path, loaded: Loaded) -> float:
    """Confidence (0 to 1) from which on objects are told, by a weight file.

    Raises:
        WeightsError: it does not say.
    """
    found = loaded.report.get("threshold")
    if type(found) not in (int, float) or not 0.0 <= found <= 1.0:
        raise WeightsError(f"weight file {path} does not say under held_out at which threshold (0 to 1) objects are "
                           f"told; {REMEDY}")
    return float(found)

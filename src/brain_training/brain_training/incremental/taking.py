# SPDX-License-Identifier: Apache-2.0
"""Weight file that robots take, of what a fleet has learned together: with a threshold, and how it was made."""
from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from brain_training.definitions import vision as definition
from brain_training.federated import network_of
from brain_training.incremental import clip_list
from brain_training.incremental.comparing import together
from brain_training.incremental.sedna_worker import WorkerProblem
from brain_training.incremental.stages import BY, MOST_DRIVES, THRESHOLD_ROOMS, WAY, Settings, Tell, paths_of
from brain_training.vision import test_on
from brain_training.vision_data import make_ways

MODEL = "model."        # names of weights begin so in a training's own file, which holds what its strategy keeps too


def take(learned: Path, listed: Path | None, out: Path, settings: Settings, tell: Tell) -> dict[str, Any]:
    """Writes ``out``: the weights that a fleet has learned, and from which confidence on they tell of things.

    Args:
        learned: ``model.safetensors`` of a training of the fleet, or any safetensors with vision's folded weights.
        listed: clips of drives that nobody has learned from, to choose the threshold on besides rooms of ``val``; None:
            on these alone. The comparison leaves those drives out.
        out: the weight file.
        settings: labels, how many rooms, and where clips are.
        tell: told what is left out.

    Returns:
        How it was made, as the file tells it, and ``threshold``.

    Raises:
        WorkerProblem: the weights or the list cannot be read.
        ValueError: the weights are not vision's.
        OSError: ``out`` cannot be written.
    """
    torch.set_num_threads(1)
    found, digest = _weights(learned)
    network = network_of(found).eval()
    clips = [] if listed is None else clip_list.clips_of(paths_of(listed, settings.root), tell)
    ways = [way for one in clip_list.held_out(clips, settings.labels, tell).values() for way in one]
    plain = list(make_ways(max(1, settings.rooms // 2), WAY, split="val", first_seed=THRESHOLD_ROOMS))
    tally = together([test_on(network, some) for some in (plain, ways) if some])
    threshold = tally.best_threshold()
    training = {"split": "train", "by": f"{BY} take", "learned": digest,
                "drives": sorted({clip.drive for clip in clips})[-MOST_DRIVES:]}
    definition.save(out, network, training, {"threshold": threshold, "objects_of_threshold": len(tally.asked)})
    return {**training, "threshold": threshold}


def _weights(path: Path) -> tuple[dict[str, np.ndarray], str]:
    from brain_cloud.federated.weights import WeightsProblem, unpack

    try:
        data = path.read_bytes()
        arrays = unpack(data, own=True)
    except OSError as error:
        raise WorkerProblem(f"cannot read {path}: {error.strerror or error}") from None
    except WeightsProblem as error:
        raise WorkerProblem(f"{path} cannot be taken ({error}); name the model.safetensors of a training of the fleet"
                            ) from None
    own = {name.removeprefix(MODEL): value for name, value in arrays.items() if name.startswith(MODEL)}
    found = own or arrays
    if not all(np.isfinite(value).all() for value in found.values() if value.dtype.kind == "f"):
        raise WorkerProblem(f"{path} has numbers that are not finite; robots cannot take it")
    return found, hashlib.sha256(data).hexdigest()

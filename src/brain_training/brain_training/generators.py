# SPDX-License-Identifier: Apache-2.0
"""States of the generators of random numbers that a process has beside the streams of a task.

What this project's tasks draw is a function of seed, step and index. A user's task may also draw from torch's, NumPy's
or Python's own generator: their states go into the checkpoints of several processes, and back to the same rank.
"""
from __future__ import annotations

import random
from typing import Any, Mapping

import numpy as np
import torch
from torch import Tensor


def states() -> dict[str, Tensor]:
    """Of this process, by name."""
    version, words, gauss = random.getstate()
    legacy: Any = np.random.get_state()
    kind, keys, position, has, cached = legacy
    assert version == 3 and kind == "MT19937"
    found = {"torch": torch.get_rng_state(),
             "python": torch.tensor(words, dtype=torch.int64),
             "python_gauss": torch.tensor([np.nan if gauss is None else gauss], dtype=torch.float64),
             "numpy": torch.from_numpy(np.concatenate([keys.astype(np.int64), [position, has]])),
             "numpy_gauss": torch.tensor([cached], dtype=torch.float64)}
    if torch.cuda.is_initialized():     # to ask for it would take memory of a GPU that nothing here uses
        found["cuda"] = torch.cuda.get_rng_state()
    return found


def restore(found: Mapping[str, Tensor]) -> None:
    """Takes back what :func:`states` gave; nothing where there is nothing."""
    if not found:
        return
    torch.set_rng_state(found["torch"])
    gauss = float(found["python_gauss"])
    random.setstate((3, tuple(found["python"].tolist()), None if np.isnan(gauss) else gauss))
    numbers: Any = found["numpy"].numpy()
    np.random.set_state(("MT19937", numbers[:-2].astype(np.uint32), int(numbers[-2]), int(numbers[-1]),
                         float(found["numpy_gauss"])))
    if "cuda" in found and torch.cuda.is_available():
        torch.cuda.set_rng_state(found["cuda"])

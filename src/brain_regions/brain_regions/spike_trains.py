# SPDX-License-Identifier: Apache-2.0
"""Spikes that a region publishes for who looks inside: how many go into a message, and what an energy budget leaves."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from brain_runtime import Gated

MOST = 4096     # spikes in one SpikeTrain


def thinned(train: Any, share: float) -> Any:
    """A SpikeTrain with about this share of its spikes, evenly over its bins.

    ``total`` still tells how many there were. The last spike always stays, from whose bin a reader sees how
    much time the message covers.
    """
    n = len(train.neuron)
    keep = min(n, max(1, int(share * n)))
    if keep >= n:
        return train
    kept = n - 1 - np.arange(keep)[::-1] * n // keep
    return replace(train, neuron=train.neuron[kept], bin=train.bin[kept])


GATED = Gated(thin=thinned)
"""For the port of such spikes: they may be cut."""

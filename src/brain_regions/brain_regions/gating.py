# SPDX-License-Identifier: Apache-2.0
"""Which outputs of the regions may wait for an energy budget, what of them never does, and what is no news.

All other outputs always pass: goals (``goal/text``, ``lang/features``), commands (``motor/command``, ``cmd_vel``), the
emergency stop, and what a stranger says. Heartbeats are their host's, and pass no gate.
"""
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from brain_runtime import Gated

SEARCH, APPROACH = 1, 2         # Control MODE_*: all others stand, stop or get away from something
PASSED, LIMITED = 0, 1          # Trace ACTION_*: those that need no look
BEARING = math.radians(5.0)     # rad; objects that moved less look the same
DISTANCE = 0.1                  # m


def _bin(value: float, width: float) -> int | None:
    return round(float(value) / width) if math.isfinite(value) else None


def _hazardous(message: Any) -> bool:
    """Something solid is near; a bin that is NaN tells nothing."""
    return bool((message.hazard > 0).any())


def _stops(message: Any) -> bool:
    return message.mode not in (SEARCH, APPROACH) or _hazardous(message)


def _wanted(message: Any) -> tuple:
    return (message.goal_id, message.mode, message.target_color, message.target_shape,
            _bin(message.bearing, BEARING), _bin(message.distance, DISTANCE), _bin(message.heading, BEARING))


def _seen(message: Any) -> tuple:
    return tuple((o.color, o.shape, _bin(o.bearing, BEARING), _bin(o.distance, DISTANCE)) for o in message.objects)


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


SPIKES = Gated(thin=thinned)
OBJECTS = Gated(gist=_seen)
FEATURES = Gated(urgent=_hazardous, key="source")
CONTROL = Gated(urgent=_stops, gist=_wanted)
MOTOR_STATUS = Gated(gist=lambda message: (message.goal_id, message.state))
TRACE = Gated(urgent=lambda message: message.action not in (PASSED, LIMITED),
              gist=lambda message: message.action)

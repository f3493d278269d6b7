# SPDX-License-Identifier: Apache-2.0
"""Error that is raised where another rank has gone, and how backends' errors of this kind are recognized."""
from __future__ import annotations

import torch.distributed as dist

from brain_training.task import TrainingError

SIGNS = ("closed by peer", "Connection reset", "Connection refused", "Broken pipe", "gloo", "NCCL", "Timed out waiting")
"""Words of the backends' errors that say so."""


class LostRank(TrainingError):
    """Another rank has gone; the one that started all of them knows why."""


def lost(error: BaseException) -> bool:
    """Tells whether an error says that another rank has gone."""
    return type(error).__module__.startswith("brain_collectives") or isinstance(error, dist.DistError) or (
        not isinstance(error, TrainingError) and any(sign in str(error) for sign in SIGNS))

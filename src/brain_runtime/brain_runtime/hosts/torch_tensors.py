# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch from ``brain_interfaces/msg/Tensor``; the other way is in :mod:`brain_runtime.contract.tensors`."""
from __future__ import annotations

import numpy as np
import torch

from brain_runtime.interfaces import Tensor
from brain_runtime.contract.tensors import MOST, raw


def torch_tensor(message: Tensor, most: int = MOST) -> torch.Tensor:
    """The tensor that a message holds, in its very dtype and in memory of its own.

    Args:
        message, most: as for :func:`brain_runtime.contract.tensors.array`.

    Raises:
        TensorError: the message is broken, or has more elements.
    """
    found = raw(message, most)
    if not found.flags.writeable:
        found = found.copy()
    if message.dtype == Tensor.DTYPE_BFLOAT16:
        return torch.from_numpy(found.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(found)

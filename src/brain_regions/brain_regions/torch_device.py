# SPDX-License-Identifier: Apache-2.0
"""Convolutions computed by torch on a GPU, for who asks for one; no robot needs torch otherwise."""
from __future__ import annotations

from typing import Sequence

import numpy as np
import torch
import torch.nn.functional as F

from brain_regions.convolutions import Charging


def lacking() -> str:
    """Reason for which no GPU can be computed on here; empty where one can."""
    return "" if torch.cuda.is_available() else f"torch {torch.__version__} finds no such device here"


def on_device(weight: np.ndarray, bias: np.ndarray, stride: Sequence[int], padding: Sequence[int],
              dilation: Sequence[int], device: str) -> Charging:
    """As :class:`brain_regions.convolutions.Convolving`, computed on a ``device``."""
    torch.backends.cudnn.conv.fp32_precision = "ieee"   # by default a convolution rounds to 10 bits there
    weights = [torch.from_numpy(np.ascontiguousarray(part, np.float32)).to(device) for part in (weight, bias)]

    def charged(x: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            found = F.conv2d(torch.from_numpy(x).to(device).permute(0, 3, 1, 2), *weights, stride, padding, dilation)
            return np.ascontiguousarray(found.permute(0, 2, 3, 1).cpu().numpy())

    return charged

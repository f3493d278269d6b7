# SPDX-License-Identifier: Apache-2.0
"""Beside nccl, on a GPU. Nothing runs where there is none."""
from __future__ import annotations

import pytest
import torch


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_group_has_zenoh_for_the_cpu_and_nccl_for_the_gpu(ranks):
    (said,) = ranks(1, "beside_nccl.py", whole=True).succeed()
    assert "done" in said and "refused" in said and "cuda:0" in said

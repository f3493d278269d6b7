# SPDX-License-Identifier: Apache-2.0
"""From which size all_reduce is quicker by chunks: both ways in turn, medians (us), printed by rank 0.

``torchrun --nproc-per-node 3 src/brain_collectives/test/programs/threshold.py``
"""
from __future__ import annotations

import statistics
import time
from dataclasses import replace

import torch
import torch.distributed as dist

import brain_collectives  # noqa: F401

torch.set_num_threads(1)
dist.init_process_group("zenoh")
link = dist.distributed_c10d._get_default_group().wire.link
for size in (1 << 12, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 20):
    took: dict[int, list[float]] = {1: [], 1 << 40: []}
    tensor = torch.zeros(size // 4)
    for number in range(60):
        large = (1, 1 << 40)[number % 2]
        link.settings = replace(link.settings, large=large)
        began = time.perf_counter()
        dist.all_reduce(tensor)
        took[large].append(time.perf_counter() - began)
    chunks, whole = (statistics.median(took[large][5:]) * 1e6 for large in (1, 1 << 40))
    if dist.get_rank() == 0:
        print(f"{size:8d} B: whole {whole:7.0f}, by chunks {chunks:7.0f}", flush=True)
dist.destroy_process_group()

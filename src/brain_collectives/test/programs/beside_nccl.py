# SPDX-License-Identifier: Apache-2.0
"""One rank with both memories: zenoh for the CPU's tensors, nccl beside it; and a tensor for the wrong one."""
from __future__ import annotations

import torch
import torch.distributed as dist

import brain_collectives

dist.init_process_group("zenoh")
beside = dist.new_group(backend="nccl")
here, there = torch.arange(5.0), torch.arange(5.0, device="cuda")
dist.all_reduce(here)
dist.all_reduce(there, group=beside)
assert torch.equal(here, there.cpu()) and here.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
try:
    dist.all_reduce(there)
except (brain_collectives.CollectiveError, RuntimeError, ValueError) as error:
    print("refused", " ".join(str(error).split()), flush=True)
dist.destroy_process_group()
print("done", flush=True)

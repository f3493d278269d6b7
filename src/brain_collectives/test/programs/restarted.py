# SPDX-License-Identifier: Apache-2.0
"""Started by torchrun: rank 1 fails in the first attempt. Argument: a folder, in which each rank notes each attempt."""
from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import brain_collectives    # noqa: F401 # which registers the backend

RANK, ATTEMPT = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
(Path(sys.argv[1]) / f"{ATTEMPT}-{RANK}").touch()
dist.init_process_group("zenoh")
dist.barrier()
if ATTEMPT == 0 and RANK == 1:
    os._exit(7)
mine = torch.tensor([float(RANK + 1)])
dist.all_reduce(mine)
os.write(1, f"sum {mine.item()}\n".encode())     # at once: both ranks write to one pipe
dist.destroy_process_group()

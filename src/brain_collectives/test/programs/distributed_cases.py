# SPDX-License-Identifier: Apache-2.0
"""Cases of torch's own DistributedTest on the zenoh backend, all in the same processes.

torch starts processes for each case. Here one set of ranks goes through all of them, with a new default group for
each. Arguments: a folder for files, the file with the list.
"""
from __future__ import annotations

import os
import sys
import traceback
import unittest
from datetime import timedelta
from pathlib import Path

FOLDER, LIST = Path(sys.argv[1]), Path(sys.argv[2])
BACKEND = sys.argv[3] if len(sys.argv) > 3 else "zenoh"
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
os.environ.update({"BACKEND": BACKEND, "TEMP_DIR": str(FOLDER), "INIT_METHOD": "file://",
                   "MASTER_ADDR": "127.0.0.1"})
for sub in ("barrier", "test_dir", "init_dir"):
    (FOLDER / sub).mkdir(exist_ok=True)
sys.argv = sys.argv[:1]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal.common_distributed import TEST_SKIPS  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

import brain_collectives  # noqa: E402

# What torch's own tests have to be told of a backend: each table names those that can do something.
features = distributed_test.DistTestCases.backend_feature
for feature in ("ddp", "subgroup"):
    features[feature] = {*features[feature], BACKEND}
distributed_test.BACKEND = BACKEND
SKIPS = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}


class Cases(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    """torch's cases."""


def run(name: str) -> str:
    """``passed``, ``skipped: why`` or ``failed``."""
    case = Cases(name)
    torch.manual_seed(0)    # as torch does before each of its tests: all ranks draw the same numbers
    case.rank = RANK
    case.file_name = str(FOLDER / name)
    try:
        dist.init_process_group(BACKEND, init_method=f"file://{FOLDER / name}", rank=RANK, world_size=WORLD,
                                timeout=timedelta(seconds=60))
        before = brain_collectives.counters().calls.total() if BACKEND == "zenoh" else 0
        getattr(case, name)()
        dist.barrier()
        used = brain_collectives.counters().calls.total() - before
        other = {type(group).__name__ for group in dist.distributed_c10d._world.pg_map} - {"ZenohGroup"}
        return f"passed {used} {sorted(other)}"
    except unittest.SkipTest as skip:
        return f"skipped: {skip}"
    except SystemExit as skip:
        return f"skipped: {SKIPS.get(skip.code, skip.code)}"
    except Exception:
        traceback.print_exc()
        return "failed"
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


for line in LIST.read_text(encoding="utf-8").splitlines():
    if line.startswith("test_"):
        print(f"case {line} {run(line)}", flush=True)

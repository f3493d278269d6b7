# SPDX-License-Identifier: Apache-2.0
"""Several real processes of a test, as ranks of a group of ``torch.distributed``."""
from __future__ import annotations

import io
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any, Callable

import torch
import torch.distributed as dist

from brain_training.parallel.group import leave

FORKS = multiprocessing.get_context("forkserver")     # what it has imported: FORKED of the tests' conftest.py
PATIENCE = 240.0    # s: they share their cores with whatever else runs


def several(folder: Path, count: int, what: Callable[..., Any], *arguments: Any, backend: str = "gloo") -> list[Any]:
    """What ``what(rank, *arguments)``, a module's function, gives on each of ``count`` ranks.

    Raises:
        AssertionError: a rank failed, or did not end; what it wrote is on standard error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ranks = [FORKS.Process(target=_rank, args=(folder, rank, count, backend, what, arguments), daemon=True)
             for rank in range(count)]
    for one in ranks:
        one.start()
    try:
        for one in ranks:
            one.join(PATIENCE)
        assert [one.exitcode for one in ranks] == [0] * count
    finally:
        for one in ranks:
            one.kill()
            one.join()
    return [torch.load(folder / f"{rank}.answer", weights_only=False) for rank in range(count)]


def _rank(folder: Path, rank: int, count: int, backend: str, what: Callable[..., Any], arguments: tuple) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    if backend == "zenoh":
        from brain_collectives.registration import register

        register()
    dist.init_process_group(backend, init_method=f"file://{folder / 'met'}", rank=rank, world_size=count)
    try:
        found = io.BytesIO()
        torch.save(what(rank, *arguments), found)
        (folder / f"{rank}.answer").write_bytes(found.getvalue())
        dist.barrier()
    finally:
        sys.stderr.flush()
        leave()

# SPDX-License-Identifier: Apache-2.0
"""A rank of a static group that has a region: ``python -m brain_runtime.torch_process``, with torchrun's environment.

Rank 0 says which brain it is to be, and what happens to it (:class:`brain_runtime.hosts.torch.TorchHost`). Status
0: rank 0 has ended the group; 1: a rank was lost, or failed.
"""
from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy or torch are imported: ranks share few cores

import argparse  # noqa: E402
import logging  # noqa: E402
import sys  # noqa: E402
from typing import Sequence  # noqa: E402

from brain_runtime.hosts.group_error import GroupError  # noqa: E402
from brain_runtime.run.ending import leave  # noqa: E402
from brain_runtime.hosts.torch_group import TIMEOUT, Group  # noqa: E402
from brain_runtime.hosts.torch_orders import obey  # noqa: E402
from brain_wire import safe_text  # noqa: E402
from brain_wire.logs import survive_full_disk  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    """Does what rank 0 asks until it ends the group; returns the exit status."""
    parser = argparse.ArgumentParser(prog="brain_runtime.torch_process", description="A rank of a brain on a static "
                                     "group of torch.distributed.")
    parser.add_argument("--backend", default="gloo", help="of torch.distributed")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="s that a rank waits for another one")
    options = parser.parse_args(argv)
    survive_full_disk()
    rank = os.environ.get("RANK", "?")
    safe_text.log_to(sys.stderr, logging.INFO, f"%(asctime)s %(levelname)s [rank {rank}] %(message)s")
    try:
        group = Group(options.backend, options.timeout)
        obey(group)
    except GroupError as error:
        print(f"{safe_text.line(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1    # rank 0 was interrupted too
    group.close()
    return 0


if __name__ == "__main__":
    leave(main())

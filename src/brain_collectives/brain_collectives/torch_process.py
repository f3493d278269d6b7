# SPDX-License-Identifier: Apache-2.0
"""Rank of a static group that has a region: ``python -m brain_collectives.torch_process``, as torchrun starts it.

Rank 0 says which brain it is to be, and what happens to it (:class:`brain_collectives.hosts.torch.TorchHost`). Status
0: rank 0 has ended the group; 1: a rank was lost, or failed.
"""
from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import Sequence

from brain_collectives.hosts.torch import ORDERS, TorchHost
from brain_collectives.hosts.torch_group import TIMEOUT, Group
from brain_runtime.contract.stepper import RegionError
from brain_runtime.graph.resolved import Resolved
from brain_runtime.hosts.backends import GroupError
from brain_runtime.run.ending import leave
from brain_runtime.run.loop import ONE_THREAD
from brain_wire import safe_text
from brain_wire.logs import survive_full_disk


def one_thread() -> None:
    """Begins this process anew with one thread for torch and NumPy, where nobody has said how many.

    Both ask when they are loaded, which is before any line of a module of this package is run. The kernel of processes
    says it to all that it starts; torchrun does so only where it starts several.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        os.environ.update({**ONE_THREAD, **os.environ})
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def end(group: Group) -> None:
    """Tells the other ranks to leave :func:`obey`. Raises GroupError."""
    group.tell({"do": "end"})


def obey(group: Group) -> None:
    """Carries out the orders of rank 0, at a rank with a region, until told to end: one brain after the other.

    Raises:
        GroupError: a rank is lost, or says what cannot be.
    """
    host: TorchHost | None = None
    while True:
        order = group.hear(0)
        do = order["do"]
        if do == "end":
            return
        try:
            if do == "begin":
                host = None
                host = TorchHost(group, Resolved.from_json(order["brain"]), **order["given"])
            elif host is None:
                raise GroupError(f"rank 0 asks for {do!r} before there is a brain; it runs other code")
            elif do in ORDERS:
                ORDERS[do](host, *order["given"], **order["more"])
            else:
                raise GroupError(f"rank 0 asks for {do!r}, which nobody here knows; it runs other code")
        except RegionError:     # all ranks know, and rank 0 decides what comes next
            host = None


def main(argv: Sequence[str] | None = None) -> int:
    """Does what rank 0 asks until it ends the group; returns the exit status."""
    parser = argparse.ArgumentParser(prog="brain_collectives.torch_process", description="A rank of a brain on a "
                                     "static group of torch.distributed.")
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
    one_thread()
    leave(main())

# SPDX-License-Identifier: Apache-2.0
"""Ranks that carry out the orders of the rank outside: the loop of a rank with a region, and the word that ends it."""
from __future__ import annotations

from brain_runtime.contract.stepper import RegionError
from brain_runtime.graph.resolved import Resolved
from brain_runtime.hosts.group_error import GroupError
from brain_runtime.hosts.torch import ORDERS, TorchHost
from brain_runtime.hosts.torch_group import Group


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

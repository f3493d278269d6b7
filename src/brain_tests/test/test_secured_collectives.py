# SPDX-License-Identifier: Apache-2.0
"""A group of the zenoh backend behind a secured router: people's keys may, a region's and a stranger's may not."""
from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import zenoh

from brain_collectives import CollectiveError, TooLate, algorithms
from brain_collectives.group import Group
from brain_collectives.header import Call
from brain_collectives.link import SPACE, Link
from brain_collectives.opening import open_link
from brain_runtime.graph.resolved import Resolved
from brain_security.access import COLLECTIVES
from brain_security.folder import fill
from brain_security.rights import rights_of
from brain_tests.secured import PATIENCE, REGIONS


def linked(secured, monkeypatch, identity, patience):
    """Two ranks in this process, each with a link of its own, or with the error that it got."""
    for variable, value in {"BRAIN_SECURITY": str(secured.folder), "BRAIN_ROUTER": secured.endpoint,
                            "BRAIN_COLLECTIVES_IDENTITY": identity, "BRAIN_COLLECTIVES_LINK": "router"}.items():
        monkeypatch.setenv(variable, value)
    store, found = dist.HashStore(), {}

    def link(rank):
        try:
            found[rank] = open_link(store, rank, 2, timedelta(seconds=patience))
        except CollectiveError as error:
            found[rank] = error
    threads = [threading.Thread(target=link, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(2)]


def test_the_rules_name_the_keys_of_the_backend():
    assert zenoh.KeyExpr(COLLECTIVES).includes(zenoh.KeyExpr(f"{SPACE}/run/to/0"))


@pytest.mark.parametrize("identity", ["operator", "ann"])
def test_a_secured_group_runs_with_the_keys_of_people(secured, monkeypatch, identity):
    links = linked(secured, monkeypatch, identity, PATIENCE)
    try:
        assert all(isinstance(link, Link) and link.trusted for link in links), links
        tensors = [torch.full((3,), float(rank + 1)) for rank in range(2)]

        def add(link, tensor):
            exchange = algorithms.Exchange(group := Group(link, "all", (0, 1)), 0, call := Call("all_reduce"), PATIENCE,
                                           time.monotonic())
            group.begin(0, call)
            algorithms.all_reduce(exchange, tensor, "SUM", 1 << 20)
        threads = [threading.Thread(target=add, args=both) for both in zip(links, tensors, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [tensor.tolist() for tensor in tensors] == [[3.0] * 3] * 2
    finally:
        for link in links:
            if isinstance(link, Link):
                link.close()


def test_the_keys_of_a_region_open_no_group(secured, monkeypatch):
    for error in linked(secured, monkeypatch, "vision", 2.0):
        assert isinstance(error, TooLate) and "may it use the keys brain_collectives/**?" in str(error)


def test_the_keys_of_a_stranger_are_refused(secured, monkeypatch, tmp_path):
    fill(tmp_path, rights_of(Resolved("g", REGIONS, namespace="/r1")), domain=secured.domain, namespace="/r1", about={},
         days=30.0)
    monkeypatch.setattr(secured, "folder", tmp_path)
    for error in linked(secured, monkeypatch, "operator", 2.0):
        assert isinstance(error, CollectiveError) and "has no link" in str(error)

# SPDX-License-Identifier: Apache-2.0
"""Stores of ranks of one machine listen there alone, whatever torch makes of them afterwards."""
from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from brain_collectives import torch_store


def listening(port):
    """Addresses at which somebody listens at a port, as the kernel writes them."""
    tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6") if Path(f"/proc/net/{name}").exists()]
    words = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {its[1].split(":")[0] for its in words if its[3] == "0A" and its[1].endswith(f":{port:04X}")}


def test_a_store_listens_on_loopback_alone_and_init_process_group_serves_no_other(monkeypatch):
    store = torch_store.serve()
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "RANK": "0",
                        "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    met, _, _ = next(iter(dist.rendezvous("env://", timeout=timedelta(seconds=20))))
    met.set("here", "1")
    assert listening(store.port) == {"0100007F"}
    other = dist.TCPStore(torch_store.HERE, store.port, is_master=False, timeout=timedelta(seconds=20))
    assert other.num_keys() == store.num_keys() > 0

# SPDX-License-Identifier: Apache-2.0
"""A store of torch.distributed that this machine alone reaches: torch's listens on all addresses and asks nobody."""
from __future__ import annotations

import socket
from datetime import timedelta

import torch.distributed as dist

HERE = "127.0.0.1"
NEAR = (HERE, "localhost", "::1")   # addresses by which a machine reaches itself
PATIENCE = timedelta(seconds=300)   # torch's own


def serve(port: int = 0, timeout: timedelta = PATIENCE) -> dist.TCPStore:
    """Serves a store in this process, as long as it is kept.

    Whatever else this process asks torch to serve at the same port, as ``init_process_group`` does, is then this store.

    Args:
        port: 0: one that is free.
        timeout: of whoever waits for a key here.

    Raises:
        OSError: the port is taken.
    """
    listening = socket.create_server((HERE, port))
    return dist.TCPStore(HERE, listening.getsockname()[1], is_master=True, wait_for_workers=False, timeout=timeout,
                         multi_tenant=True, master_listen_fd=listening.detach())

# SPDX-License-Identifier: Apache-2.0
"""One rank of several in processes of this machine, which whoever started them watches.

What it finds it tells as dicts, each with its kind; each second it tells that it is there.
"""
from __future__ import annotations

import os
import socket
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from brain_collectives.checks.rank import NotHere, Order, Rank, RankProblem, Tell, opened
from brain_collectives.checks.table import chosen, with_more

HOST = "127.0.0.1"
BEAT = 1.0      # s between signs of life
LOOK = 0.02     # s between looks for where rank 0 is


def run(rank: int, ranks: int, order: Order, meeting: str, tell: Tell) -> None:
    """Runs the rank; ends the process with status 1 where it could not go on, which it has told.

    Args:
        rank: number of this one.
        ranks: how many.
        order: what all do.
        meeting: file in which rank 0 writes the port of the store by which they meet.
        tell: called with what is found.
    """
    ended = threading.Event()
    threading.Thread(target=_beat, args=(tell, ended), daemon=True).start()
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")   # the machine's own name may lead nowhere
    try:
        _work(rank, ranks, order, Path(meeting), tell)
    except RankProblem as problem:
        tell({"kind": "error", "words": str(problem), "plain": isinstance(problem, NotHere)})
        sys.exit(1)
    except Exception as error:      # whatever a backend raises in the middle of a group's life
        tell({"kind": "error", "words": f"{type(error).__name__}: {' '.join(str(error).split())}", "plain": False})
        sys.exit(1)
    finally:
        ended.set()


def _work(rank: int, ranks: int, order: Order, meeting: Path, tell: Tell) -> None:
    """Makes or finds the store, and does what is ordered."""
    import torch
    import torch.distributed as dist

    # The ranks' own clocks run longer than the patience of who watches them, which can say more.
    patience = timedelta(seconds=2 * order.patience)
    if rank == 0:
        listening = socket.create_server((HOST, 0))     # of itself the store listens on all addresses
        port = listening.getsockname()[1]
        store = dist.TCPStore(HOST, port, ranks, is_master=True, timeout=patience, wait_for_workers=False,
                              master_listen_fd=listening.detach())
        written = meeting.with_suffix(".new")
        written.write_text(str(port), encoding="ascii")
        written.replace(meeting)
        tell({"kind": "store", "torch": str(torch.__version__)})
    else:
        while not meeting.exists():     # who watches it ends it, where rank 0 does not come
            time.sleep(LOOK)
        store = dist.TCPStore(HOST, int(meeting.read_text(encoding="ascii")), ranks, is_master=False, timeout=patience,
                              wait_for_workers=False)
    place = opened(order, store, rank, ranks, rank, 2 * order.patience)
    Rank(place, dist.PrefixStore("agreed", store), order, tell).run(
        chosen(order.names, with_more(order.more)))
    leave(dist, store, rank, ranks)


def leave(dist: Any, store: Any, rank: int, ranks: int) -> None:
    """Ends the group when all are through; rank 0, whose process may hold the store, last."""
    store.set(f"through/{rank}", "")
    store.wait([f"through/{other}" for other in range(ranks)])
    dist.destroy_process_group()
    store.set(f"left/{rank}", "")
    if rank == 0:
        store.wait([f"left/{other}" for other in range(ranks)])


def _beat(tell: Tell, ended: threading.Event) -> None:
    while not ended.wait(BEAT):
        tell({"kind": "beat"})

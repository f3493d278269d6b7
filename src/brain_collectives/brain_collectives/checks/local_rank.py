# SPDX-License-Identifier: Apache-2.0
"""One rank as a process of its own: ``python -m brain_collectives.checks.local_rank RANK RANKS``.

It is told what to do on standard input, a line of JSON, and then, but for rank 0, where rank 0's store is. What it
finds it tells in lines of JSON on standard output. When standard input ends, whoever started it is gone, and so is it.
"""
from __future__ import annotations

import json
import os
import socket
import sys
import threading
from datetime import timedelta
from typing import IO, Any, Sequence

from brain_collectives.checks.rank import NotHere, Order, Rank, RankProblem, Tell, opened
from brain_collectives.checks.table import chosen, with_more

HOST = "127.0.0.1"
BEAT = 1.0      # s between signs of life


def main(argv: Sequence[str]) -> int:
    """Runs the rank; returns the exit status: 0, or 1 where it could not go on, which it has told."""
    rank, ranks = int(argv[0]), int(argv[1])
    tell = _teller()
    order = Order.from_json(sys.stdin.readline())
    ended = threading.Event()
    threading.Thread(target=_beat, args=(tell, ended), daemon=True).start()
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")   # the machine's own name may lead nowhere
    try:
        _work(rank, ranks, order, tell, sys.stdin)
    except RankProblem as problem:
        tell({"kind": "error", "words": str(problem), "plain": isinstance(problem, NotHere)})
        return 1
    except Exception as error:      # whatever a backend raises in the middle of a group's life
        tell({"kind": "error", "words": f"{type(error).__name__}: {' '.join(str(error).split())}", "plain": False})
        return 1
    finally:
        ended.set()
    return 0


def _work(rank: int, ranks: int, order: Order, tell: Tell, told: IO[str]) -> None:
    """Makes or finds the store, and does what is ordered."""
    import torch
    import torch.distributed as dist

    # The ranks' own clocks run longer than the patience of who watches them, which can say more.
    patience = timedelta(seconds=2 * order.patience)
    store = None
    if rank == 0:
        listening = socket.create_server((HOST, 0))     # of itself the store listens on all addresses
        store = dist.TCPStore(HOST, listening.getsockname()[1], ranks, is_master=True, timeout=patience,
                              wait_for_workers=False, master_listen_fd=listening.detach())
    tell({"kind": "store", "port": store.port if store else None, "torch": str(torch.__version__)})
    port = json.loads(told.readline())["port"]
    if store is None:
        store = dist.TCPStore(HOST, port, ranks, is_master=False, timeout=patience, wait_for_workers=False)
    threading.Thread(target=_end_with, args=(told,), daemon=True).start()
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


def _teller() -> Tell:
    """Makes a function that writes to standard output, and leads away from there all that others print."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lock = threading.Lock()

    def tell(found: dict[str, Any]) -> None:
        with lock:
            out.write(json.dumps(found, default=repr) + "\n")
            out.flush()
    return tell


def _beat(tell: Tell, ended: threading.Event) -> None:
    while not ended.wait(BEAT):
        tell({"kind": "beat"})


def _end_with(told: IO[str]) -> None:
    told.read()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

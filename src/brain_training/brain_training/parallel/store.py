# SPDX-License-Identifier: Apache-2.0
"""The store by which the agents of an elastic training find each other, in a process of its own.

``python -m brain_training.parallel.store [PORT]`` prints its port, and runs until it is ended. An agent that is killed
takes nothing of it along. It is torch's TCPStore, which asks nobody who they are: with PORT it listens on all
addresses, for agents on other machines, without on this machine's loopback alone.
"""
from __future__ import annotations

import signal
import sys

from torch.distributed import TCPStore

from brain_collectives.torch_store import serve


def main(argv: list[str]) -> None:
    """Serves until a signal comes."""
    given = argv[0] if argv else "0"
    if not (given.isascii() and given.isdecimal() and len(given) <= 5 and int(given) <= 65535):
        sys.exit(f"{ascii(given)[:40]} is no port; give a number from 1 to 65535, or none: then it takes a free one")
    port = int(given)
    try:
        store = TCPStore("localhost", port, is_master=True, wait_for_workers=False) if port else serve()
    except (OSError, RuntimeError) as error:
        sys.exit(f"no store on port {port} ({' '.join(str(error).split()[:20])}); take another")
    print(store.port, flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])

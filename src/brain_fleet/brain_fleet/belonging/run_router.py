# SPDX-License-Identifier: Apache-2.0
"""The router of a secured cloud, as a process of its own: ``python -m brain_fleet.belonging.run_router``.

It is killed and started again whenever the access rules change, which within the cloud's process could hang: sessions
of one process share Zenoh's threads. It ends when its standard input does, so it outlives no cloud, however that ends.
"""
from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Sequence

import zenoh

from brain_fleet.belonging.names import GO_ON, IS_OPEN, IS_READY, TAKEN
from brain_fleet.processes.settings import ZENOH
from brain_wire import SessionProblem, safe_text
from brain_wire.router import Router, RouterProblem, RouterRuns


def main(argv: Sequence[str] | None = None) -> int:
    """Waits for the word, routes until standard input ends, and says on standard output how it goes."""
    parser = argparse.ArgumentParser(prog="router", description=__doc__.split("\n")[0])
    parser.add_argument("--listen", action="append", required=True, metavar="ENDPOINT")
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)   # a terminal sends them to all; the cloud ends this
    zenoh.try_init_log_from_env()   # where RUST_LOG is set
    print(IS_READY, flush=True)
    if sys.stdin.readline().strip() != GO_ON:
        return 0
    try:
        router = Router(options.listen, config_file=options.config, more=ZENOH)
    except (RouterProblem, SessionProblem) as problem:
        print(f"{TAKEN if isinstance(problem, RouterRuns) else ''}{safe_text.line(problem)}", flush=True)
        return 1
    print(IS_OPEN, flush=True)
    sys.stdin.read()
    del router
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)    # all links end with the process

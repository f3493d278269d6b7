# SPDX-License-Identifier: Apache-2.0
"""The cloud's process: ``python -m brain_fleet.processes.run_cloud``; ``brain cloud`` becomes it.

Status 0: ended in good order; 1: it cannot run, and says why; 3: another router has the endpoint.
"""
from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from pathlib import Path
from typing import Sequence

from brain_fleet.jobs.runner import Runner
from brain_fleet.messages.outbox import Limits
from brain_fleet.processes.cloud import Cloud
from brain_fleet.processes.orders import Orders
from brain_fleet.processes.settings import PORT, ZENOH, software
from brain_fleet.store import Store, StoreProblem
from brain_runtime.ending import Ending, leave
from brain_security.fleet_keys import CLOUD
from brain_wire import Session, SessionProblem, shown
from brain_wire.logs import survive_full_disk
from brain_wire.router import Router, RouterProblem, RouterRuns, loopback_endpoints

log = logging.getLogger("brain.cloud")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a cloud until SIGINT or SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(prog="brain cloud", description=__doc__.split("\n")[0])
    parser.add_argument("--listen", action="append", metavar="ENDPOINT")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--secure", type=Path)
    parser.add_argument("--jobs", type=int, metavar="SLOTS")
    parser.add_argument("--most-messages", type=int, default=Limits.messages)
    options = parser.parse_args(argv)
    ending = Ending()
    survive_full_disk()
    shown.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s cloud: %(message)s")
    rules = None if options.secure is None else options.secure / "router.json5"
    if rules is not None and not rules.is_file():
        return _cannot(f"{options.secure} is no folder of keys: `brain keys {options.secure} --node ROBOT` makes one")
    endpoints = options.listen or loopback_endpoints(PORT, "tcp" if rules is None else "tls")
    try:
        with Store(options.folder, CLOUD) as store, \
                contextlib.ExitStack() as closing, \
                Router(endpoints, config_file=rules, more=ZENOH) as router, \
                Session(router.session, ", ".join(endpoints)) as session:
            cloud = Cloud(store, session, Limits(messages=options.most_messages))
            runner = None if options.jobs is None else closing.enter_context(
                Runner(options.folder / "jobs", options.jobs))
            if runner is not None and rules is None:
                log.warning("whoever reaches %s can run any command here, since nothing is secured; see --secure",
                            ", ".join(endpoints))
            Orders(cloud, runner)
            log.info("brain_fleet %s: the cloud is reached at %s, and keeps what it knows in %s", software(),
                     ", ".join(endpoints), store.path)
            ending.asked.wait()
            cloud.stop()
    except (StoreProblem, RouterProblem, SessionProblem) as problem:
        return _cannot(problem, 3 if isinstance(problem, RouterRuns) else 1)
    return 0


def _cannot(why: object, status: int = 1) -> int:
    print(f"brain cloud: {shown.line(why)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    leave(main())

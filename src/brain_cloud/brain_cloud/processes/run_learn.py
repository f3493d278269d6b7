# SPDX-License-Identifier: Apache-2.0
"""The process that learns on a robot: ``python -m brain_cloud.processes.run_learn``; ``brain fleet learn`` becomes it.

Status 0: ended in good order; 1: it cannot run, and says why.
"""
from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import Sequence

from brain_cloud.federated.learner import Learner, LearnerProblem, make
from brain_cloud.federated.participant import Participant
from brain_edge.processes.identity import begun, check_credentials, cloud_at, while_linked
from brain_edge.processes.settings import software
from brain_runtime.run.ending import leave
from brain_security.fleet_keys import FleetNameProblem
from brain_wire import Session, SessionProblem, safe_text
from brain_wire.wakeup import Flag

POLITE = 10         # what is added to its niceness: the brain's own processes come first

log = logging.getLogger("brain.learning")


def main(argv: Sequence[str] | None = None) -> int:
    """Learns until SIGINT or SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(prog="brain fleet learn", description=__doc__.split("\n")[0])
    parser.add_argument("--learner", required=True)
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("--labels", default="self")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", required=True)
    parser.add_argument("--cloud")
    parser.add_argument("--secure", type=Path)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(argv)
    ending = begun("learn")
    cloud = cloud_at(options.cloud, options.secure is not None)
    with contextlib.suppress(OSError):      # where the system does not let it, it is as any other process
        os.nice(POLITE)
    try:
        check_credentials(options.secure, options.name)
        learner = make(options.learner, options.data, options.labels, options.seed)
        log.info("%s learns %s from %s, its cloud at %s", options.name, options.learner,
                 ", ".join(options.data) or "nothing", cloud)
        _run(cloud, options.name, options.learner, learner, options.secure, options.folder, ending.asked)
    except (FleetNameProblem, LearnerProblem, SessionProblem) as problem:
        print(f"brain fleet learn: {safe_text.line(problem)}", file=sys.stderr)
        return 1
    return 0


def _run(cloud: str, name: str, which: str, learner: Learner, credentials: Path | None, folder: Path | None, stop: Flag
         ) -> None:
    """Takes part, as soon as the cloud is reached."""
    participant: Participant | None = None

    def take_part(session: Session, until: Flag) -> None:
        nonlocal participant
        if participant is None:
            participant = Participant(session, name, which, learner, software=software(), folder=folder)
        participant.link(session)       # with what it has made, and has not handed in
        participant.run(until)

    while_linked(take_part, cloud, name, credentials, stop, f"no cloud at {cloud} (nobody listens there)", log)


if __name__ == "__main__":
    leave(main())

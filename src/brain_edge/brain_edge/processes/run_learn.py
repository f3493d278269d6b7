# SPDX-License-Identifier: Apache-2.0
"""The process that learns on a robot: ``python -m brain_edge.processes.run_learn``; ``brain fleet learn`` becomes it.

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

from brain_edge.federated.learner import LearnerProblem, make
from brain_edge.federated.participant import Participant
from brain_edge.processes.identity import Renewed, check_credentials, cloud_at
from brain_edge.processes.settings import ZENOH, refused, remedy, software
from brain_runtime.run.ending import Ending, leave
from brain_security.fleet_keys import FleetNameProblem, check_robot
from brain_wire import NoRouter, SessionProblem, open_session, safe_text
from brain_wire.logs import survive_full_disk
from brain_wire.session import Elsewhere
from brain_wire.wakeup import Flag

RETRY = 1.0         # s between attempts to reach a cloud that was not reached yet
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
    ending = Ending()
    survive_full_disk()
    safe_text.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s learn: %(message)s")
    cloud = cloud_at(options.cloud, options.secure is not None)
    with contextlib.suppress(OSError):      # where the system does not let it, it is as any other process
        os.nice(POLITE)
    try:
        name = check_robot(options.name)
        check_credentials(options.secure, name)
        learner = make(options.learner, options.data, options.labels, options.seed)
        log.info("%s learns %s from %s, its cloud at %s", name, options.learner, ", ".join(options.data) or "nothing",
                 cloud)
        _run(cloud, name, options.learner, learner, options.secure, options.folder, ending.asked)
    except (FleetNameProblem, LearnerProblem, SessionProblem) as problem:
        print(f"brain fleet learn: {safe_text.line(problem)}", file=sys.stderr)
        return 1
    return 0


def _run(cloud: str, name: str, which: str, learner: object, credentials: Path | None, folder: Path | None,
         stop: Flag) -> None:
    """Takes part, as soon as the cloud is reached; Zenoh itself links the session again after a cut."""
    said, participant = "", None
    while not stop.is_set():
        try:
            until = Renewed(stop, credentials, name)
            with open_session(cloud, identity=name, patience=0.0, more=ZENOH,
                              elsewhere=Elsewhere(credentials)) as session:
                if participant is None:
                    participant = Participant(session, name, which, learner,  # type: ignore[arg-type]
                                              software=software(), folder=folder)
                participant.link(session)       # with what it has made, and has not handed in
                participant.run(until)
        except NoRouter as problem:
            why = remedy(problem) if refused(problem) else "nobody listens there"
            if why != said:
                log.info("no cloud at %s (%s); this robot tries again", cloud, why)
                said = why
            stop.wait(RETRY)


if __name__ == "__main__":
    leave(main())

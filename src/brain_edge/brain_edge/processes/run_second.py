# SPDX-License-Identifier: Apache-2.0
"""The process that asks the cloud about hard pictures: ``python -m brain_edge.processes.run_second``.

``brain fleet second`` becomes it. Status 0: ended in good order; 1: it cannot run, and says why.
"""
from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import Sequence

from brain_edge.bridge.bridge import Bridge
from brain_edge.bridge.crossing import SECOND
from brain_edge.enrolment.consent import Consent, ConsentProblem
from brain_edge.enrolment.names import FILE
from brain_edge.processes.identity import Renewed, check_credentials, cloud_at
from brain_edge.processes.settings import ZENOH, refused
from brain_runtime.run.ending import Ending, leave
from brain_security.fleet_keys import FleetNameProblem, check_robot
from brain_wire import NameProblem, Node, NoRouter, SessionProblem, open_session, safe_text
from brain_wire.credentials import EDGE
from brain_wire.logs import survive_full_disk
from brain_wire.session import Elsewhere
from brain_wire.wakeup import Flag

DEADLINE = 0.5      # s for an answer, where nothing else is said
RETRY = 1.0         # s between attempts to reach a cloud, or a brain, that was not reached yet

log = logging.getLogger("brain.second")


def main(argv: Sequence[str] | None = None) -> int:
    """Asks until SIGINT or SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(prog="brain fleet second", description=__doc__.split("\n")[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--deadline", type=float, default=DEADLINE)
    parser.add_argument("--namespace", default="/")
    parser.add_argument("--router")
    parser.add_argument("--cloud")
    parser.add_argument("--secure", type=Path)
    options = parser.parse_args(argv)
    ending = Ending()
    survive_full_disk()
    safe_text.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s second: %(message)s")
    if options.secure is None and (options.folder / FILE).is_file():
        options.secure = options.folder / FILE      # what its edge has enrolled with
    options.cloud = cloud_at(options.cloud, options.secure is not None)
    try:
        name = check_robot(options.name)
        check_credentials(options.secure, name)
        log.info("%s asks its cloud at %s about hard pictures", name, options.cloud)
        _run(options, name, Consent(options.folder), ending.asked)
    except (FleetNameProblem, NameProblem, SessionProblem, ConsentProblem) as problem:
        print(f"brain fleet second: {safe_text.line(problem)}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace, name: str, consent: Consent, stop: Flag) -> None:
    """Asks, as soon as brain and cloud are reached; Zenoh itself links both again after a cut."""
    said = ""
    while not stop.is_set():
        try:
            until = Renewed(stop, options.secure, name)
            with (open_session(options.cloud, identity=name, patience=0.0, more=ZENOH,
                               elsewhere=Elsewhere(options.secure)) as cloud,
                  open_session(options.router, identity=EDGE, patience=0.0) as brain,
                  Node(brain, "edge_second", options.namespace) as node):
                Bridge(node, cloud, name, SECOND, consent, options.deadline).run(until)
        except NoRouter as problem:
            why = str(problem) if refused(problem) else "the cloud, or the brain's router, is not there"
            if why != said:
                log.info("%s; this robot tries again", why)
                said = why
            stop.wait(RETRY)


if __name__ == "__main__":
    leave(main())

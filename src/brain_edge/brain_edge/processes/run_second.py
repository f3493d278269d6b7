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
from brain_edge.processes.identity import begun, check_credentials, cloud_at, while_linked
from brain_runtime.run.ending import leave
from brain_security.fleet_keys import FleetNameProblem
from brain_wire import NameProblem, Node, Session, SessionProblem, open_session, safe_text
from brain_wire.credentials import EDGE
from brain_wire.wakeup import Flag

DEADLINE = 0.5      # s for an answer, where nothing else is said

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
    ending = begun("second")
    if options.secure is None and (options.folder / FILE).is_file():
        options.secure = options.folder / FILE      # what its edge has enrolled with
    options.cloud = cloud_at(options.cloud, options.secure is not None)
    name = options.name
    try:
        check_credentials(options.secure, name)
        consent = Consent(options.folder)

        def ask(cloud: Session, until: Flag) -> None:
            with open_session(options.router, identity=EDGE, patience=0.0) as brain, \
                    Node(brain, "edge_second", options.namespace) as node:
                Bridge(node, cloud, name, SECOND, consent, options.deadline).run(until)

        log.info("%s asks its cloud at %s about hard pictures", name, options.cloud)
        while_linked(ask, options.cloud, name, options.secure, ending.asked,
                     "the cloud, or the brain's router, is not there", log)
    except (FleetNameProblem, NameProblem, SessionProblem, ConsentProblem) as problem:
        print(f"brain fleet second: {safe_text.line(problem)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    leave(main())

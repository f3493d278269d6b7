# SPDX-License-Identifier: Apache-2.0
"""Process that aggregates for a job without a cloud: ``python -m brain_cloud.processes.run_aggregator``.

It routes for the job's own workers, follows its plan, and leaves the weights where the job wants them. Status 0: all
rounds are done; 1: it cannot run, and says why, or was ended before.
"""
from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Sequence

from brain_cloud.federated.aggregator import Aggregator
from brain_cloud.federated.plan import Plan, plan
from brain_cloud.federated.report import Report
from brain_cloud.federated.rounds import Rounds
from brain_edge.processes.settings import ZENOH
from brain_edge.schema import FormProblem
from brain_edge.store import StoreProblem
from brain_runtime.run.ending import Ending, leave
from brain_security.fleet_keys import CLOUD
from brain_wire import Session, safe_text
from brain_wire.router import Router, RouterProblem

LOOK = 0.2          # s between two looks at the rounds

log = logging.getLogger("brain.learning")


def main(argv: Sequence[str] | None = None) -> int:
    """Aggregates until all rounds are done, or SIGINT or SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(prog="aggregator", description=__doc__.split("\n")[0])
    parser.add_argument("--plan", required=True, help="as JSON")
    parser.add_argument("--start", type=Path, required=True, help="first weights")
    parser.add_argument("--model", type=Path, required=True, help="where the last ones are to be")
    parser.add_argument("--folder", type=Path, required=True, help="for what is known of the rounds until then")
    parser.add_argument("--listen", required=True, metavar="ENDPOINT")
    parser.add_argument("--message", type=Path, default=Path("/dev/termination-log"))
    told = parser.parse_args(argv)
    ending = Ending()
    safe_text.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s aggregator: %(message)s")
    try:
        wanted = Plan(**{**asdict(plan(json.loads(told.plan))), "start": str(told.start)})
        rounds = Rounds(told.folder, wanted)
        report = Report(rounds, told.message, told.model)
        with Router([told.listen], more=ZENOH) as router, Session(router.session, CLOUD) as session:
            Aggregator(session, rounds)
            log.info("%s: %d rounds, asked for at %s", wanted.name, wanted.rounds, told.listen)
            while not report.look():
                if ending.asked.wait(LOOK):
                    return 1
    except (FormProblem, ValueError, OSError, StoreProblem, RouterProblem) as problem:
        print(f"aggregator: {safe_text.line(problem)}", file=sys.stderr)
        return 1
    shutil.rmtree(told.folder, ignore_errors=True)      # another job of this name begins anew
    return 0


if __name__ == "__main__":
    leave(main())

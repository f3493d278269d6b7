# SPDX-License-Identifier: Apache-2.0
"""The cloud's process: ``python -m brain_cloud.processes.run_cloud``; ``brain cloud`` becomes it.

Status 0: ended in good order; 1: it cannot run, and says why; 3: another router has the endpoint.
"""
from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from pathlib import Path
from typing import Sequence

from brain_cloud import audit
from brain_cloud.enrolment.authority import DAYS
from brain_cloud.enrolment.server import DoorProblem
from brain_cloud.enrolment.service import Belonging, authority_of, opened
from brain_cloud.jobs.runner import Runner
from brain_cloud.monitoring.cloud_figures import CloudFigures
from brain_cloud.processes.cloud import Cloud
from brain_cloud.processes.fleet_workers import FleetWorkers
from brain_cloud.processes.orders import Orders
from brain_cloud.router_reload import routing
from brain_edge.messages.outbox import Limits
from brain_edge.processes.settings import PORT, software
from brain_edge.store import Store, StoreProblem
from brain_runtime.metrics.address import MetricsProblem, shown_address
from brain_runtime.metrics.opening import open_server
from brain_runtime.run.ending import Ending, leave
from brain_security.fleet_keys import CLOUD
from brain_security.folder import FolderError
from brain_security.signing import SigningProblem
from brain_security.signing import authority_of as signing_authority
from brain_wire import SessionProblem, safe_text
from brain_wire.logs import survive_full_disk
from brain_wire.endpoints import loopback_endpoints
from brain_wire.router import RouterProblem, RouterRuns

log = logging.getLogger("brain.cloud")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a cloud until SIGINT or SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(prog="brain cloud", description=__doc__.split("\n")[0])
    parser.add_argument("--listen", action="append", metavar="ENDPOINT")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--secure", type=Path)
    parser.add_argument("--door", metavar="HOST:PORT")
    parser.add_argument("--robot-days", type=float, default=DAYS)
    parser.add_argument("--pictures", type=float, default=0.0, help="MB of each robot")
    parser.add_argument("--metrics")
    parser.add_argument("--learn", type=Path)
    parser.add_argument("--second", type=Path)
    parser.add_argument("--jobs", type=int, metavar="SLOTS")
    parser.add_argument("--most-messages", type=int, default=Limits.messages)
    options = parser.parse_args(argv)
    ending = Ending()
    survive_full_disk()
    safe_text.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s cloud: %(message)s")
    rules = None if options.secure is None else options.secure / "router.json5"
    if rules is not None and not rules.is_file():
        return _cannot(f"{options.secure} is no folder of keys: `brain keys {options.secure} --node ROBOT` makes one")
    if options.pictures and rules is None:
        return _cannot("robots hand pictures in where the cloud knows them by certificates: --pictures needs --secure "
                       "FOLDER")
    plan = None
    if options.learn is not None:
        from brain_cloud.federated.plan import PlanProblem, read_plan   # numpy, for who learns only

        try:
            plan = read_plan(options.learn)
        except PlanProblem as problem:
            return _cannot(problem)
    endpoints = options.listen or loopback_endpoints(PORT, "tcp" if rules is None else "tls")
    try:
        authority = authority_of(options.secure, options.robot_days)
        with contextlib.ExitStack() as also, Store(options.folder, CLOUD) as store, \
                routing(endpoints, options.secure) as session:
            with store.change() as db:
                audit.set_proof(db, rules is not None)
            server = None if options.metrics is None else also.enter_context(open_server(options.metrics))
            cloud = Cloud(store, session, Limits(messages=options.most_messages), _authority(rules))
            if plan is not None:
                cloud.learn(plan)
            if options.second is not None:
                from brain_cloud.bridge.far_end import FarEnd
                from brain_cloud.bridge.tier import Tier, TierProblem, second
                from brain_edge.bridge.crossing import SECOND      # and what keeps regions, for who has any only

                try:
                    tier = Tier([second(options.second)], options.folder / "logs")
                except (TierProblem, OSError) as problem:
                    return _cannot(problem)
                also.callback(tier.close)
                FarEnd(session, tier, SECOND, lambda robot: cloud.barred(robot))
                log.info("robots are answered about hard pictures by %s", options.second)
            belonging = Belonging(cloud, authority)
            runner = None if options.jobs is None else also.enter_context(
                Runner(options.folder / "jobs", options.jobs, FleetWorkers(cloud)))
            if runner is not None and rules is None:
                log.warning("whoever reaches %s can run any command here, since nothing is secured; see --secure",
                            ", ".join(endpoints))
            orders = Orders(cloud, belonging, runner)
            if server is not None:
                server.start(CloudFigures(cloud, orders.counts))
                log.info("its figures are at http://%s/metrics", shown_address(server.address))
            with opened(belonging, endpoints, options.door, options.folder / "pictures", 1e6 * options.pictures):
                log.info("brain_cloud %s: the cloud is reached at %s, and keeps what it knows in %s", software(),
                         ", ".join(endpoints), store.path)
                ending.asked.wait()
            if runner is not None:      # before what its workers need
                runner.stop()
            cloud.stop()
    except (StoreProblem, MetricsProblem, RouterProblem, SessionProblem, FolderError, DoorProblem,
            SigningProblem) as problem:
        return _cannot(problem, 3 if isinstance(problem, RouterRuns) else 1)
    return 0


def _authority(rules: Path | None) -> bytes | None:
    """Certificate of the fleet's authority, which models are to be signed under; None where it has no keys."""
    return None if rules is None else signing_authority(rules)


def _cannot(why: object, status: int = 1) -> int:
    print(f"brain cloud: {safe_text.line(why)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    leave(main())

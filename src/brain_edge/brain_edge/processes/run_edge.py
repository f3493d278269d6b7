# SPDX-License-Identifier: Apache-2.0
"""The edge's process: ``python -m brain_edge.processes.run_edge``; ``brain edge`` becomes it.

Status 0: ended in good order; 1: it cannot run, and says why.
"""
from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported, which would make room for more

import argparse  # noqa: E402
import contextlib  # noqa: E402
import logging  # noqa: E402
import re  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Sequence  # noqa: E402

from brain_edge.enrolment.names import FILE  # noqa: E402
from brain_edge.messages.outbox import Limits  # noqa: E402
from brain_edge.models.model_cache import QUOTA  # noqa: E402
from brain_edge.monitoring.edge_figures import EdgeFigures  # noqa: E402
from brain_edge.owners_file import OwnersFileProblem, read_files, read_programs  # noqa: E402
from brain_edge.processes.edge import Edge  # noqa: E402
from brain_edge.processes.identity import begun, check_credentials, cloud_at  # noqa: E402
from brain_edge.processes.settings import TOKEN_VARIABLE, software  # noqa: E402
from brain_edge.reading import Reading  # noqa: E402
from brain_edge.store import Store, StoreProblem  # noqa: E402
from brain_runtime.metrics.address import MetricsProblem, shown_address  # noqa: E402
from brain_runtime.metrics.opening import open_server  # noqa: E402
from brain_runtime.run.ending import Ending, leave  # noqa: E402
from brain_security.fleet_keys import FleetNameProblem  # noqa: E402
from brain_wire import SessionProblem, safe_text  # noqa: E402
from brain_wire.credentials import read_credentials  # noqa: E402

log = logging.getLogger("brain.edge")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs an edge until SIGINT or SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(prog="brain edge", description=__doc__.split("\n")[0])
    parser.add_argument("--name")
    parser.add_argument("--cloud")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--secure", type=Path)
    parser.add_argument("--door")
    parser.add_argument("--router")
    parser.add_argument("--namespace", default="")
    parser.add_argument("--rate", type=float, default=0.0, help="bytes a second")
    parser.add_argument("--metrics")
    parser.add_argument("--most-messages", type=int, default=Limits.messages)
    parser.add_argument("--programs", type=Path)
    parser.add_argument("--device-files", type=Path)
    parser.add_argument("--models-mb", type=float, default=QUOTA / 1e6)
    options = parser.parse_args(argv)
    ending = begun("edge")
    token = os.environ.pop(TOKEN_VARIABLE, "").strip()
    own = options.folder / FILE
    secured = bool(token) or options.secure is not None or own.is_file()
    cloud = cloud_at(options.cloud, secured)
    try:
        if token:
            options.secure = _enroll(token, options, cloud, ending)
        elif options.secure is None and own.is_file():
            options.secure = own        # it has enrolled before
        name = options.name or _name(options.folder, options.secure)
        check_credentials(options.secure, name)
        with contextlib.ExitStack() as also, Store(options.folder, name) as store:
            server = None if options.metrics is None else also.enter_context(open_server(options.metrics))
            log.info("brain_edge %s: robot %s, its cloud at %s, what it knows in %s", software(), name, cloud,
                     store.path)
            edge = Edge(store, cloud, credentials=options.secure, router=options.router, namespace=options.namespace,
                        rate=options.rate, limits=Limits(messages=options.most_messages),
                        quota=int(1e6 * options.models_mb), stop=ending.asked, door=options.door,
                        programs={} if options.programs is None else read_programs(options.programs),
                        device_files={} if options.device_files is None else read_files(options.device_files))
            if server is not None:
                server.start(EdgeFigures(edge))
                log.info("its figures are at http://%s/metrics", shown_address(server.address))
            edge.run()
    except (FleetNameProblem, MetricsProblem, OwnersFileProblem, StoreProblem, SessionProblem) as problem:
        print(f"brain edge: {safe_text.line(problem)}", file=sys.stderr)
        return 1
    return 0


def _enroll(text: str, options: argparse.Namespace, cloud: str, ending: Ending) -> Path:
    """The credentials that a token gives.

    Raises:
        SessionProblem: it gives none; says why.
    """
    from brain_edge.enrolment import tokens
    from brain_edge.enrolment.client import NoDoor, Refused, door_of
    from brain_edge.enrolment.credentials import enroll

    try:
        token = tokens.parse(text)
        if options.name not in (None, token.robot):
            raise Refused(f"the token is for {token.robot}, not for {options.name}")
        return enroll(options.folder, token, door_of(cloud, options.door), ending.asked.wait)
    except (tokens.TokenProblem, Refused, NoDoor) as problem:
        raise SessionProblem(str(problem)) from None
    except OSError as error:
        raise SessionProblem(f"cannot write {error.filename or options.folder}: {error.strerror or error}") from None


def _name(folder: Path, secured: Path | None) -> str:
    """The name in the credentials, or the one that the folder was made with, or one from the machine's.

    Raises:
        StoreProblem, SessionProblem: these cannot be read.
    """
    if secured is not None and secured.is_file():
        found = read_credentials(secured, "--secure")
        if found is not None:
            return found.name.lstrip("/")
    try:
        with Reading(folder) as reading:
            return reading.member
    except FileNotFoundError:
        plain = re.sub(r"[^a-z0-9]+", "_", socket.gethostname().partition(".")[0].lower()).strip("_")
        return plain if plain[:1].isalpha() else f"robot_{plain}".rstrip("_")


if __name__ == "__main__":
    leave(main())

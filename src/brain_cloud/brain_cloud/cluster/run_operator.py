# SPDX-License-Identifier: Apache-2.0
"""The operator's process: ``python -m brain_cloud.cluster.run_operator``; ``brain operator`` becomes it.

Status 0: ended in good order; 1: it cannot run, and says why.
"""
from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Sequence

try:
    import kopf

    from brain_cloud.cluster.api import Api, ApiProblem
except ImportError as error:
    print(f"brain operator: {error.name} is not installed: pip install 'kopf>=1.45.2,<2' "
          f"'kubernetes>=37,<38' 'urllib3>=2.8,<3'", file=sys.stderr)
    sys.exit(1)

from brain_cloud.cluster.handlers import Parts, registry_of
from brain_cloud.cluster.kinds import (
    CLUSTER_RUNTIME, DATASET, FLEET_NODE, FLEET_ORDER, JOBS, MODEL, RUNTIME, SEDNA, TRAINER, Kind)
from brain_cloud.cluster.mirror import Fleet, Mirror
from brain_cloud.cluster.others import Others
from brain_cloud.cluster.plans import Settings
from brain_cloud.cluster.reconcile import Reconciler
from brain_cloud.cluster.rights import missing, rights
from brain_runtime.run.ending import leave
from brain_wire import safe_text

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
KINDS = (*JOBS, RUNTIME, CLUSTER_RUNTIME, DATASET, MODEL, FLEET_NODE, FLEET_ORDER)
REMEDY = {TRAINER: "install Kubeflow Trainer's CRDs", SEDNA: "install Sedna's CRDs"}
DEPLOY = "kubectl apply -k deploy/operator"

LINES = 1000        # of kopf, that are known again
MOMENT = 1.0        # s for what is under way when a watch has failed

log = logging.getLogger("brain.operator")
_said: set[str] = set()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs an operator until SIGINT or SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(prog="brain operator", description=__doc__.split("\n")[0])
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--context")
    parser.add_argument("--namespace", action="append", default=[])
    parser.add_argument("--fleet-namespace", default=None)
    parser.add_argument("--cloud", default=os.environ.get("BRAIN_CLOUD") or None)
    parser.add_argument("--secure", type=Path, default=os.environ.get("BRAIN_FLEET_SECURITY") or None)
    parser.add_argument("--no-fleet", action="store_true")
    parser.add_argument("--image", default=Settings.image)
    parser.add_argument("--ignore-other", action="append", default=[], choices=[TRAINER, SEDNA])
    parser.add_argument("--liveness", default=None)
    options = parser.parse_args(argv)
    safe_text.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s operator: %(message)s")
    # kopf tells of each step of each handler, in tracebacks where one is to be tried again.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_without_traceback)
    place = options.fleet_namespace or _own_namespace()
    try:
        api = Api(options.kubeconfig, options.context)
        kinds = served(api, not options.no_fleet)
        lacking = missing(api, rights(kinds), options.namespace, place)
    except ApiProblem as problem:
        return _cannot(problem)
    if not kinds:
        return _cannot(f"the cluster has none of the kinds that it does; {DEPLOY}, and {REMEDY[TRAINER]} or Sedna's")
    if lacking:
        more = f", and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        return _cannot(f"it may not {'; '.join(lacking[:3])}{more}; {DEPLOY} grants what is needed")
    mirror = fleet = None
    if FLEET_NODE in kinds:
        fleet = Fleet(options.cloud, options.secure)
        mirror = Mirror(api, fleet, place)
    parts = Parts(api, Reconciler(api, Settings(options.image)), Others(api, tuple(options.ignore_other)), mirror,
                  tuple(options.namespace))
    log.info("the operator does %s, in %s", ", ".join(kind.kind for kind in kinds if kind in (*JOBS, FLEET_ORDER)),
             ", ".join(options.namespace) or "all namespaces")
    watched = list(dict.fromkeys(options.namespace and [*options.namespace, *([place] if mirror else ())]))
    try:
        asyncio.run(_run(parts, kinds, watched, options.liveness))
    except Exception as error:      # whatever ends kopf
        return _cannot(f"it ends, and may be started again: {error}")
    finally:
        if fleet is not None:
            fleet.close()
    return 0


def served(api: Api, fleet: bool) -> list[Kind]:
    """The kinds that the cluster serves and the operator does; says once which are not there.

    Raises:
        ApiProblem: the API cannot be asked, or our own kinds are not there.
    """
    found = []
    kinds = [kind for kind in KINDS if fleet or kind not in (FLEET_NODE, FLEET_ORDER)]
    groups = dict.fromkeys((kind.group, kind.version) for kind in kinds)
    for group, version in groups:
        there = api.served(group, version)
        wanted = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
        lacking = [kind for kind in wanted if kind.plural not in there]
        if lacking and group not in REMEDY:
            raise ApiProblem(f"the definition of {lacking[0].plural}.{group} is not installed: {DEPLOY}, or --no-fleet")
        if lacking:
            log.warning("%s is not done: %s not installed; %s and start the operator again", group, ", ".join(
                kind.plural for kind in lacking), REMEDY[group])
        found += wanted if not lacking else []      # those of one group need each other
    return found


async def _run(parts: Parts, kinds: list[Kind], namespaces: list[str], liveness: str | None) -> None:
    """Runs until kopf hears SIGINT or SIGTERM, or until something is watched no more."""
    logging.getLogger("kopf").addHandler(Failures(asyncio.get_running_loop()))
    await kopf.operator(registry=registry_of(parts, kinds), standalone=True, clusterwide=not namespaces,
                        namespaces=namespaces, liveness_endpoint=liveness)


class Failures(logging.Handler):
    """Ends the process when a task of kopf's own has failed, as a watch whose token was taken back.

    kopf tells of it in its log alone, then goes on without that watch, or waits for itself without an end. What a
    kill leaves behind, the next operator finds.

    Args:
        loop: in which kopf runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.ERROR)
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        """Takes kopf's word of a failure."""
        if record.funcName == "guard":
            self._loop.call_later(MOMENT, lambda: leave(_cannot(
                f"it ends, and may be started again: {record.getMessage()}")))


def _without_traceback(record: logging.LogRecord) -> bool:
    """Lets each line of kopf through once, in one line: it says the same at each try, with a traceback."""
    if not record.name.startswith("kopf"):
        return True
    said = record.getMessage()
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and str(error) not in said:
        said += f" ({type(error).__name__}: {error})"
    record.msg, record.args, record.exc_info, record.exc_text = said, (), None, None
    if said in _said:
        return False
    if len(_said) >= LINES:
        _said.clear()
    _said.add(said)
    return True


def _own_namespace() -> str:
    try:
        return NAMESPACE_FILE.read_text().strip() or "default"
    except OSError:     # not in a pod
        return "default"


def _cannot(why: object) -> int:
    print(f"brain operator: {safe_text.line(why)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    leave(main())

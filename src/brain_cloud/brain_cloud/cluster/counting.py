# SPDX-License-Identifier: Apache-2.0
"""Sample counter of a node's Dataset, for jobs that learn when there are more: a Job that ends when the number changes.

The operator makes the Job on the Dataset's node (:func:`job`), with the number that it knows. Its container,
``python3 -m brain_cloud.cluster.counting PATH FORMAT --known N``, looks at the list of samples until it has another
number, leaves that in its termination message as ``{"num_of_samples": 12}``, and ends. So nothing on the node needs
the cluster's API.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from brain_cloud.jobs.samples import FORMATS, SAMPLES, count, said
from brain_wire import safe_text

if TYPE_CHECKING:
    from brain_cloud.cluster.kinds import Kind
    from brain_cloud.cluster.plans import Below, Child, Settings

KNOWN = "fleet.brain/known"     # annotation of the Job: the number that it was told
STEP = "count"
PERIOD = 5.0                    # s between looks, where the Job says nothing of it
MESSAGE = Path("/dev/termination-log")


def watch(path: Path, form: str, known: int, sleep: Callable[[float], None] = time.sleep,
          tell: Callable[[str], None] = lambda text: None, period: float = PERIOD) -> int:
    """Looks at a list until it has another number of samples than ``known``; that number.

    Args:
        known: -1: none yet; then the list need only be there.
        tell: is told why the list cannot be read, once.
        period: s between looks.
    """
    before, told = None, ""
    while True:
        try:
            about = path.stat()
            now = about.st_mtime_ns, about.st_size, about.st_ino
            if now != before:
                found = count(path, form)
                if found != known:
                    return found
                before = now
            told = ""
        except OSError as error:
            why = f"{path} cannot be read: {error.strerror or error}; waiting for it"
            if why != told:
                told = why
                tell(why)
        sleep(period)


def job(kind: Kind, owner: Mapping[str, Any], dataset: Mapping[str, Any], known: int | None, settings: Settings
        ) -> Child:
    """The Job that counts for a resource whose data set can be counted.

    Args:
        kind, owner: the resource.
        known: the number that the operator knows; None: none.

    Raises:
        Unfit: the Dataset's url cannot be mounted.
    """
    from brain_cloud.cluster.pods import path_in_pod, worker_template
    from brain_cloud.cluster.sedna import job_of
    from brain_cloud.jobs.learning import PERIOD as LEARNING_PERIOD
    from brain_cloud.jobs.worker_data import Data

    spec = dataset["spec"]
    source, form = Data("dataset", "DATASET_URL", spec["url"]), spec["format"].lower()
    told, period = str(-1 if known is None else known), owner["spec"]["trainSpec"]["trigger"].get(
        "checkPeriodSeconds", LEARNING_PERIOD)
    container = {"name": STEP, "image": settings.image, "command": [
        "python3", "-m", "brain_cloud.cluster.counting", path_in_pod(source), form, "--known", told, "--period",
        str(period)]}
    name = name_of(owner)
    template = worker_template(kind, owner, STEP, name, {"spec": {"containers": [container]}}, [source], {}, "edge",
                               spec["nodeName"], settings.image, "OnFailure")
    found = job_of(kind, owner, STEP, name, template)
    for mount in found.body["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]:
        mount["readOnly"] = True
    found.body["metadata"]["annotations"][KNOWN] = told
    return found


def name_of(owner: Mapping[str, Any]) -> str:
    """Of a resource's Job that counts."""
    return f"{owner['metadata']['name']}-{STEP}"


def counter_of(below: Below) -> tuple[str, ...]:
    """The name of the Job that counts, where there is one that is not being deleted."""
    name = name_of(below.resource)
    there = below.jobs.get(name)
    return () if there is None or there["metadata"].get("deletionTimestamp") else (name,)


def counted(below: Below, known: int | None) -> tuple[int | None, tuple[str, ...]]:
    """Returns the number that the counting Job has found, and the finished Jobs to delete so that it begins anew.

    Args:
        known: the number that the operator knows.

    Returns:
        The new number; None: there is none. Names of Jobs.
    """
    from brain_cloud.cluster.plans import NO_SETTINGS, job_state

    name = name_of(below.resource)
    if not counter_of(below) or job_state(there := below.jobs[name]) not in ("Complete", "Failed"):
        return None, ()
    told = (there["metadata"].get("annotations") or NO_SETTINGS).get(KNOWN)
    found = None
    if told == str(-1 if known is None else known) and job_state(there) == "Complete":
        found = number(below.said.get(name, ""))
    return found, (name,)


def number(message: str) -> int | None:
    """The number of samples in a termination message; None: there is none."""
    told = said(message)
    found = told.get(SAMPLES) if isinstance(told, dict) else None
    return found if type(found) is int and 0 <= found < 2**53 else None


def main(argv: Sequence[str] | None = None) -> int:
    """Counts until there is something to tell; returns the exit status."""
    parser = argparse.ArgumentParser(prog="sample counter", description=__doc__.split("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("--known", type=int, default=-1)
    parser.add_argument("--period", type=float, default=PERIOD, help="s between looks")
    parser.add_argument("--message", type=Path, default=MESSAGE, help="where the number is left")
    given = parser.parse_args(argv)
    found = watch(given.path, given.format, given.known, period=given.period, tell=lambda why: print(
        f"sample counter: {safe_text.line(why)}", file=sys.stderr, flush=True))
    try:
        given.message.write_text(json.dumps({SAMPLES: found}), encoding="utf-8")
    except OSError as error:
        print(f"sample counter: {given.message} cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1
    print(f"sample counter: {safe_text.line(str(given.path))} has {found} samples", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""``brain jobs``: runs a file of job manifests on this machine, without a cloud."""
from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Callable

import typer

from brain_edge.processes.options import FOLDER
from brain_runtime.command.options import Json, fail, tell, tell_json

LOOK = 0.2          # s between two looks at jobs

app = typer.Typer(help="Run jobs (Kubeflow's TrainJob, Sedna's) on this machine, from the manifests of a cluster.",
                  no_args_is_help=True)
File = Annotated[Path, typer.Argument(help="Manifests in YAML, several with --- between them.", metavar="FILE")]


def read_file(file: Path, read: Callable[[Any], Any]) -> Any:
    """Reads the documents of a file; ends the command where one cannot be meant so.

    Args:
        read: reads a document.
    """
    from brain_edge.state.manifests import ManifestProblem, read_manifests

    try:
        return read_manifests(file, read)
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror or error}")
    except ManifestProblem as problem:
        fail(str(problem))


@app.command()
def run(file: File,
        folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Where jobs run, and what is known of "
                                             "them is kept.")] = FOLDER / "jobs",
        slots: Annotated[int | None, typer.Option("--slots", min=1, help="Workers that may run at once. Default: one "
                                                  "for each processor.")] = None,
        as_json: Json = False) -> None:
    """Runs the jobs of a file until all have ended, or until Ctrl-C; run it again to go on. Status 1: one failed.

    A job that had ended before starts anew; one that was cut off goes on.
    """
    from brain_cloud.jobs.manifests import manifest
    from brain_cloud.jobs.runner import Runner
    from brain_cloud.jobs.tables import tell_applied
    from brain_edge.schema import FormProblem
    from brain_edge.store import StoreProblem
    from brain_runtime.run.ending import Ending
    from brain_wire import safe_text

    wanted = read_file(file, manifest)
    if not any(one.job for one in wanted):
        fail(f"{file} holds no job")
    ending = Ending()
    safe_text.log_to(sys.stderr, logging.INFO, "%(asctime)s %(message)s")
    keys = [(one.kind, one.name) for one in wanted if one.job]
    try:
        with Runner(folder.expanduser(), slots) as runner:
            _forget_ended(runner, keys)
            applied = runner.apply(wanted)
            if not as_json:
                tell_applied({"jobs": applied}, tell)
            while not ending.asked.wait(LOOK):
                found = [one for one in runner.jobs() if (one["kind"], one["name"]) in keys]
                if all(one["phase"] in ("Complete", "Failed") for one in found):
                    break
            found = [one for one in runner.jobs() if (one["kind"], one["name"]) in keys]
            logs = {one["name"]: runner.logs(one["name"], kind=one["kind"])["logs"] for one in found
                    if one["phase"] == "Failed"}
    except (FormProblem, StoreProblem) as problem:
        fail(str(problem))
    if as_json:
        tell_json({"jobs": found})
    for one in found if not as_json else ():
        tell(f"{one['kind']} {one['name']}: {one['phase']}" + (f": {one['why']}" if one["why"] else "") + (
            f"; what it made is in {one['folder']}"))
        for worker, text in logs.get(one["name"], {}).items():
            for line in text.splitlines()[-5:]:
                tell(f"{worker}: {line}", "yellow", err=True)
    if ending.asked.is_set() and not all(one["phase"] in ("Complete", "Failed") for one in found):
        raise typer.Exit(130)
    raise typer.Exit(int(any(one["phase"] == "Failed" for one in found)))


def _forget_ended(runner: Any, keys: list[tuple[str, str]]) -> None:
    ended = [(one["kind"], one["name"]) for one in runner.jobs() if (one["kind"], one["name"]) in keys
             and one["phase"] in ("Complete", "Failed")]
    runner.delete(ended)
    while any((one["kind"], one["name"]) in ended for one in runner.jobs()):
        time.sleep(LOOK / 4)


@app.command()
def check(file: File, as_json: Json = False) -> None:
    """Checks a file of manifests against the published schemas, and says what of it has no effect on this machine."""
    from tempfile import TemporaryDirectory

    from brain_cloud.jobs.local_plan import examine
    from brain_cloud.jobs.manifests import manifest
    from brain_edge.schema import FormProblem

    wanted = read_file(file, manifest)
    objects = {(one.kind, one.name): one for one in wanted}
    found = []
    with TemporaryDirectory() as folder:
        for one in wanted:
            try:
                plan = examine(one, objects, Path(folder)) if one.job else None
            except FormProblem as problem:
                fail(f"{file}: {one.kind} {one.name}: {problem}")
            workers = [] if plan is None else [worker.name for group in plan.groups for worker in group.workers]
            found.append({"kind": one.kind, "name": one.name, "workers": workers,
                          "notes": [] if plan is None else list(plan.notes)})
    if as_json:
        tell_json({"manifests": found})
    for told in found if not as_json else ():
        tell(f"{told['kind']} {told['name']}: good" + (f"; {', '.join(told['workers'])}" if told["workers"] else ""))
        for note in told["notes"]:
            tell(f"{told['kind']} {told['name']}: {note}", "yellow", err=True)


@app.command()
def digest(path: Annotated[Path, typer.Argument(help="A file or folder of data, or of a model.")]) -> None:
    """Prints the SHA-256 by which a loader checks data before any worker starts."""
    from brain_cloud.blobs.inputs import InputProblem
    from brain_cloud.blobs.inputs import digest as of

    try:
        tell(of(path))
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror or error}")
    except InputProblem as problem:
        fail(str(problem))

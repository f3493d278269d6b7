# SPDX-License-Identifier: Apache-2.0
"""Rounds of Sedna's learning jobs on this machine: what :mod:`.learning` asks, of processes and files that are here."""
from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Mapping

from brain_cloud.blobs.inputs import local_path
from brain_cloud.jobs.job import MESSAGE, RUNNING, SUCCEEDED, SUSPENDED, Job
from brain_cloud.jobs.learning import (
    COMPLETED, DEPLOY, EVAL, FAILED, INFER, LIFELONG, PERIOD, READY, TRAIN, WAITING, WORKERS, Seen, Where, is_hot,
    running, steps, where, written)
from brain_cloud.jobs.rounds import only
from brain_cloud.jobs.samples import count, left_behind, read_samples, told_metrics, told_path
from brain_cloud.jobs.status import stamp
from brain_edge.schema import FormProblem


def position(state: Mapping[str, Any], spec: Mapping[str, Any]) -> Where:
    """Reads the position of a job from its state; that of the version before is read too.

    Args:
        state: of the job.
        spec: of it.
    """
    if "at" in state or "stage_state" not in state:
        return where([state["at"]]) if "at" in state else Where()
    old, out = state["stage_state"], local_path(spec["outputDir"])
    found = Where(TRAIN if old["name"] == TRAIN else EVAL, "Running" if old["running"] else WAITING, old["round"],
                  old["seen"], min(old["deployed"], old["round"] - 1), since=old["seen"])
    if out is None or not old["running"]:
        return found
    here = out / "data" / str(found.round)
    new = sum(count(path, path.suffix[1:]) for path in here.glob("[et]*")) if here.is_dir() else 0
    made = "" if found.stage == TRAIN else _made(out, found, old["reports"].get(TRAIN))
    return replace(found, since=max(found.samples - new, 0), model=made)


def _made(out: Path, now: Where, told: Any) -> str:
    """Finds a trained model, below the output folder: as its worker told, or the one file in its folder."""
    inside = told_path(told, str(out / now.home))
    # os.path.exists raises nothing, however long the name is
    path = out / now.home / inside if inside and os.path.exists(out / now.home / inside) else only(out / now.home)
    return path.relative_to(out).as_posix() if path != out / now.home else ""


class Stages:
    """Drives one job through its rounds.

    Args:
        job: of it.
        replan: makes its plan anew, from its state.
    """

    def __init__(self, job: Job, replan: Any) -> None:
        self._job, self._replan = job, replan
        if old := job.state.get("stage_state"):
            self._stand(position(job.state, self._spec))
            job.state["said"] = old["reports"]
            del job.state["stage_state"]

    @property
    def _spec(self) -> Mapping[str, Any]:
        return self._job.record.manifest.spec

    def _stand(self, now: Where) -> None:
        """Writes down where it is."""
        self._job.state.update(at=now.condition, stage=now.stage)

    def report(self, kind: str, results: list[Any]) -> None:
        """A worker says what came of it: a list of models, each with ``url`` and ``metrics``."""
        now = position(self._job.state, self._spec)
        if kind in ("train", "eval") and kind == WORKERS[now.stage]:
            self._said[now.stage] = results[:16]

    @property
    def _said(self) -> dict[str, Any]:
        return dict.setdefault(self._job.state, "said", {})

    def advance(self, now: float) -> None:
        """Looks at how far it is, and does what is next.

        Args:
            now: elapsed time (s).
        """
        job = self._job
        if job.deleted or job.phase == SUSPENDED or job.record.manifest.suspended:
            return
        before = position(job.state, self._spec)
        self._look = now
        try:
            for new in steps(before, self._spec, self._see):
                self._go(before, new)
                before = new
        except FormProblem as problem:
            self._once(str(problem))

    def _go(self, before: Where, new: Where) -> None:
        job, moved = self._job, (before.stage, before.step) != (new.stage, new.step)
        job.record.status["conditions"] = written(job.record.status.get("conditions", ()), before, new,
                                                  stamp(time.time()))
        self._stand(new)
        if new.step == FAILED:
            job.state.pop("ending", None)
        if new.round != before.round:
            self._said.clear()
        if running(before) != running(new) or new.deployed != before.deployed:
            for group in WORKERS.values():
                job.state["groups"].pop(group, None)
            self._replan()
        if new.deployed != before.deployed and not is_hot(self._spec):
            job.restart_worker(INFER)
        if moved and (new.step in (READY, FAILED) or (new.stage, new.step) == (DEPLOY, COMPLETED)):
            job.tell(f"{new.stage.lower()} of round {new.round}" + (" failed" if new.step == FAILED else "")
                     + f": {new.why}")

    def _see(self, now: Where) -> Seen:
        """See :class:`brain_cloud.jobs.learning.Seen`."""
        at, job = datetime.now(), self._job
        if (now.stage, now.step) == (TRAIN, WAITING):
            return Seen(at, self._samples())
        if (now.stage, now.step) == (DEPLOY, WAITING):
            return Seen(at, metrics=told_metrics(self._told(EVAL, now.round)))
        ending = job.state.get("ending")
        if ending is not None and ending["reason"] == "BackoffLimitExceeded":
            return Seen(at, worker="Failed", why=ending["message"])
        if now.stage == DEPLOY and job.record.manifest.kind == LIFELONG:
            return Seen(at, worker="Complete", deployed=True)
        name = f"{WORKERS[now.stage]}-{now.round}"
        state = job.worker_state(name)
        made = ""
        if state == SUCCEEDED and now.stage == TRAIN:
            made = _made(self._out, now, self._told(TRAIN, now.round))
        return Seen(at, worker={RUNNING: "Running", SUCCEEDED: "Complete"}.get(state, "Starting"), made=made,
                    why=f"{name} has succeeded" if state == SUCCEEDED else name, deployed=True)

    @property
    def _out(self) -> Path:
        found = local_path(self._spec["outputDir"])
        assert found is not None    # else it would have been refused
        return found

    def _told(self, stage: str, number: int) -> Any:
        """Returns a worker's report, or else its termination message; None: it left neither."""
        if stage in self._said:
            return self._said[stage]
        return left_behind(self._job.folder(f"{WORKERS[stage]}-{number}") / MESSAGE)

    def _samples(self) -> int | None:
        """Samples of the data set, where it is time to look at them and they can be read."""
        job, period = self._job, self._spec["trainSpec"]["trigger"].get("checkPeriodSeconds", PERIOD)
        checked = job.state.get("checked")
        if checked is not None and self._look - checked < period:
            return None
        job.state["checked"] = self._look
        dataset = next(one for one in job.record.uses if one.kind == "Dataset")
        path = local_path(dataset.spec["url"])
        assert path is not None     # else it would have been refused
        try:
            return len(read_samples(path, dataset.spec["format"])[1])
        except (FormProblem, OSError) as problem:
            self._once(f"waits for its samples: {problem}")
            return None

    def _once(self, text: str) -> None:
        """Tells what would be told again and again."""
        if self._job.state.get("told") != text:
            self._job.state["told"] = text
            self._job.tell(text)

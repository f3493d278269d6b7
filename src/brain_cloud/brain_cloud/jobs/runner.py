# SPDX-License-Identifier: Apache-2.0
"""The local runner: keeps jobs, lets them run as the queue allows, and goes on where a runner before was killed."""
from __future__ import annotations

import functools
import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from brain_cloud.jobs.job import FAILED, Job, sweep
from brain_cloud.jobs.job_queue import Priority, admitted, giving_way, priority
from brain_cloud.jobs.learning import KINDS
from brain_cloud.jobs.local_plan import plan as plan_of
from brain_cloud.jobs.manifests import Manifest
from brain_cloud.jobs.records import Record, Records
from brain_cloud.jobs.reports import Reports
from brain_cloud.jobs.seen import write_status
from brain_cloud.jobs.stages import Stages
from brain_cloud.jobs.workers import Fleet, Places, Plan
from brain_edge.schema import FormProblem
from brain_edge.store import StoreProblem
from brain_runtime.run.tree import tail
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

LOOK = 0.2          # s between two looks at workers
PATIENCE = 40.0     # s that workers get to end when the runner ends
# Of a spec that was applied, what may be changed: all else is another job.
_CHANGED = {"TrainJob": {"suspend", "trainer"}}

log = logging.getLogger("brain.jobs")
limited_log = RateLimitedLog(log)


class _Uses(Mapping[tuple[str, str], Manifest]):
    """Objects, with those that somebody asked for."""

    def __init__(self, objects: Mapping[tuple[str, str], Manifest]) -> None:
        self._objects = objects
        self.used: dict[tuple[str, str], Manifest] = {}

    def __getitem__(self, key: tuple[str, str]) -> Manifest:
        found = self._objects[key]
        self.used[key] = found
        return found

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)


class Runner:
    """Runs jobs until it is stopped.

    Args:
        folder: for all that it keeps; one runner has it.
        slots: workers that may run at once; None: one for each processor.
        fleet: beside whose cloud it runs; None: there is none.

    Raises:
        StoreProblem: the folder cannot be used.
    """

    def __init__(self, folder: Path, slots: int | None = None, fleet: Fleet | None = None) -> None:
        self.folder, self.slots = Path(folder).absolute(), slots or os.cpu_count() or 1
        self._fleet, self.records = fleet, Records(self.folder)
        self._lock, self._wake, self._ending = threading.RLock(), threading.Event(), threading.Event()
        self._jobs: dict[tuple[str, str], Job] = {}
        self._reports = Reports(self._hear)
        left = sweep(f"{self.records.store.incarnation}:")
        if left:
            log.info("ended %d processes that a runner before had left", left)
        for record in self.records.all():
            if record.manifest.job:
                self._take(record)
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends all workers, which the next runner starts again, and itself. May be called twice."""
        if not self._ending.is_set():
            self._ending.set()
            self._wake.set()
            self._thread.join()
            self._reports.close()
            with self._lock:
                for job in self._jobs.values():
                    job.release()
                for job in self._jobs.values():
                    job.let_go(PATIENCE)
                    self._keep(job)
                self.records.close()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- orders

    def apply(self, manifests: Sequence[Manifest], person: str = "") -> list[dict[str, Any]]:
        """Wants what manifests say: all of it or, where one cannot be, nothing.

        Raises:
            FormProblem: names the manifest and the field.
            StoreProblem: nothing can be written.
        """
        with self._lock:
            known, found, uses = self._all_examined(manifests)
            with self.records.store.change() as db:
                for one, its, told in zip(manifests, uses, found):
                    news = self.records.put(db, one, its)
                    told.update(change="nothing is new" if not news else "changed" if (one.kind, one.name) in known
                                else "made")
            for record in self.records.all():
                key = (record.manifest.kind, record.manifest.name)
                told_now = next((told for told in found if (told["kind"], told["name"]) == key), None)
                if told_now is None or not record.manifest.job or told_now["change"] == "nothing is new":
                    continue
                self._take(record)
                by = f" by {person}" if person else ""
                self._tell(record.manifest, f"{told_now['change']}{by}")
        self._wake.set()
        return found

    def check(self, manifests: Sequence[Manifest]) -> list[dict[str, Any]]:
        """Checks if manifests could be applied, as :meth:`apply` tells it; nothing is changed. Raises FormProblem."""
        with self._lock:
            return self._all_examined(manifests)[1]

    def _all_examined(self, manifests: Sequence[Manifest]) -> tuple[
            dict[tuple[str, str], Record], list[dict[str, Any]], list[list[Manifest]]]:
        """Returns what was known before, and for each manifest its notes and what it uses. Raises FormProblem."""
        known = {(one.manifest.kind, one.manifest.name): one for one in self.records.all()}
        objects = {key: one.manifest for key, one in known.items()}
        objects.update({(one.kind, one.name): one for one in manifests})
        found: list[dict[str, Any]] = []
        uses: list[list[Manifest]] = []
        for one in manifests:
            try:
                notes, its = self._examined(one, known.get((one.kind, one.name)), objects)
            except FormProblem as problem:
                raise FormProblem(f"{one.kind} {one.name}: {problem}") from None
            uses.append(its)
            found.append({"kind": one.kind, "name": one.name, "notes": notes})
        return known, found, uses

    def _examined(self, one: Manifest, had: Record | None, objects: Mapping[tuple[str, str], Manifest]
                  ) -> tuple[list[str], list[Manifest]]:
        """Notes of a manifest, and what it uses. Raises FormProblem."""
        if not one.job:
            return [], []
        if had is not None:
            its = self._jobs.get((one.kind, one.name))
            if its is not None and its.deleted:
                raise FormProblem("it is being deleted; apply it again in a moment")
            _check_change(had.manifest, one)
        asked = _Uses(objects if had is None else {**objects, **{(u.kind, u.name): u for u in had.uses}})
        plan = plan_of(one, asked, self._places(one, "new"), {})
        priority(one, asked)
        old = () if had is None else tuple(f"{u.kind} {u.name}" for u in had.uses if (u.kind, u.name) in objects
                                           and objects[u.kind, u.name].value != u.value)
        notes = [*plan.notes, *(f"it goes on with the {which} that it was applied with; delete it, and apply it again, "
                                f"to have the new one" for which in old)]
        return notes, list(asked.used.values())

    def delete(self, wanted: Sequence[tuple[str, str]], person: str = "") -> list[dict[str, Any]]:
        """Ends and forgets objects; what a job's workers have made stays in its folder.

        Raises:
            StoreProblem: nothing can be written.
        """
        found = []
        with self._lock:
            for kind, name in wanted:
                job = self._jobs.get((kind, name))
                if job is None:
                    with self.records.store.change() as db:
                        found.append({"kind": kind, "name": name, "known": self.records.delete(db, kind, name)})
                    continue
                job.deleted = job.state["deleted"] = True
                self._keep(job)
                self._tell(job.record.manifest, "is deleted" + (f" by {person}" if person else ""))
                found.append({"kind": kind, "name": name, "known": True, "folder": str(job.places.work)})
        self._wake.set()
        return found

    # --- looks

    def jobs(self, kind: str | None = None, name: str | None = None) -> list[dict[str, Any]]:
        """All jobs, as they are shown; only those of a kind or name where one is given."""
        with self._lock:
            return [self._shown(job) for key, job in self._jobs.items() if kind in (None, key[0])
                    and name in (None, key[1])]

    def _shown(self, job: Job) -> dict[str, Any]:
        record = job.record
        return {"kind": record.manifest.kind, "name": record.manifest.name, "phase": "Deleting" if job.deleted else
                job.phase, "stage": job.state.get("stage"), "priority": job.state.get("priority", 0),
                "why": job.state.get("message") or _gave_way(job), "created": record.created,
                "generation": record.generation, "folder": str(job.places.work), "status": record.status,
                "notes": list(job.plan.notes), "workers": [
                    {"name": worker.name, "state": job.worker_state(worker.name), "attempt": job.state["workers"].get(
                        worker.name, {}).get("attempt", 0), "pid": job.running[worker.name].pid
                        if worker.name in job.running else None}
                    for group in job.plan.groups for worker in group.workers]}

    def logs(self, name: str, worker: str | None = None, kind: str | None = None) -> dict[str, Any]:
        """Returns the events of a job, and the end of each worker's log.

        Raises:
            FormProblem: there is no such job or worker.
        """
        with self._lock:
            jobs = [job for key, job in self._jobs.items() if key[1] == name and kind in (None, key[0])]
        if not jobs:
            raise FormProblem(f"there is no job {quoted(name)}; see `brain fleet jobs`")
        job = jobs[0]
        if len(jobs) > 1:
            raise FormProblem(f"{' and '.join(one.record.manifest.kind for one in jobs)} are called {quoted(name)}; "
                              f"say which, as {job.record.manifest.kind}/{name}")
        here = job.places.folder / "workers"
        found = sorted(path.parent.name for path in here.glob("*/log"))
        if worker is not None and worker not in found:
            raise FormProblem(f"{name} has no log of a worker {quoted(worker)}; there are {', '.join(found) or 'none'}")
        longest = 64 * 1024 if worker is not None else max(2048, 256 * 1024 // max(1, len(found)))
        return {"events": self.records.events(job.record.manifest.kind, name), "logs": {
            one: tail(here / one / "log", longest) for one in found if worker in (None, one)}}

    # --- work

    def _places(self, manifest: Manifest, uid: str) -> Places:
        name = manifest.name.replace("/", ".")
        return Places(self.folder / "jobs" / f"{name}-{uid}", self.folder / "volumes", reports=self._reports.address,
                      fleet=self._fleet)

    def _hear(self, report: dict[str, Any]) -> None:
        """A worker of Sedna's reports."""
        with self._lock:
            for (kind, _), job in self._jobs.items():
                manifest = job.record.manifest
                whose = report["ownerKind"].lower(), report["ownerName"], report.get("namespace") or manifest.namespace
                if whose == (kind.lower(), manifest.value["metadata"]["name"], manifest.namespace):
                    self._tell(manifest, f"{report['name']} reports: {report['status']}")
                    if job.driver is not None and report["status"] == "completed":
                        job.driver.report(report["kind"], report.get("results") or [])
                    return

    def _take(self, record: Record) -> None:
        """Knows a job, or takes its changed manifest."""
        key = (record.manifest.kind, record.manifest.name)
        objects = {(one.kind, one.name): one for one in record.uses}
        job = self._jobs.get(key)
        places = self._places(record.manifest, record.uid) if job is None else job.places
        if job is None:
            places.ports = record.state.setdefault("ports", {})
        try:
            plan = plan_of(record.manifest, objects, places, record.state if job is None else job.state)
        except FormProblem as problem:      # an older version took it
            log.error("%s %s cannot be run any more: %s", *key, problem)
            plan = Plan(())
            record.state.update(phase=FAILED, reason="NotUnderstood", message=str(problem)[:1000])
        if job is None:
            job = Job(record, plan, places, f"{self.records.store.incarnation}:{record.uid}",
                      functools.partial(self._tell, record.manifest))
            job.deleted = bool(record.state.get("deleted"))
            if record.manifest.kind in KINDS and plan.groups:
                job.driver = Stages(job, functools.partial(_replan, job))
            self._jobs[key] = job
        else:
            job.record.manifest, job.record.generation, job.record.uses = (
                record.manifest, record.generation, record.uses)
            if not job.over:
                job.replan(plan)
        its = priority(record.manifest, objects) if plan.groups else Priority(0, False)
        job.state.update(priority=its.value, preempts=its.preempts)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.wait(LOOK)
            self._wake.clear()
            with self._lock:
                now = self.records.store.elapsed.now()
                for key, job in list(self._jobs.items()):
                    try:
                        self._look(key, job, now)
                    except Exception:   # whatever one job is, the others are run
                        limited_log(f"job {key}", f"{key[0]} {key[1]} failed to be looked at", trace=True,
                                    level=logging.ERROR)
                for job in admitted(list(self._jobs.values()), self.slots):
                    if not job.record.manifest.suspended:
                        job.admit(now)
                        self._wake.set()
                first, ends = giving_way(list(self._jobs.values()), self.slots)
                for job in ends:
                    assert first is not None
                    job.give_way(f"{first.record.manifest.kind} {first.record.manifest.name}")

    def _look(self, key: tuple[str, str], job: Job, now: float) -> None:
        before = job.phase
        if job.driver is not None:
            job.driver.advance(now)
        job.advance(now, job.record.manifest.suspended)
        write_status(job)
        self._keep(job)
        if job.deleted and not job.running:
            self._forget(key, job)
        elif (job.over and not job.running and job.plan.ttl is not None
                and now - job.state.get("ended", now) > job.plan.ttl):
            job.deleted = job.state["deleted"] = True
            self._tell(job.record.manifest, "is deleted, since its time after it ended is over")
        if job.phase != before:
            self._wake.set()

    def _forget(self, key: tuple[str, str], job: Job) -> None:
        try:
            with self.records.store.change() as db:
                self.records.delete(db, *key)
        except StoreProblem as problem:
            limited_log("forget", f"{key[0]} {key[1]} cannot be forgotten yet: {problem}")
            return
        self.records.forget(job.record.uid)
        del self._jobs[key]
        for part in ("workers", "nodes", "volumes"):
            shutil.rmtree(job.places.folder / part, ignore_errors=True)
        for folder in (job.places.work, job.places.folder):
            try:
                folder.rmdir()
            except OSError:
                break       # it holds what the workers made, or was never there

    def _keep(self, job: Job) -> None:
        try:
            self.records.keep(job.record)
        except StoreProblem as problem:
            limited_log("keep", f"how far jobs are is not written down: {problem}")

    def _tell(self, manifest: Manifest, text: str) -> None:
        log.info("%s %s: %s", manifest.kind, manifest.name, text)
        try:
            self.records.event(manifest, text)
        except StoreProblem as problem:
            limited_log("event", f"an event is not written down: {problem}")


def _gave_way(job: Job) -> str:
    whose = job.state.get("preempted")
    return f"it has given way to {whose}, and waits until there is room" if whose else ""


def _replan(job: Job) -> None:
    objects = {(one.kind, one.name): one for one in job.record.uses}
    job.replan(plan_of(job.record.manifest, objects, job.places, job.state))


def _check_change(had: Manifest, new: Manifest) -> None:
    """Raises FormProblem where a change asks for another job."""
    may = _CHANGED.get(new.kind, set())
    before, after = had.spec, new.spec
    for field in sorted(before.keys() | after.keys()):
        if before.get(field) != after.get(field) and field not in may:
            raise FormProblem(f"spec.{field} cannot be changed once a {new.kind} was applied; delete it, and apply it "
                              f"again")
    for field in sorted((before.get("trainer") or {}).keys() | (after.get("trainer") or {}).keys()):
        if field != "numNodes" and (before.get("trainer") or {}).get(field) != (after.get("trainer") or {}).get(field):
            raise FormProblem(f"spec.trainer.{field} cannot be changed once a {new.kind} was applied, but for "
                              f"numNodes; delete it, and apply it again")

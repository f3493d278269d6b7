# SPDX-License-Identifier: Apache-2.0
"""A job that is run: what each of its workers does next. It is looked at again and again, and never waits."""
from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path
from typing import Any, Callable

from brain_cloud.jobs.pod_commands import made
from brain_cloud.jobs.records import Record
from brain_cloud.jobs.training import rank_variables
from brain_cloud.jobs.workers import COMPLETE, Group, OnRobot, Places, Plan, Round, Running, Worker, free_port
from brain_runtime.run.tree import Command, Tree, base_env, kill_leftovers, left_status
from brain_wire.backoff import Backoff

QUEUED, RUNNING, SUSPENDED, DONE, FAILED = "Queued", "Running", "Suspended", "Complete", "Failed"
WAITING, SUCCEEDED, LEFT = "waiting", "succeeded", "left"
AGAIN = Backoff(first=1.0, most=60.0)   # until a worker that died is started again
KILLED = 128        # statuses above it: a signal ended the worker
MESSAGE = "termination-log"     # in a worker's folder, what it leaves behind for who asked for it
STORE = "store"     # by which elastic nodes find each other
# torchrun's last call for nodes is 30 s, it misses a node after 15 s, and each agent starts its own ranks again.
_ELASTIC = {"PET_RDZV_BACKEND": "c10d", "PET_MAX_RESTARTS": "100", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "PET_RDZV_CONF": "is_host=false,last_call_timeout=2,join_timeout=600,keep_alive_interval=1,"
                             "keep_alive_max_attempt=5"}


class Job:
    """One that is known.

    Args:
        record: of it; its state is gone on from.
        plan: of its workers.
        places: where its parts are.
        prefix: of the tokens of its processes.
        tell: called with what happened, for people.

    Attributes:
        deleted: it is to end, and to be forgotten.
        running: its workers that run, by their names.
        driver: of a job that goes through stages.
    """

    def __init__(self, record: Record, plan: Plan, places: Places, prefix: str, tell: Callable[[str], None]) -> None:
        self.record, self.plan, self.places, self.tell = record, plan, places, tell
        self.deleted = False
        self._prefix = prefix
        self.driver: Any = None
        self.running: dict[str, Running] = {}
        self.state = record.state
        self.state.setdefault("phase", QUEUED)
        for key in ("workers", "groups", "ports"):
            self.state.setdefault(key, {})
        places.ports = self.state["ports"]
        for name, worker in self.state["workers"].items():
            if worker["state"] == RUNNING:      # of a runner that was killed
                _, wanted = self._find(name)
                if wanted is not None and wanted.fleet is not None:     # which goes on, or is to be taken back
                    with contextlib.suppress(OSError):
                        self.running[name] = self._of_fleet(wanted.fleet, name)
                        continue
                status = left_status(self.folder(name))
                worker["state"] = SUCCEEDED if status == 0 else WAITING
        for group in plan.groups:
            if group.together and not self._complete(group):    # one cannot go on where the others are not
                for one in group.workers:
                    self.state["workers"].get(one.name, {})["state"] = WAITING

    # --- what others ask

    @property
    def phase(self) -> str:
        """One of the words above."""
        return str(self.state["phase"])

    @property
    def over(self) -> bool:
        """It has ended, one way or the other."""
        return self.phase in (DONE, FAILED)

    @property
    def going(self) -> bool:
        """It runs, and nobody has asked it to end."""
        return (self.phase == RUNNING and not self.deleted and "ending" not in self.state
                and not self.record.manifest.suspended)

    def folder(self, worker: str) -> Path:
        """Of a worker: its log, and what its loader signalled."""
        return self.places.folder / "workers" / worker

    def worker_state(self, name: str) -> str:
        """``waiting``, ``Running``, ``succeeded`` or ``left``."""
        return str(self.state["workers"].get(name, {}).get("state", WAITING))

    def has_failed(self, group: Group) -> bool:
        """Tells whether a group has failed more often than is survived."""
        return group.backoff is not None and self._group(group)["failures"] > group.backoff

    def replan(self, plan: Plan) -> None:
        """Takes another plan: workers that are in it no more end, new ones start; nodes that go together start anew."""
        had = {group.name: {worker.name for worker in group.workers} for group in self.plan.groups}
        self.plan = plan
        for group in plan.groups:
            names = {worker.name for worker in group.workers}
            if self.driver is None and names != had.get(group.name) and group.name in had:
                self.tell(f"{group.name} has {len(names)} workers now, not {len(had[group.name])}")
                if group.together:
                    self._again(group)
        known = {worker.name for group in plan.groups for worker in group.workers}
        for name in self.state["workers"].keys() - known:
            if name in self.running:
                self.running[name].stop()
            else:
                del self.state["workers"][name]

    def restart_worker(self, name: str) -> None:
        """Ends a worker, which is started again."""
        if name in self.running:
            self.running[name].stop()

    # --- what it does next

    def admit(self, now: float) -> None:
        """The queue lets it run."""
        self.state.update(phase=RUNNING, began=now)
        gave_way = self.state.pop("preempted", None) is not None
        self.tell("goes on" if gave_way else "starts")

    def give_way(self, whose: str) -> None:
        """Ends its workers for a more important job; it waits in the queue again, and goes on from its checkpoints."""
        self._stop_all()
        self._from_the_beginning()
        self.state.update(phase=QUEUED, preempted=whose)
        self.tell(f"gives way to {whose}, whose priority is higher")

    def advance(self, now: float, suspend: bool) -> None:
        """Looks at its workers, and does what is next.

        Args:
            now: elapsed time (s), which goes on through restarts of the runner.
            suspend: it is wanted so.
        """
        self._reap(now)
        ending = self.state.get("ending")
        # a job that goes through stages has another round then, which its driver begins at the next look
        another = self.driver is not None and ending is not None and ending["reason"] == "BackoffLimitExceeded"
        if self.deleted or self.over:
            self._stop_all()
        elif ending is not None and not another:
            self._stop_all()
            if not self.running:
                self.state.update(phase=ending["phase"], reason=ending["reason"], message=ending["message"], ended=now)
                del self.state["ending"]
                self.tell(f"{ending['phase'].lower()}: {ending['message']}")
        elif suspend:
            self._stop_all()
            if not self.running and self.phase != SUSPENDED:
                self.state["phase"] = SUSPENDED
                self.state.pop("preempted", None)
                self.tell("is suspended")
        elif self.phase == SUSPENDED:
            self._from_the_beginning()
            self.state["phase"] = QUEUED
            self.tell("is resumed")
        elif self.phase == RUNNING and not another:
            if self.plan.deadline is not None and now - self.state.get("began", now) > self.plan.deadline:
                self.end(FAILED, "DeadlineExceeded", f"it ran longer than {self.plan.deadline:g} s "
                                                     f"(activeDeadlineSeconds)")
                return
            for group in self.plan.groups:
                self._start(group, now)
            if self.driver is None and self._all_done():
                self.end(DONE, "AllJobsCompleted", "all workers have succeeded")

    def _from_the_beginning(self) -> None:
        """Workers that cannot go on without each other start together, also those that have succeeded."""
        for group in self.plan.groups:
            if group.together:
                self._again(group)

    def end(self, phase: str, reason: str, message: str) -> None:
        """It is to end so, as soon as nothing runs."""
        self.state.setdefault("ending", {"phase": phase, "reason": reason, "message": message})

    def release(self) -> None:
        """Asks processes to end, since the runner ends; what the fleet runs goes on."""
        for process in self.running.values():
            if isinstance(process, Tree):
                process.stop()

    def let_go(self, patience: float) -> None:
        """Ends processes, since the runner ends; they are started again by the next."""
        self.release()
        for process in self.running.values():
            process.let_go(patience)
        self.running.clear()        # their states stay: the next runner looks how each has ended

    def _all_done(self) -> bool:
        groups = [group for group in self.plan.groups if not group.service and group.jobs]
        return bool(groups) and all(self._complete(group) or self._leaves(group) for group in groups)

    def _leaves(self, group: Group) -> bool:
        """Tells whether a group is done since another is, with which it ends."""
        return any(self._complete(other) for other in self.plan.groups if other.name == group.ends_with)

    def _complete(self, group: Group) -> bool:
        return all(self.worker_state(worker.name) in (SUCCEEDED, LEFT) for worker in group.workers)

    def _group(self, group: Group) -> dict[str, Any]:
        return dict.setdefault(self.state["groups"], group.name, {"failures": 0, "round": 0})

    def _stop_all(self) -> None:
        for process in self.running.values():
            process.stop()

    # --- ends

    def _reap(self, now: float) -> None:
        for name, process in list(self.running.items()):
            status = process.poll()
            if status is None:
                continue
            del self.running[name]
            group, worker = self._find(name)
            own = self.state["workers"].get(name)
            if group is None or own is None:    # it was scaled away, or is a store
                self.state["workers"].pop(name, None)
                continue
            own["state"] = WAITING
            if process.asked:
                if self._leaves(group):
                    own["state"] = LEFT
                continue
            if worker is not None and worker.load is not None and status == 0 and not self._signalled(name):
                status = 1
            if status == 0 and not group.service:
                own["state"] = SUCCEEDED
                self.tell(f"{name} has succeeded")
            elif group.elastic and self._someone_succeeded(group):
                own["state"] = LEFT     # the training is done, and this node was late
            else:
                self._failed(group, name, status, now)
        for group in self.plan.groups:
            if group.elastic and self._someone_succeeded(group):
                for worker in group.workers:
                    if self.worker_state(worker.name) == WAITING and worker.name in self.state["workers"]:
                        self.state["workers"][worker.name]["state"] = LEFT

    def _find(self, name: str) -> tuple[Group | None, Worker | None]:
        return next(((group, worker) for group in self.plan.groups for worker in group.workers if worker.name == name),
                    (None, None))

    def _someone_succeeded(self, group: Group) -> bool:
        return any(self.worker_state(worker.name) == SUCCEEDED for worker in group.workers)

    def _failed(self, group: Group, name: str, status: int, now: float) -> None:
        its = self._group(group)
        if not group.service or status != 0:
            its["failures"] += 1
        how = f"was killed by signal {status - KILLED}" if status > KILLED else f"ended with status {status}"
        if self.has_failed(group):
            if self.state.get("restarts", 0) < self.plan.restarts:
                self.state.update(restarts=self.state.get("restarts", 0) + 1, restarted=f"{name} {how}")
                self.tell(f"{name} {how}; the whole job starts again, for the {self.state['restarts']}. time")
                for one in self.plan.groups:
                    self._group(one)["failures"] = 0
                    self._again(one)
                return
            self.end(FAILED, "BackoffLimitExceeded", f"{name} {how}, and {group.name} has failed {its['failures']} "
                     f"times (backoffLimit {group.backoff}); see its log")
            return
        self.tell(f"{name} {how}; it is started again" + (f" with all of {group.name}" if group.together else ""))
        its["not_before"] = now + AGAIN.delay(max(1, its["failures"]))
        if group.together or group.elastic and status <= KILLED:
            self._again(group)

    def _again(self, group: Group) -> None:
        """All workers of a group, those that have succeeded too, start from the beginning."""
        self._group(group)["round"] += 1
        for worker in group.workers:
            if worker.name in self.running:
                self.running[worker.name].stop()
            if worker.name in self.state["workers"]:
                self.state["workers"][worker.name]["state"] = WAITING
        if group.elastic and f"{group.name}-{STORE}" in self.running:
            self.running[f"{group.name}-{STORE}"].stop()

    # --- starts

    def _start(self, group: Group, now: float) -> None:
        its = self._group(group)
        waiting = [worker for worker in group.workers if self.worker_state(worker.name) == WAITING
                   and worker.name not in self.running]
        if not waiting or now < its.get("not_before", 0.0) or not all(map(self._after, group.after)):
            return
        ready = [worker for worker in waiting if all(self.released(need) for need in worker.needs)]
        if group.together and len(ready) < len(group.workers):
            return
        if group.elastic:
            running = sum(worker.name in self.running for worker in group.workers)
            if running + len(ready) < group.elastic[0] or not self._store(group):
                return
        if group.together:
            its["port"] = free_port()
        for worker in ready:
            self._begin(group, worker, now)

    def _token(self, name: str) -> str:
        return f"{self._prefix}:{name};"

    def _after(self, wanted: tuple[str, str]) -> bool:
        group = next((one for one in self.plan.groups if one.name == wanted[0]), None)
        if group is None:
            return True
        if wanted[1] == COMPLETE:
            return self._complete(group)
        return all(self.worker_state(worker.name) != WAITING for worker in group.workers)

    def released(self, name: str) -> bool:
        """Tells whether a worker that others wait for has succeeded; a loader's signal must lie there too."""
        _, worker = self._find(name)
        if worker is None or self.worker_state(name) != SUCCEEDED:
            return False
        return worker.load is None or self._signalled(name)

    def _signalled(self, name: str) -> bool:
        return (self.folder(name) / "signal").is_file()

    def _begin(self, group: Group, worker: Worker, now: float) -> None:
        own = self.state["workers"].setdefault(worker.name, {"attempt": 0, "state": WAITING})
        try:
            if worker.load is not None:
                steps = [self._loading(worker)]
            elif worker.fleet is None:
                made(worker.steps)
                more = self._ranks(group, worker) if group.policy else {}
                steps = [step.resolved(more, base_env()) for step in worker.steps]
            own["attempt"] += 1
            (self.folder(worker.name) / MESSAGE).unlink(missing_ok=True)
            self.running[worker.name] = (
                self._of_fleet(worker.fleet, worker.name) if worker.fleet is not None else
                Tree(self.folder(worker.name), self._token(worker.name), steps, worker.grace))
        except OSError as error:
            self._group(group)["not_before"] = now + AGAIN.most
            self.tell(f"{worker.name} cannot be started ({error}); it is tried again")
            return
        own["state"] = RUNNING

    def _of_fleet(self, what: OnRobot | Round, name: str) -> Running:
        assert self.places.fleet is not None    # else it would have been refused
        job, uid = self.record.manifest.value["metadata"]["name"], self.record.uid
        return self.places.fleet.begin(what, f"{job[:20]}-{name[:20]}-{uid}", self.folder(name))

    def _loading(self, worker: Worker) -> Command:
        assert worker.load is not None
        argv = [sys.executable, "-m", "brain_cloud.jobs.fetch", worker.load.uri, "--signal",
                str(self.folder(worker.name) / "signal")]
        argv += [] if worker.load.sha256 is None else ["--sha256", worker.load.sha256]
        argv += [] if worker.load.to is None else ["--to", worker.load.to]
        self.places.work.mkdir(parents=True, exist_ok=True)
        return Command(argv=argv, env=base_env(), cwd=str(self.places.work))

    def _ranks(self, group: Group, worker: Worker) -> dict[str, str]:
        """Variables of a worker among its group; elastic nodes meet at a store that no node takes along."""
        its, rank = self._group(group), [one.name for one in group.workers].index(worker.name)
        its.setdefault("port", free_port())
        found = rank_variables(group.policy, len(group.workers), group.procs, "127.0.0.1", its["port"], rank)
        if group.elastic:
            least, most = group.elastic
            del found["PET_NODE_RANK"]      # each is given one where they meet
            found |= {**_ELASTIC, "PET_NNODES": f"{least}:{most}", "PET_RDZV_ENDPOINT": f"127.0.0.1:{its['port']}",
                      "PET_RDZV_ID": f"{self.record.uid}-{its['round']}"}
        return {name: str(value) for name, value in found.items()}

    def _store(self, group: Group) -> bool:
        """Checks if the store of elastic nodes listens; starts it where there is none, and its nodes again with it."""
        name, its = f"{group.name}-{STORE}", self._group(group)
        if name not in self.running:
            if any(worker.name in self.running for worker in group.workers):
                self._again(group)      # they have lost the store that they met at
                return False
            its["port"] = free_port()
            step = Command(argv=[sys.executable, "-m", "brain_training.parallel.store", str(its["port"])],
                           env=base_env(), cwd=str(self.places.folder))
            self.running[name] = Tree(self.folder(name), self._token(name), [step], 1.0)
            return False
        if self.running[name].asked:
            return False
        with socket.socket() as found:
            found.settimeout(0.2)
            return found.connect_ex(("127.0.0.1", its["port"])) == 0


def sweep(prefix: str) -> int:
    """Kills what runners before left running; how many processes there were."""
    return kill_leftovers(prefix)

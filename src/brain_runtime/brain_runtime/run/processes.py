# SPDX-License-Identifier: Apache-2.0
"""Processes that a program keeps beside its own work: ranks, servers, workers of a pool, and what a demonstration runs.

A :class:`brain_runtime.run.loop.Loop` in a thread of its own starts and watches them. However the program ends, the
kernel ends them with that thread.
"""
from __future__ import annotations

import queue
import signal
import threading
import weakref
from concurrent.futures import Future, wait
from typing import Any, Callable, Iterable, Mapping, NamedTuple, TypeVar

from brain_runtime.run import keeper
from brain_runtime.run.loop import Loop
from brain_runtime.run.workload import OVER, Event, Workload
from brain_wire.logs import Inherited, Logs

NO_BRAIN = {keeper.VARIABLE: None, keeper.TURN: None}   # they are none of a brain's, each of which names its keeper
LOOK = 1.0      # s between looks whether the loop's thread is there still
T = TypeVar("T")


class Ended(NamedTuple):
    """End of a process that nobody had asked for.

    Attributes:
        status: negative for a signal; None: it could not be started.
        again: it is started again.
    """

    status: int | None
    again: bool


def by_number(found: Mapping[str, T]) -> dict[int, T]:
    """Maps what is known of processes, by the numbers with which their names end, as ``rank 3``."""
    return {int(name[len(name.rstrip("0123456789")):]): its for name, its in found.items()}


class Processes:
    """Processes of a program. A context manager: all of them have ended after it.

    Args:
        workloads: started at once.
        logs: for what they write; None: it goes where this process writes.
        environment: added to theirs; None for a variable: they have none of that name.
        log: name of the log of what happens.

    Attributes:
        pids: id of the last process of each, by name, whether or not it runs still.

    Raises:
        OSError: one cannot be started; then all have ended.
    """

    def __init__(self, workloads: Iterable[Workload] = (), logs: Logs | None = None, *,
                 environment: Mapping[str, str | None] | None = None, log: str = "processes") -> None:
        self._wanted: dict[str, Workload] = {}
        self._heard: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._ends: dict[str, int | None] = {}
        self.pids: dict[str, int] = {}
        self._changed = threading.Condition()
        # None of what the thread has leads to this object: what is let go of without a word ends too.
        pids, ends, heard, changed = self.pids, self._ends, self._heard, self._changed

        def show(event: Event) -> None:
            if (pid := loop.pid(event.name)) is not None:
                pids[event.name] = pid
            if event.kind in OVER:
                status = loop.status(event.name)
                with changed:
                    ends.pop(event.name, None)      # the last one that ended stands last
                    ends[event.name] = status
                    changed.notify_all()
                heard.put((event.name, Ended(status, not loop.over(event.name))))

        loop = Loop((), logs or Inherited(), log=log, on_event=show, environment={**NO_BRAIN, **(environment or {})},
                    on_told=lambda name, what: heard.put((name, what)))
        self._loop, self._over = loop, threading.Event()
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=_keep, name=log, daemon=True,
                                        args=(loop, self._tasks, self._over, heard))
        self._thread.start()
        self._let_go = weakref.finalize(self, _end, loop, self._over, self._thread)
        try:
            self.start(*workloads)
        except BaseException:
            self.end(0.0)
            raise

    def start(self, *workloads: Workload) -> None:
        """Starts more, or anew what has ended.

        Raises:
            OSError: one cannot be started.
        """
        self._wanted |= {workload.name: workload for workload in workloads}
        self._do(self._begin, [workload.name for workload in workloads])
        for workload in workloads:
            if self._ends.get(workload.name, 0) is None:
                raise OSError(self._loop.fault(workload.name))

    def _begin(self, names: list[str]) -> None:
        self._loop.want([workload for name, workload in self._wanted.items() if name not in names])
        with self._changed:
            for name in names:
                self._ends.pop(name, None)
        self._loop.want(self._wanted.values())
        self._loop.round(0.0)

    # -- what is known of them -------------------------------------------------------------------------------------

    def statuses(self) -> dict[str, int]:
        """Exit statuses of those that have ended by themselves, the first that ended first; negative for a signal."""
        with self._changed:
            return {name: status for name, status in self._ends.items() if status is not None}

    def restarts(self) -> int:
        """Counts how often one of them was started again."""
        return sum(self._loop.restarts(name) for name in self._wanted)

    def wait(self, seconds: float | None = None, until: Callable[[Mapping[str, int]], bool] | None = None) -> bool:
        """Waits until something holds of the statuses, None: all have ended; tells whether it came to that in time."""
        holds = until or (lambda statuses: len(statuses) == len(self._wanted))
        with self._changed:
            return self._changed.wait_for(lambda: holds(self.statuses()), seconds)

    def hear(self, seconds: float | None = None) -> tuple[str, Any] | None:
        """Waits for the next thing that one of them tells by its call, or its :class:`Ended`, and returns it.

        It comes with the name of the workload, and of each in the order in which it happened. None: nothing came in
        time.

        Raises:
            RuntimeError: they are kept no more.
        """
        try:
            found = self._heard.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(found[1], BaseException):
            raise RuntimeError("the processes are kept no more") from found[1]
        return found

    # -- what is done with them ------------------------------------------------------------------------------------

    def kill(self, name: str, number: int = signal.SIGKILL) -> bool:
        """Sends one a signal; whether there was one to send it to."""
        return bool(self._do(self._loop.kill, name, number))

    def end(self, grace: float | None = None) -> None:
        """Ends all: SIGTERM, and SIGKILL for what is left after ``grace`` s, None: of each its own; and waits."""
        if self._thread.is_alive():
            self._do(self._loop.stop, grace)
        self._let_go()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _do(self, what: Callable[..., Any], *args: Any) -> Any:
        """Has something done by the loop's thread, and waits for it."""
        done: Future[Any] = Future()
        self._tasks.put((done, lambda: what(*args)))
        self._loop.wake()
        while not wait([done], LOOK).done:
            if not self._thread.is_alive():
                raise RuntimeError("the processes are kept no more")
        return done.result()


def _keep(loop: Loop, tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]], over: threading.Event,
          heard: queue.SimpleQueue[tuple[str, Any]]) -> None:
    try:
        while not over.is_set():
            while not tasks.empty():
                _carry_out(*tasks.get())     # in a frame of its own, which holds none of them afterwards
            if not over.is_set():
                loop.round()
        loop.stop()
    except BaseException as error:
        heard.put(("", error))
        raise


def _carry_out(done: Future[Any], what: Callable[[], Any]) -> None:
    try:
        done.set_result(what())
    except BaseException as error:
        done.set_exception(error)


def _end(loop: Loop, over: threading.Event, thread: threading.Thread) -> None:
    over.set()
    loop.wake()
    if thread is not threading.current_thread():
        thread.join()

# SPDX-License-Identifier: Apache-2.0
"""The order of a group's calls, and what a call gives back.

Calls of one group are done one after the other, in the order in which they were made. A synchronous call on an idle
group is done in the caller's thread, which saves two changes of threads; all others in a thread of the group. Receives
point to point stand outside of that order, and are finished by whoever waits for them.
"""
from __future__ import annotations

import queue
import threading
import time
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from brain_collectives import background
from brain_collectives.algorithms import Exchange, barrier
from brain_collectives.counting import COUNTERS
from brain_collectives.errors import TooLate
from brain_collectives.group import Group
from brain_collectives.header import Call

Body = Callable[[Exchange], None]
# A rank that only sends may run ahead of those that receive. After so many calls, or bytes, in which nobody waits for
# everybody, all ranks meet: at the same call, since all make the same calls. With what one call more may have they must
# fit into what a rank keeps by default (`settings.KEEP`), else a router's death takes along what nobody has any more.
FREE_CALLS, FREE_BYTES = 64, 16 << 20
MEETING = (1 << 31) - 8         # step of a call in which they do
ONE_SIDED = ("broadcast", "reduce", "gather", "scatter")


class Done(dist.Work):
    """A call that was made, from its beginning on.

    Args:
        result: the tensors that it writes.
    """

    def __init__(self, result: list[torch.Tensor]) -> None:
        super().__init__()
        self._result = result
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._over: torch.futures.Future[None] | None = None
        self._future: torch.futures.Future[Any] | None = None
        self._lock = threading.Lock()

    def end(self, error: BaseException | None = None) -> None:
        """Says that it is over."""
        with self._lock:
            self._error = error
            self._ended.set()
            over = self._over
        if over is not None:
            over.set_result(None)

    def _outcome(self, _: torch.futures.Future[None]) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error.with_traceback(None)
        return self._result

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until it is over.

        Args:
            timeout: after which waiting ends with an error, the call not; None or 0: the call's own only.

        Raises:
            CollectiveError: it could not be done.
        """
        seconds = timeout.total_seconds() if timeout is not None else 0.0
        if not self._ended.wait(seconds if seconds > 0 else None):
            raise TooLate(f"the call is not over after {seconds:g} s")
        if self._error is not None:
            raise self._error.with_traceback(None)
        return True

    def synchronize(self) -> None:
        """Waits until it is over."""
        self.wait()

    def is_completed(self) -> bool:
        """Tells whether the call is over, well or not."""
        return self._ended.is_set()

    def is_success(self) -> bool:
        """Tells whether the call is over and went well."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """Returns the error for which the call could not be done."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """The tensors that it writes."""
        return self._result

    def source_rank(self) -> int:
        """Rank in the group from which a received message came."""
        raise RuntimeError("only a receive has a source")

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of its tensors; where the call fails, it raises a ``RuntimeError`` that says why.

        ``Future.set_exception`` keeps the error as a value, which Python raises. torch's C++ code (the reducer of DDP)
        takes that value for tensors, and reads memory that is not there. What a callback raises is an error for both.
        """
        with self._lock:
            if self._future is not None:
                return self._future
            self._over = over = torch.futures.Future()
            self._future = future = over.then(self._outcome)
            ended = self._ended.is_set()
        if ended:
            over.set_result(None)
        return future


class Together(Done):
    """Several calls, over when all are."""

    def __init__(self, works: list[dist.Work]) -> None:
        super().__init__([])
        self._works = works
        for work in works:
            self._result += work.result()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """As `Done.wait`."""
        for work in self._works:
            work.wait(*[timeout] if timeout is not None else [])
        if not self.is_completed():
            self.end()
        return True

    def is_completed(self) -> bool:
        """Tells whether all calls are over."""
        return self._ended.is_set() or all(work.is_completed() for work in self._works)

    def exception(self) -> BaseException | None:
        """Returns the error of the first call that could not be done."""
        return next((work.exception() for work in self._works if work.is_completed() and work.exception()), None)

    def is_success(self) -> bool:
        """Tells whether all calls are over and went well."""
        return self.is_completed() and self.exception() is None

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of all their tensors."""
        future = super().get_future()
        if not self._ended.is_set():
            background.start(self._follow, "future")
        return future

    def _follow(self) -> None:
        try:
            for work in self._works:
                work.wait()
        except Exception as error:
            self.end(error)
        else:
            self.end()


class Calls:
    """The calls of one group.

    Args:
        group: on the wire.
        timeout: s that a call may take which names none.
    """

    def __init__(self, group: Group, timeout: float) -> None:
        self.group = group
        self.timeout = timeout
        self._sequence = 0
        self._pending = 0
        self._free_calls = self._free_bytes = 0
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def make(self, call: Call, body: Body, result: list[torch.Tensor], *, asynchronous: bool,
             timeout: timedelta | None = None) -> Done:
        """Makes a call.

        Args:
            body: does it.
            result: the tensors that it writes.
            timeout: None or below 0: the group's.

        Raises:
            CollectiveError: it was done at once, and could not be; or the group is of no more use.
        """
        seconds = timeout.total_seconds() if timeout is not None else -1.0
        seconds = seconds if seconds > 0 else self.timeout
        COUNTERS.called(call.kind)
        work, began = Done(result), time.monotonic()
        with self._lock:
            self.group.check()
            number = self._sequence
            self._sequence += 1
            job = (number, call, self._with_meeting(call, body), work, seconds, began)
            at_once = not asynchronous and not self._pending
            self._pending += 1
            if at_once:
                self._turn.acquire()
            else:
                self._queue.put(job)
                if self._thread is None:
                    self._thread = background.start(self._run, self.group.title, self.close)
        if at_once:
            try:
                self._do(*job)
            finally:
                self._turn.release()
                with self._lock:
                    self._pending -= 1
        return work

    def _with_meeting(self, call: Call, body: Body) -> Body:
        """Returns the body of a call, to which now and then a meeting of all ranks is added at its end."""
        if call.kind not in ONE_SIDED:
            self._free_calls = self._free_bytes = 0
            return body
        size = call.dtype.itemsize
        for dimension in call.shape:
            size *= dimension
        if call.kind in ("broadcast", "scatter"):       # the root keeps one for each of the others
            size *= max(1, self.group.size - 1)
        self._free_calls += 1
        self._free_bytes += size
        if self._free_calls < FREE_CALLS and self._free_bytes < FREE_BYTES:
            return body
        self._free_calls = self._free_bytes = 0

        def body_and_meeting(exchange: Exchange) -> None:
            body(exchange)
            exchange.phase = MEETING
            barrier(exchange)
        return body_and_meeting

    def _do(self, number: int, call: Call, body: Body, work: Done, timeout: float, began: float) -> None:
        error: BaseException | None = None
        try:
            self.group.begin(number, call)
            with torch.no_grad():
                body(Exchange(self.group, number, call, timeout, began))
        except BaseException as problem:
            error = problem
            raise
        finally:
            self.group.mailbox.end(number)
            work.end(error)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            with self._turn:
                try:
                    self._do(*job)
                except Exception:   # noqa: B902 # it stands in the work, for whoever waits for it
                    continue
                finally:
                    with self._lock:
                        self._pending -= 1

    def close(self) -> None:
        """Ends the thread, once what is queued has ended."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)

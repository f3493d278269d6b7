# SPDX-License-Identifier: Apache-2.0
"""Three policies for the start of a step, each of which starts steps in one place.

:class:`Threaded` (ZenohHost), in ``_step``:
    A message that triggers has come: in the thread that received it, at once, if steps usually take at most
    :data:`QUICK` and nobody has the region's turn. Else, and where the rate, a goal or the energy budget asks for it:
    in the worker.

:class:`Afterwards` (RosHost), in the same place:
    As Threaded, but the thread that received makes the step after the callback and not in it.

:class:`Lockstep` (LocalHost), in ``step``:
    When the schedule of all regions says so, in its thread.

There is never more than one step of a region at a time: who starts one has the region's turn.
"""
from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Callable

from brain_runtime.hosts.host import Arrived
from brain_runtime.hosts.input import Input
from brain_runtime.contract.stepper import RegionError
from brain_wire.messages import MessageError
from brain_wire.wakeup import Signal

if TYPE_CHECKING:
    from brain_runtime.hosts.hosted_region import HostedRegion

QUICK = 0.002           # s; steps that usually take no longer are made by the thread that received
USUAL = 0.05            # weight of the newest step in what is usual
IDLE_WAIT = 0.5         # s that the worker sleeps at most, so that it sees the end


class Policy(ABC):
    """Starts the steps of one region.

    Args:
        hosted: the region, in the hands of its host.
    """

    def __init__(self, hosted: HostedRegion) -> None:
        self._hosted = hosted

    @abstractmethod
    def deliver(self, inbound: Input, arrival: Arrived | None = None) -> bool:
        """Something has come at an input: see :meth:`.host.Host.deliver`."""

    @abstractmethod
    def wake(self) -> None:
        """Something else has happened that may make a step due: a goal, an energy budget. From any thread."""

    @abstractmethod
    def begin(self) -> None:
        """The region is active now: what has come before is taken in."""

    @abstractmethod
    def forget(self) -> None:
        """The region is not active any more: what has come and waits is not taken in. With the region's turn."""


def _data(arrival: Arrived) -> Any:
    return arrival.data


class Threaded(Policy):
    """By the steady clock, where threads receive: in the thread that received, or in a worker.

    To wake the worker takes longer than a quick step, hence the first.
    """

    def __init__(self, hosted: HostedRegion) -> None:
        super().__init__(hosted)
        self._signal = Signal()                     # of the worker
        self._ready: deque[Input] = deque()         # at which something has come
        self._usual = math.inf                      # s that a step takes
        self._over = False

    # -- what leads to a step ----------------------------------------------------------------------------------------

    def deliver(self, inbound: Input, arrival: Arrived | None = None) -> bool:
        if arrival is None:
            self._note(inbound)
            if inbound.triggers:
                self.step_or_wake()
            return True
        return inbound.alone and self.at_once(inbound, _data)(arrival, arrival.received)

    def at_once(self, inbound: Input, read: Callable[[Any], Any]) -> Callable[[Any, float], bool]:
        """:meth:`deliver` for what comes at an input that is ``alone``, with everything looked up that can be.

        Args:
            inbound: of the port.
            read: gives a message's data; it may raise MessageError.

        Returns:
            Given what ``read`` is to read and the steady time of its receipt (s), makes the step that it leads to.
            False where others come first or it cannot be read: then it is to be kept, and delivered as what waits.
        """
        hosted, ready, step = self._hosted, self._ready, self._step
        acquire, release = hosted.turn.acquire, hosted.turn.release
        offer, decode = inbound.slot.offer, inbound.decode

        def deliver(what: Any, received: float) -> bool:
            if self._usual > QUICK or not acquire(False):
                return False
            try:
                if ready or hosted.idle:
                    return False
                try:
                    offer(decode(read(what)), received)
                except MessageError:
                    return False
                except BaseException as error:  # as in a step
                    hosted.fail(error)
                    return True
                step()
            finally:
                release()
            return True
        return deliver

    def step_or_wake(self) -> None:
        """Makes the step that is due, where steps are quick and nobody is at one; else wakes the worker."""
        turn = self._hosted.turn
        if self._usual > QUICK or not turn.acquire(False):
            self._signal.set()
            return
        try:
            self._round()
        finally:
            turn.release()

    def work(self) -> None:
        """Runs the worker until :meth:`end`."""
        hosted = self._hosted
        while not self._over:
            stepper = hosted.stepper
            next_due = math.inf if stepper is None or hosted.idle else min(stepper.next_tick, hosted.gate.due)
            self._signal.wait(min(next_due - time.monotonic(), IDLE_WAIT))
            with hosted.turn:
                self._round()

    # -- the step ----------------------------------------------------------------------------------------------------

    def _round(self) -> None:
        """Takes in what has come, and makes a step if one is due. With the region's turn."""
        hosted = self._hosted
        if hosted.idle:
            return
        try:
            noted: dict[Input, None] = {}   # each once: what comes meanwhile is noted again
            while self._ready:
                noted[self._ready.popleft()] = None
            for one in noted:
                one.take()
        except BaseException as error:  # as in a step
            hosted.fail(error)
            return
        self._step()

    def _step(self) -> None:
        """Makes a step if one is due, and sends what the energy budget lets go. With the region's turn."""
        hosted = self._hosted
        try:
            now, stepper, gate = time.monotonic(), hosted.stepper, hosted.gate
            assert stepper is not None, "a region that is not idle is configured"
            if stepper.due(now):
                held = gate.due if gate.limited else 0.0
                stepper.step(now, hosted.clock(), hosted.connections.senders)
                if gate.limited and gate.due < held:
                    self._signal.set()  # the worker has to send what is held, whoever made this step
                took, usual = stepper.took, self._usual
                self._usual = took if usual == math.inf else (1 - USUAL) * usual + USUAL * took
            if gate.limited and gate.due <= now:
                hosted.connections.let_go(gate.release(now))
        except BaseException as error:  # SystemExit too: a thread that ends silently leaves a process that looks alive
            hosted.fail(error)

    # -- life --------------------------------------------------------------------------------------------------------

    def _note(self, inbound: Input) -> None:
        """Notes an arrival that waits for the next step."""
        if not self._hosted.idle:
            self._ready.append(inbound)

    def wake(self) -> None:
        self._signal.set()

    def begin(self) -> None:
        self._usual = math.inf
        self._ready.extend(self._hosted.connections.inputs.values())
        self._signal.set()

    def forget(self) -> None:
        self._ready.clear()

    def end(self) -> None:
        """Ends the worker, after the step that it is at."""
        self._over = True
        self._signal.set()


class Afterwards(Threaded):
    """As :class:`Threaded`, for an executor in whose callbacks nothing must take long: it calls :meth:`after`."""

    def __init__(self, hosted: HostedRegion) -> None:
        super().__init__(hosted)
        self._triggered = False

    def deliver(self, inbound: Input, arrival: Arrived | None = None) -> bool:
        if arrival is not None:
            return False
        self._note(inbound)
        if inbound.triggers:
            self._triggered = True
        return True

    def after(self) -> None:
        """After each callback, in the thread that spins: makes the step that was triggered, or wakes the worker."""
        if self._triggered:
            self._triggered = False
            self.step_or_wake()


class Lockstep(Policy):
    """On a simulated clock, in one thread: what comes is taken in at once, and :meth:`step` is called by a schedule.

    Args:
        hosted: the region, in the hands of its host.
        due: tells the schedule that a step of this region is due at this instant.
    """

    def __init__(self, hosted: HostedRegion, due: Callable[[], None]) -> None:
        super().__init__(hosted)
        self._due = due

    def deliver(self, inbound: Input, arrival: Arrived | None = None) -> bool:
        if arrival is None:     # nothing waits: the bus hands on at once
            return True
        inbound.offer(arrival)
        if inbound.triggers and not self._hosted.idle:
            self._due()
        return True

    def step(self, now: float, stamp: float) -> None:
        """Makes a step at ``now`` (s, simulated), then sends what it made: others hear it at the same instant.

        None is made where what came cannot be read, which the schedule does not know.
        """
        hosted = self._hosted
        if not hosted.running.due(now):
            return
        try:
            hosted.connections.send(hosted.running.step(now, stamp))
        except RegionError as error:
            hosted.fail(error)
        except MessageError as error:
            failure = RegionError(f"{hosted.region.name} published what cannot be sent: {error}")
            failure.__cause__ = error
            hosted.fail(failure)

    def wake(self) -> None:
        if not self._hosted.idle:
            self._due()

    def begin(self) -> None:
        """Makes a step due at once if a trigger came before: it is in the inbox already."""
        if not self._hosted.idle and self._hosted.running.triggered:
            self._due()

    def forget(self) -> None:
        """Nothing waits."""

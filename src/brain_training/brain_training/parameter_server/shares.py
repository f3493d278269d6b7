# SPDX-License-Identifier: Apache-2.0
"""Shares of sums that the workers of a step in mode sync exchange while they compute it, by way of server 0.

A loss that counts, or a batch normalization, needs sums over the whole batch: each worker gives its part of them, round
by round, and gets those of all in the order of ranks. Parts are a function of the step, so a worker that comes in
another's place gives them again, and takes those that the others gave before. They are kept in memory until the step is
done. A server that was killed has none; whoever waits then sends its own again.
"""
from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import Any, Callable, Iterator, Sequence

from torch import Tensor

from brain_training.parallel.together import Together
from brain_training.parameter_server import tensors as wire
from brain_training.parameter_server.messages import AllParts, Parts
from brain_training.parameter_server.refused import Refused, wrong
from brain_training.parameter_server.shard import Shard
from brain_training.task import TrainingError

MOST_ROUNDS = 10_000        # of a step
LARGEST = 256 << 10         # bytes of one worker's part of a round; the answer has all workers'
AT_ONCE = 4 << 20           # bytes of parts in one message


class Shares:
    """The parts of the rounds of one step, at server 0.

    Args:
        workers: how many give one.
    """

    def __init__(self, workers: int) -> None:
        self._workers, self._step = workers, 0
        self._rounds: dict[int, dict[int, bytes]] = {}

    def put(self, step: int, rank: int, first: int, parts: Sequence[bytes]) -> None:
        """Keeps what a worker gives for some rounds of the step that is computed; raises Refused."""
        if first + len(parts) > MOST_ROUNDS or any(len(part) > LARGEST for part in parts):
            raise _too_large(rank)
        if step != self._step:
            self._step, self._rounds = step, {}
        for number, part in enumerate(parts, first):
            self._rounds.setdefault(number, {})[rank] = part

    def whole(self, step: int, number: int) -> list[bytes] | None:
        """All workers' parts of a round, by rank; None: some are still to come."""
        found = self._rounds.get(number, {}) if step == self._step else {}
        return [found[rank] for rank in range(self._workers)] if len(found) == self._workers else None

    def known(self, step: int, rank: int) -> int:
        """Counts the rounds, from the first on, for which a worker has given its parts."""
        number = 0
        while step == self._step and rank in self._rounds.get(number, {}):
            number += 1
        return number

    async def answer(self, request: Any, rank: int, shard: Shard, waits: Callable[[Any], Any],
                     tell_all: Callable[[], Any]) -> Any:
        """Answers a worker's parts, as server 0.

        Args:
            request: ``Parts``.
            rank: of the worker.
            shard: of server 0.
            waits: waits until a function says so, for a while.
            tell_all: tells others who wait.

        Raises:
            Refused: nothing is shared here, or not yet.
        """
        step, number = request.sequence, request.round
        if not shard.mode.together or shard.server != 0 or step > shard.version:
            raise wrong(f"worker {rank} shares parts of step {step}, and server {shard.server} is at step "
                        f"{shard.version} (mode {shard.mode}); it is done at server 0, in mode sync")
        if step == shard.version:
            self.put(step, rank, request.first, request.parts)
            await tell_all()
            if request.wait:
                await waits(lambda: shard.version > step or self.whole(step, number) is not None)
        if step < shard.version:
            return AllParts(passed=True)
        found = self.whole(step, number)
        there = self._rounds.get(number, {}) if step == self._step else {}
        missing = ", ".join(f"worker {each}" for each in range(self._workers) if each not in there)
        return AllParts(ready=found is not None, known=self.known(step, rank), parts=found,
                        reason="" if found else f"a sum of step {step} waits for {missing}")


def _too_large(rank: int) -> Refused:
    return wrong(f"worker {rank} shares more than {LARGEST} bytes in one sum, or more than {MOST_ROUNDS} sums in a "
                 f"step")


class Passed(Exception):
    """The step was done meanwhile, with the push of who had this place before."""


class Served(Together):
    """The part of a batch that one worker has. Outside of :meth:`within` it is the whole.

    Args:
        ask: sends ``Parts`` to server 0, and gives its answer.
        workers: how many parts there are.
    """

    def __init__(self, ask: Callable[[Any], Any], workers: int) -> None:
        super().__init__()
        self._ask, self._count, self._step = ask, workers, 0
        self._given: list[bytes] = []
        self._inside, self.member = False, None
        self._waits: Callable[[str], None] | None = None

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Index of this part, from 0."""
        return self.member.rank if self._inside and self.member is not None else 0

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of parts."""
        return self._count if self._inside else 1

    @contextmanager
    def within(self, step: int, waits: Callable[[str], None]) -> Iterator[None]:
        """Computes a part of a step; ``waits`` is told who is waited for."""
        self._inside, self._step, self._given, self._waits = True, step, [], waits
        try:
            yield
        finally:
            self._inside = False

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """See :class:`Together`. Raises Passed, or TrainingError where parts are not of one shape."""
        if not self._inside or self._count == 1:
            return [tensor]
        self._given.append(bytes(wire.raw(tensor)))
        if len(self._given[-1]) > LARGEST:
            raise TrainingError(str(_too_large(self.rank)))
        number = len(self._given) - 1
        while not (found := self._send(number, number, wait=True)).ready:
            self._give(int(found.known))    # the server was started again, and lacks what was given before
            if self._waits:
                self._waits(found.reason)
        if any(len(part) != len(self._given[-1]) for part in found.parts):
            raise TrainingError(f"the workers do not share the same sums in step {self._step}: this one has "
                                f"{len(self._given[-1])} bytes, and they have "
                                f"{', '.join(str(len(part)) for part in found.parts)}; the data differ")
        return [wire.unread(part, tensor.dtype, 0, tensor.numel()).view(tensor.shape).to(tensor.device)
                for part in found.parts]

    def remind(self) -> None:
        """Gives server 0 again what it lacks of this step, for others who wait for it."""
        if not self._given:
            return
        with suppress(Passed):
            count = len(self._given)
            self._give(int(self._send(count - 1, count, wait=False).known))

    def _give(self, first: int) -> None:
        """Parts from one on, again."""
        while first < len(self._given):
            last, size = first, 0
            while last < len(self._given) and (last == first or size + len(self._given[last]) <= AT_ONCE):
                size += len(self._given[last])
                last += 1
            self._send(last - 1, first, wait=False, last=last)
            first = last

    def _send(self, number: int, first: int, *, wait: bool, last: int | None = None) -> Any:
        found = self._ask(Parts(member=self.member, sequence=self._step, round=number, first=first,
                                parts=self._given[first:last], wait=wait))
        if found.passed:
            raise Passed
        return found

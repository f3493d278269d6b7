# SPDX-License-Identifier: Apache-2.0
"""Places of workers, and the steps that are dealt out to them."""
from __future__ import annotations

from typing import Any, Mapping

from brain_training.parameter_server.refused import Refused, too_much, unfit


class Places:
    """The places of workers. Who takes one gets an epoch that is higher than all before; who was replaced is refused.

    Args:
        count: places.
    """

    def __init__(self, count: int) -> None:
        self.count, self.epoch, self.left = count, 0, False
        self._taken: dict[int, tuple[int, str]] = {}    # epoch and identity, by rank

    def of(self, identity: str) -> tuple[int, int] | None:
        """Rank and epoch of who has joined already."""
        return next(((rank, epoch) for rank, (epoch, who) in self._taken.items() if who == identity), None)

    def ranks(self) -> list[int]:
        """The ranks that somebody has."""
        return sorted(self._taken)

    def free(self, gone: set[int]) -> int:
        """The place that the next one gets: the first that nobody has, else one of those whose worker is gone."""
        for rank in [*(rank for rank in range(self.count) if rank not in self._taken), *sorted(gone)]:
            return rank
        raise too_much(f"all {self.count} places of this training are taken; a place is free again when a worker has "
                       f"left or its lease has ended, or start the servers with more --workers")

    def join(self, rank: int, epoch: int, identity: str, ended: bool = False) -> None:
        """Gives a place to somebody. Raises Refused as :meth:`check_join`."""
        self.check_join(rank, epoch, identity, ended)
        self._taken[rank] = epoch, identity
        self.epoch = max(self.epoch, epoch)

    def check_join(self, rank: int, epoch: int, identity: str, ended: bool = False) -> None:
        """Raises Refused where there is no such place, or somebody who came later has it.

        Args:
            rank: of the place.
            epoch: that server 0 has given for it.
            identity: of who asks.
            ended: whether the lease of who has it has ended: then whoever comes is let in, whatever epoch the other
                one has told. Else one false epoch would close the place for good.
        """
        if not 0 <= rank < self.count:
            raise unfit(f"there is no place {rank}; this training has {self.count}")
        taken = self._taken.get(rank)
        if taken and not ended and (taken[0] > epoch or taken[0] == epoch and taken[1] != identity):
            raise self._replaced(rank, epoch, taken[0])

    def leave(self, rank: int) -> None:
        """Frees a place."""
        self._taken.pop(rank, None)
        self.left = True

    def check(self, member: Any) -> int:
        """The rank of a message's ``Member``; raises Refused where it is not one, or not any more."""
        taken = self._taken.get(member.rank)
        if taken is None:
            raise unfit(f"worker {member.rank} of epoch {member.epoch} is not registered here; register first")
        if taken[0] != member.epoch:
            raise self._replaced(member.rank, member.epoch, taken[0])
        return member.rank

    @staticmethod
    def _replaced(rank: int, epoch: int, by: int) -> Refused:
        return unfit(f"worker {rank} of epoch {epoch} is none any more: its lease had ended, and epoch {by} has its "
                     f"place; start it again to take a free one")

    def state(self) -> dict[str, Any]:
        """For JSON."""
        return {"epoch": self.epoch, "left": self.left, "taken": [[rank, *who] for rank, who in self._taken.items()]}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Takes back what :meth:`state` gave."""
        self.epoch, self.left = int(values["epoch"]), bool(values.get("left", False))
        self._taken = {int(rank): (int(epoch), str(who)) for rank, epoch, who in values["taken"]}


class Deal:
    """Steps that are dealt out one by one, each to one worker (modes async and stale)."""

    def __init__(self) -> None:
        self.next = 0
        self.given: dict[int, tuple[int, int]] = {}     # rank and epoch of who computes it, by step
        self._done: set[int] = set()    # those from _all on
        self._all = 0                   # all before it are done

    def give(self, step: int, rank: int, epoch: int) -> None:
        """Deals out a step."""
        self.next = max(self.next, step + 1)
        self.given[step] = rank, epoch

    def done(self, step: int) -> bool:
        """Tells whether a step has been applied, or lost."""
        return step < self._all or step in self._done

    def finish(self, step: int) -> None:
        """A step has been applied, or is lost with its worker."""
        self.given.pop(step, None)
        self._done.add(step)
        while self._all in self._done:
            self._done.discard(self._all)
            self._all += 1

    def ahead(self) -> int:
        """Counts the steps from the oldest one that is still to come to the next one that is dealt out."""
        return self.next - min(self.given, default=self.next)

    def held_by(self, rank: int) -> list[int]:
        """Steps that a worker computes."""
        return sorted(step for step, (who, _) in self.given.items() if who == rank)

    def state(self) -> dict[str, Any]:
        """For JSON."""
        return {"next": self.next, "given": [[step, *who] for step, who in self.given.items()],
                "done": sorted(self._done), "all": self._all}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Takes back what :meth:`state` gave."""
        self.next, self._all, self._done = int(values["next"]), int(values["all"]), set(values["done"])
        self.given = {int(step): (int(rank), int(epoch)) for step, rank, epoch in values["given"]}

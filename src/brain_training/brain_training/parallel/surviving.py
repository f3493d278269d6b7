# SPDX-License-Identifier: Apache-2.0
"""A training whose ranks may die: those that are left do the step again, and go on.

The zenoh backend names the dead rank in the call that waits for it. The survivors get a group of themselves
(``brain_collectives.shrink``), tell each other how far they are, and make trainers anew from what they keep in memory
(:mod:`.kept`). No rank is ahead of another by more than a step, since each step needs gradients of all; who is behind
takes what one of those keeps that are ahead. The first that is left writes checkpoints, log and weight files.

A rank that stood still for longer than the lease may wake. Who goes on is therefore written down once, in the store of
the command that started all (:mod:`.watch`): the first that writes is right, and who finds others there ends.
"""
from __future__ import annotations

import gc
import json
import os
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import BarrierOptions

from brain_training.checkpoint import CheckpointError
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.parallel.kept import Kept, KeepingTrainer, handed
from brain_training.parallel.lost_rank import LostRank
from brain_training.parallel.ranks import TIMEOUT, tell
from brain_training.task import TrainingError

MET = "met"                         # key that is there when all ranks have met
LONG = timedelta(days=1)            # for the first rank to examine a network: the others wait
FENCED = timedelta(seconds=60)      # for the command to end a rank that may write
Make = Callable[[Ranks, How], Any]
"""Makes a trainer of so many ranks."""


def decision(epoch: int) -> str:
    """Key of the ranks that go on after so many deaths were agreed on; JSON."""
    return f"survivors/{epoch}"


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, sorted(ranks)))}"


def fence(epoch: int) -> str:
    """Key that is there when none before the first of them can write any more."""
    return f"fenced/{epoch}"


class Survivors:
    """The ranks that are left, as one of them.

    Args:
        ranks: all that began.
        how: the plan, and how many have to be left.

    Attributes:
        ranks: that are left.
        how: with a plan of as many.
    """

    def __init__(self, ranks: Ranks, how: How) -> None:
        self.ranks, self.how = ranks, how
        self._of, self._members = ranks.size, tuple(range(ranks.size))     # counted as they began
        self._networks = 0                  # that are trained
        self._handed: Kept | None = None    # of the next network, whose training others have begun
        self._untold: list[int] = []        # who died since it was told last
        self._notes: tuple[str, ...] = ()
        self._store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
        self._store.set(MET, "1")

    def trained(self, make: Make) -> tuple[nn.Module, list[float], dict[str, Any] | None]:
        """Trains one network to the end.

        Args:
            make: called again after each death.

        Returns:
            The network, on the CPU, losses of all steps, and what it cost; None: it was not counted to the end.

        Raises:
            LostRank: the others have gone on without this rank.
            TrainingError: too few are left, or what else ends a training.
        """
        state, self._handed = self._handed, None
        begins: tuple[dict[str, torch.Tensor], str] | None = None
        done: tuple[nn.Module, list[float]] | None = None
        while True:
            trainer: Any = None
            ready: Any = None
            try:
                trainer = make(self.ranks, self.how)
                if begins is None:
                    tensors, values = trainer.task.state()
                    begins = {name: value.clone() for name, value in tensors.items()}, json.dumps(values)
                self._stand(trainer, state, begins)
                ready = trainer
                first = trainer.step
                network = trainer.run()
                done = network, trainer.losses
                cost = trainer.cost().report()      # who has it knows that all others are done, too
                self._networks += 1
                return *done, cost if trainer.step > first else None
            except Exception as error:      # what autograd makes of a death has no class of its own
                state, beyond = self._go_on(error, ready, state)
            del trainer, ready
            gc.collect()        # what held the old group
            if beyond:
                assert done is not None     # who went on had this rank's part of the cost, which comes after
                self._networks, self._handed = self._networks + 1, state
                return *done, None

    def _stand(self, trainer: Any, state: Kept | None, begins: tuple[dict[str, torch.Tensor], str]) -> None:
        """Puts a new trainer where the training stands."""
        where = "from memory"
        if state is not None:
            trainer.back(state)
        else:
            if self._notes:     # the curriculum may have gone on
                trainer.task.restore({name: value.clone() for name, value in begins[0].items()}, json.loads(begins[1]))
            trainer.resume()
            where = "from the newest checkpoint" if trainer.step else "from the beginning"
            if self.how.plan is not None and self.how.plan.zero:
                where += ", since a dead rank takes its part of the optimizer of zero=1 along"
        trainer.notes = (*trainer.notes, *self._notes)
        over = trainer.step == trainer.steps
        what = "after the last step" if over else f"with step {trainer.step + 1} of {trainer.steps}"
        self._say(f"{what} {where}")

    def _say(self, more: str) -> None:
        """Tells once who died, where this rank is the first of those that are left."""
        if self._untold and self.ranks.rank == 0:
            print(f"{_named(self._untold)} died, which leaves {self.ranks.size} of {self._of}; on {more}",
                  file=sys.stderr, flush=True)
        self._untold = []

    def finished(self, work: Callable[[], dict[str, Any]]) -> None:
        """Has the first rank do what is left when all networks are trained, while the others wait.

        Args:
            work: done again by another rank where the first one died; its result is told to who started the ranks.
        """
        told = False
        while True:
            try:
                self._say("with the examination of what was trained")
                if self.ranks.rank == 0 and not told:
                    tell(work())
                    told = True
                options = BarrierOptions()
                options.timeout = LONG
                self.ranks.group.barrier(options).wait()
                return
            except Exception as error:      # as above
                self._go_on(error, None, None, LONG)

    # -- after a death ---------------------------------------------------------------------------------------------

    def _go_on(self, error: Exception, ready: KeepingTrainer | None, state: Kept | None,
               patience: timedelta = timedelta(seconds=TIMEOUT)) -> tuple[Kept | None, bool]:
        """Gets a group of the survivors, and agrees with them.

        Args:
            error: what was raised.
            ready: the trainer, where it had begun.
            state: from which it was to begin; None: from the newest checkpoint, or the beginning.
            patience: for the others to come.

        Returns:
            From where all go on, and whether that is in a later network than this rank's.

        Raises:
            Exception: ``error``, where it says of no death; and what :meth:`trained` raises.
        """
        while True:
            self._shrink(error, patience)
            try:
                return self._agreed(ready, state)
            except Exception as another:
                error = another

    def _agreed(self, ready: KeepingTrainer | None, state: Kept | None) -> tuple[Kept | None, bool]:
        """From where all go on; all of them call it."""
        own = ready.stands() if isinstance(ready, KeepingTrainer) else state
        place = self._networks, -1 if own is None else own.step
        places = [(int(network), int(step)) for network, step in self.ranks.gather(torch.tensor(place))]
        most = max(places)
        if most[1] >= 0 and len(set(places)) > 1:
            received = handed(own, self.ranks, places.index(most))
            own = own if place == most else received
        elif place != most:
            own = None
        return own, most[0] > self._networks

    def _shrink(self, error: Exception, patience: timedelta) -> None:
        from brain_collectives import RankDied, Refused, shrink

        if isinstance(error, (TrainingError, CheckpointError)):
            raise error
        group, failure = self.ranks.group, None
        try:
            group.wire.check()      # what it says stands in the group, whatever was made of it on its way
        except RuntimeError as known:
            failure = known
        try:
            if isinstance(failure, Refused):
                raise failure
            if not isinstance(failure, RankDied):
                raise error
            group = shrink(timeout=patience)
        except Refused as refusal:
            raise LostRank(f"{str(refusal).partition(';')[0]}; this process ends, and writes nothing") from error
        before, self._members = self._members, tuple(group.wire.members)
        self.ranks = Ranks(exact=self.how.exact)
        assert self.how.plan is not None
        self.how = replace(self.how, plan=self.how.plan.scaled(self.ranks.size))
        dead = [rank for rank in before if rank not in self._members]
        self._decided(group.wire.epoch, before[0])
        self._untold += dead
        self._notes = (*self._notes, f"{_named(dead)} died on the way, which left {self.ranks.size} of {self._of}")
        if self.ranks.size < self.how.survivors:
            raise TrainingError(f"{_named(self._untold)} died, which leaves {self.ranks.size} of {self._of} ranks, "
                                f"fewer than --survivors {self.how.survivors}; go on from the last checkpoint with "
                                f"--resume")

    def _decided(self, epoch: int, first: int) -> None:
        """Writes down who goes on, and waits until nobody else can write what the first of them will."""
        own = json.dumps(self._members)
        if self._store.compare_set(decision(epoch), "", own).decode() != own:
            raise LostRank("the others went on without this rank, which stood still or was cut off for longer than the "
                           "lease; this process ends, and writes nothing")
        if self.ranks.rank == 0 and self._members[0] != first:
            self._store.wait([fence(epoch)], FENCED)

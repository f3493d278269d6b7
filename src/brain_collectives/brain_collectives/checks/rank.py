# SPDX-License-Identifier: Apache-2.0
"""Work of one rank: it runs each collective, compares what it is left with, measures, and tells of it.

All ranks do the same in the same order. After each first call they agree, through the store and not through what is
checked, on whether it worked for all, for none (then the backend does not have it), or for some (then all end).
"""
from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Callable, Iterable

import numpy as np

from brain_collectives.checks.compare import first_wrong
from brain_collectives.checks.row import BYTES, CHECKED, NOTHING, OBJECTS, SHOWN, Collective, Place, Values
from brain_collectives.checks.sizes import written

Tell = Callable[[dict[str, Any]], None]
BUDGET = 0.5        # s for the repetitions at one size
FEWEST = 5          # repetitions
MOST_BYTES = 2**26  # of all repetitions at one size
WARM_UP = 2         # repetitions that do not count
GRACE = 10.0        # s that a rank on which a call failed waits to hear whether it did on all
ROUNDING = 1e-6     # relative, of the small numbers that are shown


class RankProblem(RuntimeError):
    """This rank cannot go on; says why, in one line."""


class NotHere(RankProblem):
    """The backend, or what it runs on, is not there."""


@dataclass(frozen=True)
class Order:
    """Work for all ranks: rows, sizes and limits.

    Attributes:
        backend: of torch.distributed.
        names: of rows, in their order.
        sizes: bytes.
        repeats: most repetitions at one size.
        explain: show values instead of measuring.
        patience: s without progress, after which the whole is given up.
        more: rows beside the table's, each ``module:NAME``.
    """

    backend: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    repeats: int = 100
    explain: bool = False
    patience: float = 120.0
    more: tuple[str, ...] = ()

    def to_json(self) -> str:
        """As :meth:`from_json` reads it."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> Order:
        """Parses what :meth:`to_json` wrote."""
        said: dict[str, Any] = json.loads(text)
        return cls(**said | {name: tuple(said[name]) for name in ("names", "sizes", "more")})


def opened(order: Order, store: Any, rank: int, ranks: int, local_rank: int, timeout: float) -> Place:
    """Begins the group, and returns this rank's place in it.

    Raises:
        NotHere: the backend is not there, or there are not enough GPUs for it.
    """
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    # torch 2.13 has new names for the two functions on single tensors that are asked for by the old ones.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    if order.backend == "zenoh":
        import brain_collectives    # noqa: F401  # which registers it, now that torch is there
    if order.backend not in dist.Backend.backend_list:
        raise NotHere(f"no backend {order.backend} is registered with torch.distributed: this brain_collectives "
                      "has none; install one that has, or take another --backend")
    device = torch.device("cpu")
    if order.backend == "nccl":
        if not dist.is_nccl_available() or local_rank >= torch.cuda.device_count():
            raise NotHere(f"nccl needs a GPU for each rank, and there are {torch.cuda.device_count()} GPUs here that "
                          f"torch {torch.__version__} can use; take fewer --ranks, or --backend gloo")
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    dist.init_process_group(order.backend, store=dist.PrefixStore("group", store), rank=rank, world_size=ranks,
                            timeout=timedelta(seconds=timeout), device_id=device if device.type == "cuda" else None)
    return Place(rank, ranks, order.backend, torch, dist, device, order.patience)


class Agreement:
    """Messages between ranks through the store, beside the group that is checked."""

    def __init__(self, store: Any, rank: int, ranks: int, patience: float) -> None:
        self._store, self._rank, self._ranks, self._patience = store, rank, ranks, patience
        self._step = 0

    def of_all(self, mine: Any, patience: float | None = None) -> list[Any]:
        """Exchanges a value with all ranks, and returns those of all, in their order; all call it equally often.

        Raises:
            RankProblem: some rank did not say anything in time.
        """
        self._step += 1
        keys = [f"{self._step}/{rank}" for rank in range(self._ranks)]
        self._store.set(keys[self._rank], json.dumps(mine))
        try:
            self._store.wait(keys, timedelta(seconds=patience or self._patience))
        except Exception as error:      # of a store: several classes, by kind of store and version
            raise RankProblem(f"not every rank came as far: {' '.join(str(error).split())}") from error
        return [json.loads(self._store.get(key)) for key in keys]


class Rank:
    """Runs an order in one rank.

    Args:
        place: this rank's.
        store: of the group's rendezvous, for what is agreed on.
        order: what to do.
        tell: called with each thing that is found, plain values as JSON has them.
    """

    def __init__(self, place: Place, store: Any, order: Order, tell: Tell) -> None:
        self._place, self._order, self._tell = place, order, tell
        self._agree = Agreement(store, place.rank, place.ranks, order.patience)

    def run(self, rows: Iterable[Collective]) -> None:
        """Does all rows, one after the other.

        Raises:
            RankProblem: the group is of no use any more.
        """
        for row in rows:
            if self._place.ranks < row.least:
                self._tell({"kind": "lacks", "name": row.name, "words": f"it takes {row.least} ranks or more",
                            "needs_ranks": row.least})
            elif self._order.explain:
                self._explain(row)
            else:
                for size in [0] if row.unit == NOTHING else self._order.sizes:
                    if not self._at(row, size):
                        break

    def _at(self, row: Collective, size: int) -> bool:
        """Checks and measures a row at a size; whether the backend has it."""
        for number, count in enumerate(row.counts(size, self._place.ranks)):
            if not self._check(row, count):
                return False
            if number == 0:
                first, repetitions = count, self._repetitions(row, count)
        self._measure(row, first, repetitions)
        return True

    def _elements(self, row: Collective, count: int) -> str:
        if row.unit in (NOTHING, OBJECTS):
            return written(count) if count else "nothing"
        return f"{written(row.bytes(count, self._place.ranks))} ({count} elements)"

    def _made(self, row: Collective, values: Values, count: int) -> tuple[list[list[Any]], list[Any]]:
        """Makes the inputs of all ranks, and what this one gives: tensors where those are arrays."""
        has = [row.given(values, rank, self._place.ranks, count) for rank in range(self._place.ranks)]
        return has, [self._tensor(one) for one in has[self._place.rank]]

    def _tensor(self, one: Any) -> Any:
        return self._place.torch.tensor(one, device=self._place.device) if isinstance(one, np.ndarray) else one

    def _plain(self, left: list[Any]) -> list[Any]:
        return [one.cpu().numpy() if self._place.torch.is_tensor(one) else one for one in left]

    def _sync(self) -> None:
        if self._place.device.type == "cuda":
            self._place.torch.cuda.synchronize()

    def _first(self, row: Collective, what: str, run: Callable[[], None]) -> bool:
        """Runs a call that may not be there; whether it is.

        Raises:
            RankProblem: it failed on some ranks only.
        """
        self._tell({"kind": "at", "what": f"{row.name} of {what}"})
        words = None
        try:
            run()
            self._sync()
        except Exception as error:      # whatever a backend raises where it cannot
            words = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
        said = self._agree.of_all(None) if words is None else self._failed(row, what, words)
        if not any(said):
            return True
        if not all(said):
            failed = {rank: one for rank, one in enumerate(said) if one}
            raise RankProblem(f"{row.name} of {what} failed on rank {next(iter(failed))} and not on all: "
                              f"{next(iter(failed.values()))}")
        self._tell({"kind": "lacks", "name": row.name, "words": words})
        return False

    def _failed(self, row: Collective, what: str, words: str) -> list[Any]:
        try:
            return self._agree.of_all(words, GRACE)
        except RankProblem as problem:
            raise RankProblem(f"{row.name} of {what} failed here: {words}") from problem

    def _check(self, row: Collective, count: int) -> bool:
        has, given = self._made(row, CHECKED, count)
        run, found = row.bind(self._place, given)
        elements = self._elements(row, count)
        if not self._first(row, elements, run):
            return False
        wrong = first_wrong(row, has, self._place.rank, self._plain(found()))
        if wrong is not None:
            self._tell({"kind": "wrong", "name": row.name, "rank": self._place.rank, "elements": elements,
                        "bytes": row.bytes(count, self._place.ranks), **wrong})
        return True

    def _repetitions(self, row: Collective, count: int) -> int:
        """As many as size and the slowest rank's second call allow; the same on all ranks."""
        _, given = self._made(row, CHECKED, count)
        run, _ = row.bind(self._place, given)
        began = time.perf_counter()
        run()
        self._sync()
        slowest = max(self._agree.of_all(time.perf_counter() - began))
        fit = min(BUDGET / max(slowest, 1e-6), MOST_BYTES / max(row.bytes(count, self._place.ranks), BYTES))
        return max(min(FEWEST, self._order.repeats), min(self._order.repeats, int(fit)))

    def _measure(self, row: Collective, count: int, repetitions: int) -> None:
        """Times the row, all ranks beginning together each time, with the same inputs each time."""
        _, given = self._made(row, CHECKED, count)
        pristine = [one.clone() if self._place.torch.is_tensor(one) else one for one in given]
        run, _ = row.bind(self._place, given)
        times = []
        for _ in range(WARM_UP + repetitions):
            for one, before in zip(given, pristine):
                if self._place.torch.is_tensor(one):
                    one.copy_(before)       # sums of sums would grow until they are infinite
            self._place.dist.barrier()
            self._sync()
            began = time.perf_counter()
            run()
            self._sync()
            times.append(round(time.perf_counter() - began, 9))
        self._tell({"kind": "measured", "name": row.name, "bytes": row.bytes(count, self._place.ranks),
                    "elements": count, "times": times[WARM_UP:]})

    def _explain(self, row: Collective) -> None:
        has, given = self._made(row, SHOWN, row.shown(self._place.ranks))
        run, found = row.bind(self._place, given)
        before = [self._value(one) for one in self._plain(given)]   # the call may overwrite them
        self._agree.of_all(None)    # who comes when is part of what is shown: all begin together
        if not self._first(row, "small values", run):
            return
        left = self._plain(found())
        if row.unit != NOTHING:
            wrong = first_wrong(row, has, self._place.rank, left, 0.0 if row.unit == OBJECTS else ROUNDING)
            if wrong is not None:
                self._tell({"kind": "wrong", "name": row.name, "rank": self._place.rank, "elements": "small values",
                            "bytes": 0, **wrong})
        self._tell({"kind": "explained", "name": row.name, "rank": self._place.rank, "before": before,
                    "after": [self._value(one) for one in left]})
        if row.shows is not None:
            lines = row.shows(self._place)
            self._agree.of_all(None)    # who has nothing to do there waits for the others
            self._tell({"kind": "shown", "name": row.name, "rank": self._place.rank, "lines": lines})

    def _value(self, one: Any) -> Any:
        return [round(float(x), 6) for x in one] if isinstance(one, np.ndarray) else one

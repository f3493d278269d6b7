# SPDX-License-Identifier: Apache-2.0
"""Runs as one rank that something else has started, torchrun for instance, on one machine or on several."""
from __future__ import annotations

import json
import os
from typing import Any, Mapping

from brain_collectives.checks.local_rank import leave
from brain_collectives.checks.rank import Order, Rank, RankProblem, opened
from brain_collectives.checks.table import chosen, with_more


def given(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """Rank and number of ranks that RANK and WORLD_SIZE say; None where they say nothing.

    Raises:
        ValueError: they are no numbers that fit each other.
    """
    rank, ranks = environment.get("RANK"), environment.get("WORLD_SIZE")
    if rank is None or ranks is None:
        return None
    if not (rank.isdecimal() and ranks.isdecimal() and int(rank) < int(ranks)):
        raise ValueError(f"RANK={rank!r} and WORLD_SIZE={ranks!r} are no rank and number of ranks; unset both, or "
                         "start this by torchrun")
    return int(rank), int(ranks)


def run(order: Order, rank: int, ranks: int) -> tuple[str, list[list[dict[str, Any]]]]:
    """torch's version, and what each rank found; on a rank other than 0, only its own.

    Raises:
        RankProblem: this rank could not go on.
    """
    import torch
    import torch.distributed as dist

    mine: list[dict[str, Any]] = []
    try:
        store, _, _ = next(iter(dist.rendezvous("env://", rank, ranks)))
        place = opened(order, store, rank, ranks, int(os.environ.get("LOCAL_RANK", rank)), order.patience)
        Rank(place, dist.PrefixStore("agreed", store), order, lambda one: None if one["kind"] == "at" else
             mine.append(one)).run(chosen(order.names, with_more(order.more)))
        store.set(f"found/{rank}", json.dumps(mine, default=repr))
        found = [json.loads(store.get(f"found/{other}")) for other in range(ranks)] if rank == 0 else [mine]
        leave(dist, store, rank, ranks)
    except RankProblem:
        raise
    except Exception as error:      # whatever a rendezvous or a backend raises
        raise RankProblem(f"rank {rank}: {type(error).__name__}: {' '.join(str(error).split())}") from error
    return str(torch.__version__), found

# SPDX-License-Identifier: Apache-2.0
"""`brain bench collectives`: ratios of turns, and what survivors tell of a rank that is killed."""
from __future__ import annotations

import pytest

from brain_training.collective_ranks import Ranks
from experiments import collectives, rank_deaths


def test_a_ratio_is_that_of_the_two_medians_of_a_turn() -> None:
    sizes = {("all_reduce_sum", 200): (2.0, 3.0), ("barrier", 0): (1.0, 0.5)}
    turns = [{backend: {key: factor * both[n] for key, both in sizes.items()}
              for n, backend in enumerate(collectives.BACKENDS)} for factor in (1.0, 10.0, 4.0)]
    first, second = collectives.beside(turns)
    assert first == {"name": "all_reduce_sum", "bytes": 200, "gloo": 8.0, "zenoh": 12.0, "ratio": [1.5, 1.5, 1.5],
                     "goal": 1.2, "met": False}
    assert second["ratio"][0] == 0.5 and second["goal"] is second["met"] is None


def test_a_wrong_value_ends_it_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self):
        self.torch = "2"
        return [[{"kind": "wrong", "name": "broadcast", "rank": 1, "index": 3}]] * 2

    monkeypatch.setattr(Ranks, "run", run)
    with pytest.raises(collectives.Wrong, match="broadcast on gloo: .*'rank': 1"):
        next(collectives.turns(1, 2))


def test_a_death_counts_where_all_survivors_knew_it_in_time_by_name() -> None:
    def survivor(**other):
        return {"rank": 0, "named": [1], "words": "", "seen": 0.2, "on": 0.3} | other

    def row(*survivors):
        return {"collective": "barrier", "killed": 1, "survivors": survivors}

    told = rank_deaths.told([row(survivor(), survivor(seen=0.4)), row(survivor(), survivor(named=[2])),
                             row(survivor(seen=0.6), survivor()), row(survivor(on=2.5), survivor()),
                             row(survivor(named=[], on=None), survivor(named=[1, 2]))])
    assert told == {"kills": 5, "survivors": 10, "named": 7, "in_time": 1, "seen": {"median": 0.2, "longest": 0.6},
                    "on": {"median": 0.3, "longest": 2.5}}


@pytest.mark.extended
def test_survivors_name_the_rank_that_was_killed_and_go_on() -> None:
    (row,) = rank_deaths.deaths("zenoh", 1, seed=3)
    assert len(row["survivors"]) == rank_deaths.RANKS - 1
    for survivor in row["survivors"]:
        assert survivor["named"] == [row["killed"]] and f"rank {row['killed']} died" in survivor["words"]
        assert 0 < survivor["seen"] < survivor["on"]


@pytest.mark.extended
def test_a_group_that_does_not_come_about_is_told_with_what_it_wrote() -> None:
    with pytest.raises(rank_deaths.DeathsProblem, match="before all were there: .*nonsense"):
        next(rank_deaths.deaths("nonsense", 1, seed=0))

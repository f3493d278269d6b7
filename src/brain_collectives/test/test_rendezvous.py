# SPDX-License-Identifier: Apache-2.0
"""Ranks meet at a store, whatever an earlier group has left there. Ranks are threads here."""
from __future__ import annotations

import json
import threading
from dataclasses import asdict, replace
from datetime import timedelta

import pytest
import torch.distributed as dist

from brain_collectives.errors import CollectiveError, TooLate
from brain_collectives.rendezvous import exchange, new_place


def place():
    return new_place("peers", "127.0.0.1", "", False, 5.0, 1, 1000)


def meet(store, size, come=None, seconds=30.0, own=None, secrets=(None,) * 3):
    """What each rank got that came: all places, or its error."""
    found = {}

    def one(rank):
        try:
            found[rank] = exchange(store, rank, size, (own or {}).get(rank) or place(), timedelta(seconds=seconds),
                                   secrets[rank])
        except CollectiveError as error:
            found[rank] = error
    threads = [threading.Thread(target=one, args=(rank,)) for rank in (range(size) if come is None else come)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_ranks_find_each_other_again_and_again_at_the_same_store():
    store, before = dist.HashStore(), []
    for _ in range(3):
        found = meet(store, 3)
        assert found[0] == found[1] == found[2] and len(found[0]) == 3
        assert not {one.nonce for one in found[0]} & {one.nonce for one in before}
        before = found[0]


def test_what_is_left_of_a_group_that_never_met_is_not_taken():
    store, old, dead = dist.HashStore(), place(), place()
    meet(store, 3, come=(0, 1), seconds=0.2, own={0: old, 1: dead})
    found = meet(store, 3)
    assert found[0] == found[1] == found[2] and old not in found[0] and dead not in found[0]


@pytest.mark.parametrize(("come", "missing"), [((0, 1), (2,)), ((0,), (1, 2)), ((1, 2), (0,)), ((2,), (0,))])
def test_who_does_not_come_is_named_also_where_an_earlier_group_met(come, missing):
    store = dist.HashStore()
    for met in (False, True):
        for rank, error in meet(store, 3, come, seconds=1.0).items():
            assert isinstance(error, TooLate) and error.ranks == missing, (met, rank)
        meet(store, 3)


def test_ranks_that_are_set_up_otherwise_are_named():
    found = meet(dist.HashStore(), 2, own={1: replace(place(), large=2)})
    assert "rank 1 has BRAIN_COLLECTIVES_LARGE=2 where this rank has 1" in str(found[0])
    assert "rank 0 has BRAIN_COLLECTIVES_LARGE=1 where this rank has 2" in str(found[1])


def test_with_a_secret_only_ranks_that_have_it_meet():
    assert len(meet(dist.HashStore(), 3, secrets=("a" * 16,) * 3)[2]) == 3
    for secrets in (("a" * 16, "b" * 16), ("a" * 16, None), (None, "a" * 16)):
        found = meet(dist.HashStore(), 2, seconds=0.5, secrets=secrets)
        assert isinstance(found[0], CollectiveError) and isinstance(found[1], CollectiveError), secrets
        assert secrets[0] is None or "rank 1 wrote into the store" in str(found[0]) and "SECRET" in str(found[0])


def test_rank_0_believes_nobody_who_says_that_its_link_is_to_be_trusted():
    store, own = dist.HashStore(), place()

    def lie():
        store.wait(["zenoh/run"])
        run = store.get("zenoh/run").decode()
        for rank, said in enumerate((own, place())):
            store.set(f"zenoh/{run}/{rank}", json.dumps(asdict(replace(said, trusted=True))))
    liar = threading.Thread(target=lie)
    liar.start()
    found = meet(store, 2, come=(0,), own={0: own})[0]
    liar.join()
    assert found[0] == own and not found[0].trusted and found[1].trusted


def test_a_nonce_is_no_path_and_no_pattern_of_keys():
    for nonce in ("../../home/eve/socket", "*", "a" * 31 + "/"):
        found = meet(dist.HashStore(), 2, seconds=0.5, own={1: replace(place(), nonce=nonce)})
        assert "rank 1 wrote into the store does not read (its nonce is none)" in str(found[0])


@pytest.mark.parametrize("written", [b"[", b"[1, 2]", b"{}", b"[{}, {}]"])
def test_what_does_not_read_is_refused(written):
    store = dist.HashStore()
    store.set("zenoh/run", "r")
    timer = threading.Timer(0.3, lambda: store.set("zenoh/r/all", written))
    timer.start()
    error = meet(store, 2, come=(1,))[1]
    timer.join()
    assert isinstance(error, CollectiveError) and "does not read" in str(error)

# SPDX-License-Identifier: Apache-2.0
"""What needs no ranks: the table, sizes, inputs, and how values are compared."""
from __future__ import annotations

import numpy as np
import pytest

from brain_collectives.checks import report, results
from brain_collectives.checks.compare import first_wrong
from brain_collectives.checks.moves import splits
from brain_collectives.checks.row import CHECKED, hashed
from brain_collectives.checks.sizes import parse, written
from brain_collectives.checks.table import ROWS, chosen

KIB, MIB = 2**10, 2**20


@pytest.mark.parametrize(("text", "sizes"), [
    ("8B", [8]), ("8B,1KiB", [8, KIB]), (" 1.5KiB , 2MiB", [1536, 2 * MIB]), ("1GiB", [2**30]), ("8B,8B", [8]),
    ("8B..128B", [8, 32, 128]), ("8B..100B", [8, 32, 100]), ("4B..4B", [4]),
    ("8B..16MiB", [8 * 4**k for k in range(11)] + [16 * MIB])])
def test_sizes(text: str, sizes: list[int]) -> None:
    assert parse(text) == sizes


@pytest.mark.parametrize("text", ["", "8", "8b", "8 bytes", "1KB", "0B", "-8B", "8B..", "..8B", "1KiB..8B", "8B;1KiB",
                                  "2GiB", "8B,,1KiB", "0.5B", "1e3B", "8B..16B..32B", "nanB", "\u0668B"])
def test_sizes_that_are_none_are_told_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="--sizes takes a range as 8B..16MiB") as problem:
        parse(text)
    assert "KiB, MiB and GiB" in str(problem.value)


def test_sizes_are_written_as_they_are_read() -> None:
    assert [written(size) for size in (1, 8, 1000, 1024, 1536, 4092, 16 * MIB, 2**30)] == [
        "1 B", "8 B", "1000 B", "1 KiB", "1.5 KiB", "3.996 KiB", "16 MiB", "1 GiB"]


def test_every_collective_that_was_asked_for_is_there_once() -> None:
    assert [row.name for row in ROWS] == [
        "broadcast", "broadcast_object_list", "all_reduce_sum", "all_reduce_avg", "all_reduce_product",
        "all_reduce_min", "all_reduce_max", "all_reduce_async", "reduce", "all_gather", "all_gather_into_tensor",
        "gather", "all_gather_object", "gather_object", "scatter", "scatter_object_list", "reduce_scatter",
        "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "all_to_all_single_unequal", "send_recv",
        "isend_irecv", "batch_isend_irecv", "barrier", "monitored_barrier"]


def test_names_choose_a_row_or_all_of_its_kind() -> None:
    assert len(chosen([])) == len(ROWS) and len(chosen(["all_reduce"])) == 6
    assert [row.name for row in chosen(["send/recv", "ALL_REDUCE_MAX"])] == ["all_reduce_max", "send_recv"]
    with pytest.raises(ValueError, match="there is no collective 'reduse'; there are broadcast, .*monitored_barrier"):
        chosen(["reduse"])


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    factors = {row.name: row.factor.of(4) for row in ROWS if row.factor is not None}
    assert factors == {
        **dict.fromkeys([row.name for row in ROWS if row.of == "all_reduce"], 1.5),
        **dict.fromkeys(["all_gather", "all_gather_into_tensor", "gather", "scatter", "reduce_scatter",
                         "reduce_scatter_tensor", "all_to_all", "all_to_all_single"], 0.75),
        **dict.fromkeys(["broadcast", "reduce", "send_recv", "isend_irecv", "batch_isend_irecv"], 1.0)}
    assert all(row.no_factor for row in ROWS if row.factor is None)


def test_a_whole_tensor_is_checked_where_the_ranks_do_not_divide_it() -> None:
    (whole, shares) = chosen(["all_reduce_sum", "all_gather"])
    for ranks in (2, 3, 4, 7):
        for size in (4, 8, KIB, MIB):
            assert any(count % ranks for count in whole.counts(size, ranks))
            assert abs(shares.bytes(shares.counts(size, ranks)[0], ranks) - size) <= max(4 * ranks, size / 2)
    assert whole.counts(8, 1) == [2]


def test_inputs_differ_by_rank_and_index_and_add_up_exactly_in_float32() -> None:
    several = [CHECKED.numbers(rank, MIB) for rank in range(7)]
    total = np.sum([one.astype(np.float64) for one in several], axis=0)
    assert (total == np.sum(several, axis=0, dtype=np.float32)).all() and total.dtype == np.float64
    product = np.prod([CHECKED.powers(rank, 1000).astype(np.float64) for rank in range(64)], axis=0)
    assert (product == product.astype(np.float32)).all() and (product != 0).all()
    for far in (1, 64, 4096, 16384, 65536, MIB // 2):    # chunks that changed places would be seen
        assert (several[0][far:2 * far] != several[0][:far]).mean() > 0.99
    assert (hashed(0, MIB) != hashed(1, MIB)).mean() > 0.99


def test_unequal_splits_are_of_all_elements() -> None:
    for ranks in (1, 2, 3, 4, 7):
        for count in (1, 2, 10, 1001):
            parts = [splits(rank, ranks, count) for rank in range(ranks)]
            assert all(len(part) == ranks and sum(part) == count and min(part) >= 0 for part in parts)
            assert ranks == 1 or count < 10 or len({size for part in parts for size in part}) > 1


def test_a_value_is_compared_to_the_bit_or_within_what_rounding_allows() -> None:
    (total, mean) = chosen(["all_reduce_sum", "all_reduce_avg"])
    has = [[CHECKED.numbers(rank, 8)] for rank in range(3)]
    right = total.expected(has, 0)[0].astype(np.float32)
    assert first_wrong(total, has, 0, [right]) is None
    near = right.copy()
    near[3] = np.nextafter(near[3], np.float32(np.inf))
    wrong = first_wrong(total, has, 0, [near])
    assert wrong is not None and (wrong["index"], wrong["count"]) == (3, 1)
    lost = right.copy()
    lost[5:] = np.nan
    wrong = first_wrong(total, has, 0, [lost])
    assert wrong is not None and (wrong["index"], wrong["count"]) == (5, 3) and wrong["found"] == "nan"
    wrong = first_wrong(total, has, 0, [])
    assert wrong is not None and wrong["found"] == "0 outputs"
    mine = (right / np.float32(3)).astype(np.float32)
    assert first_wrong(mean, has, 0, [mine]) is None
    assert first_wrong(mean, has, 0, [mine + np.float32(0.01)]) is not None


def test_each_repetition_takes_as_long_as_its_slowest_rank() -> None:
    (total, hops) = chosen(["all_reduce_sum", "send_recv"])

    def told(name: str, times: list[float]) -> dict:
        return {"kind": "measured", "name": name, "bytes": 8000, "elements": 2000, "times": times}

    found = [[told(row.name, times) for row in (total, hops)] for times in ([1.0, 4.0, 2.0], [3.0, 1.0, 2.0])]
    (one,) = results.timed(total, found, 1.0)
    assert (one["median"], one["repetitions"], one["algorithm_bandwidth"]) == (3.0, 3, 8000 / 3.0)
    assert 3.9 < one["p99"] <= 4.0
    assert results.timed(hops, found, 1.0)[0]["median"] == 1.5      # of two hops


def test_what_is_not_there_keeps_its_row() -> None:
    (row,) = chosen(["monitored_barrier"])
    lacks = [[{"kind": "lacks", "name": row.name, "words": "ValueError: only gloo"}]] * 2
    figures = results.together([row], lacks, "nccl", "2", [8])
    assert figures["right"] and figures["collectives"][0]["lacks"] == "ValueError: only gloo"
    assert not results.together([row], lacks, "zenoh", "2", [8])["right"], "zenoh has one"
    cells = [list(column.cells) for column in report.table({**figures, "mpi": None}).columns]
    assert cells[0] == ["monitored_barrier"] and cells[-1] == ["not on nccl: ValueError: only gloo"]
    assert "not on nccl: ValueError: only gloo" in "\n".join(report.explanation(
        results.explained(row, lacks, "nccl")))


def test_values_stand_side_by_side_where_they_fit() -> None:
    def told(count: int) -> list[str]:
        ranks = [{"rank": rank, "before": [[0.5] * count], "after": [[1.0] * count]} for rank in range(2)]
        return report.explanation({
            "name": "x", "does": "Does.", "more": None, "bus_factor": "1", "no_bus_factor": None, "lacks": None,
            "backend": "gloo", "ranks": ranks, "shown": [], "wrong": []})

    assert told(1)[-2:] == ["  0     [0.50]    [1.00]", "  1     [0.50]    [1.00]"]
    many = told(40)
    assert max(map(len, many)) <= 100 and sum("after" in line for line in many) == 2
    assert sum(line.count("0.50") for line in many) == sum(line.count("1.00") for line in many) == 80


def test_figures_are_short() -> None:
    assert [report.duration(x) for x in (2.0, 0.0123, 3.456e-5)] == ["2 s", "12.3 ms", "34.6 us"]
    assert [report.bandwidth(x) for x in (None, 1.234e4, 5.5e7, 1.2345e10)] == ["-", "0.0123", "55", "12,345"]
    assert report.values([[0.01, 13.125], [2.0]]) == "[0.01 13.125]  [2.00]" and report.values([]) == "-"

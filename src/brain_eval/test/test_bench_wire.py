# SPDX-License-Identifier: Apache-2.0
"""Blocks of round trips by turns, over a link that drops some."""
import pytest

from brain_eval.bench.experiment import Problem
from brain_eval.bench.wire import AGAIN, BLOCK, DORA, WARM_UP, Wire, by_turns, rate, share, shares
from brain_runtime.contract.declared import named


class Side:
    """Answers whole blocks, after those that it loses."""

    def __init__(self, lost):
        self.lost, self.asked = lost, 0

    def block(self, size, count):
        self.asked += 1
        return [] if self.asked <= self.lost else [0.001 * size] * count


def test_what_was_dropped_is_measured_again_on_both_sides_and_the_first_of_a_block_only_warm_up():
    well, busy = Side(0), Side(3)
    times = {well: [], busy: []}
    assert list(by_turns(times, "2 B", 2, 2)) == [1, 2, 3, 4]
    assert well.asked == busy.asked == 4
    assert len(times[well]) == 4 * len(times[busy]) and set(times[busy]) == {0.002}
    assert len(times[busy]) == len(Side(0).block(2, WARM_UP + len(times[busy]))) - WARM_UP


def test_no_more_is_measured_than_was_asked_for_where_enough_came_back():
    times = {Side(0): [], Side(1): []}
    assert list(by_turns(times, "2 B", 2, 2)) == [1, 2]


def test_a_link_that_drops_everything_is_told():
    dead = Side(100)
    with pytest.raises(TimeoutError, match="no round trip of 1 MiB came back"):
        list(by_turns({Side(0): [], dead: []}, "1 MiB", 2, 1))
    assert dead.asked == 1 + AGAIN


def test_two_sides_are_compared_block_by_block():
    # A slow spell of the machine, in which both take ten times as long, does not count.
    ours, other = [0.2] * BLOCK + [2.0] * BLOCK + [0.2] * BLOCK, [0.4] * BLOCK + [4.0] * BLOCK + [0.4] * BLOCK
    one = share("200 B", "dora", ours, other)
    assert (one.ours, one.other, one.share) == (0.2, 0.4, 0.5)
    one.ours_rate, one.other_rate, one.share_rate = 30.0, 20.0, 1.5
    (row,) = shares([one]).rows
    assert list(row)[0] == "200 B" and "0.50" in row and "1.50" in row


def test_a_rate_is_of_what_came():
    assert rate({"sent": 9, "n": 5, "took": 2.0}) == 2.0
    assert rate({"sent": 9, "n": 1, "took": 0.0}) == 0.0


def test_dora_is_not_installed_where_nobody_asks_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Problem, match="dora is not installed here"):
        named(DORA, "the test")(tmp_path, False)
    told, wire = [], Wire()
    wire.log = told.append
    with wire._dora(tmp_path, None) as other:
        assert other is None
    assert "bare zenoh" in told[0] and "--dora" in told[0] and not list(tmp_path.glob("brain/libraries/*"))

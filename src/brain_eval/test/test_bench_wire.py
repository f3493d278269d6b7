# SPDX-License-Identifier: Apache-2.0
"""Blocks of round trips by turns, over a link that drops some."""
import pytest

from brain_eval.bench.wire import AGAIN, WARM_UP, by_turns


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

# SPDX-License-Identifier: Apache-2.0
"""A list of cases as one test: it tells of each that is wrong, and is skipped only where all are."""
import pytest

from brain_tests.cases import of_all


def test_each_wrong_case_is_told_of():
    @of_all(["a", "b", "c", "d"])
    def check(case):
        if case == "a":
            pytest.fail("not raised")
        assert case != "c", "not so"

    with pytest.raises(AssertionError, match="a: Failed: not raised\nc: AssertionError: not so"):
        check()


def test_no_case_is_no_success():
    with pytest.raises(AssertionError):
        of_all([])(print)()


def test_skipped_are_left_out():
    @of_all([1, 2])
    def one(case):
        if case == 1:
            pytest.skip("not here")

    @of_all([1, 2])
    def both(_):
        pytest.skip("not here")

    one()
    with pytest.raises(pytest.skip.Exception, match="^not here$"):
        both()

# SPDX-License-Identifier: Apache-2.0
"""Lists of cases as one test, so that the number of tests says something."""
from __future__ import annotations

import functools
from typing import Any, Callable, Iterable

import pytest


def of_all(cases: Iterable[Any]) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Makes one test of a check of one case: it checks every case of the list, and tells of each that is wrong.

    A case that the check skips is left out; where it skips all, so is the test.
    """
    cases = list(cases)

    def over(check: Callable[[Any], None]) -> Callable[[], None]:
        @functools.wraps(check)
        def test() -> None:
            wrong, skipped = {}, {}
            for case in cases:
                try:
                    check(case)
                except pytest.skip.Exception as reason:
                    skipped[case] = str(reason)
                except (Exception, pytest.fail.Exception) as error:     # whatever a check of one case meets
                    wrong[case] = f"{type(error).__name__}: {error}"
            assert cases and not wrong, "\n".join(f"{case}: {why}" for case, why in wrong.items())
            if len(skipped) == len(cases):
                pytest.skip("; ".join(sorted(set(skipped.values()))))

        del test.__wrapped__    # type: ignore[attr-defined] # pytest would ask for what the check takes
        return test

    return over

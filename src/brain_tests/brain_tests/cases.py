# SPDX-License-Identifier: Apache-2.0
"""Lists of cases as one test, so that the number of tests says something."""
from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Iterable

import pytest


def of_all(cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes one test of a check of one case: it checks every case of the list, and tells of each that is wrong.

    The check takes the case first; what else it takes are fixtures, which all cases share. A case that the check skips
    is left out; where it skips all, so is the test.
    """
    cases = list(cases)

    def over(check: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            wrong, skipped = [], []
            for case in cases:
                try:
                    check(case, **fixtures)
                except pytest.skip.Exception as reason:
                    skipped.append(str(reason))
                except (Exception, pytest.fail.Exception) as error:     # whatever a check of one case meets
                    wrong.append(f"{case}: {type(error).__name__}: {error}")
            assert cases and not wrong, "\n".join(wrong)
            if len(skipped) == len(cases):
                pytest.skip("; ".join(sorted(set(skipped))))

        del test.__wrapped__    # type: ignore[attr-defined] # pytest would ask for the case too
        _, *more = inspect.signature(check).parameters.values()
        test.__signature__ = inspect.Signature(more)    # type: ignore[attr-defined]
        return test

    return over

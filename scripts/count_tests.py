# SPDX-License-Identifier: Apache-2.0
"""Fail if `colcon test-result` counts fewer tests of a package than pytest said that it ran.

A result file that is lost, or that colcon does not find, would otherwise look like a success.

    colcon test-result --all --test-result-base BUILD | python count_tests.py LOG

LOG is colcon's log folder of the run (``log/latest_test``): each package's ``stdout.log`` ends with pytest's own count.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

RAN = re.compile(r"(\d+) (?:passed|failed|skipped|xfailed|xpassed|errors?)\b")
LAST_LINE = re.compile(r"\d+ \w+.* in [\d.]+s\b")
COUNTED = re.compile(r"^(?:.*/)?(?P<package>\w+)/[\w.]+\.xml: (?P<tests>\d+) tests?,", re.M)


def ran(logs: Path) -> dict[str, int]:
    """Return how many tests pytest ran, by package, from the last lines of their logs."""
    found = {}
    for log in sorted(logs.glob("*/stdout.log")):
        text = log.read_text(encoding="utf-8", errors="replace")
        ends = [line for line in text.splitlines() if LAST_LINE.search(line)]
        if ends and RAN.search(ends[-1]):
            found[log.parent.name] = sum(map(int, RAN.findall(ends[-1])))
    return found


def counted(results: str) -> dict[str, int]:
    """Return how many tests `colcon test-result --all` counts, by package."""
    found: dict[str, int] = {}
    for match in COUNTED.finditer(results):
        found[match["package"]] = found.get(match["package"], 0) + int(match["tests"])
    return found


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    pytest, colcon = ran(Path(sys.argv[1])), counted(sys.stdin.read())
    lost = {package: tests for package, tests in pytest.items() if colcon.get(package, 0) < tests}
    for package, tests in lost.items():
        print(f"brain: pytest ran {tests} tests of {package}, colcon test-result counts {colcon.get(package, 0)}",
              file=sys.stderr)
    if not pytest:
        print(f"brain: no package's log in {sys.argv[1]} ends with a count of pytest's", file=sys.stderr)
    if lost or not pytest:
        return 1
    print(f"pytest ran {sum(pytest.values())} tests, colcon test-result counts {sum(colcon.values())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""How tests run side by side: what is to run alone comes last and alone; and where the time of a run went.

Without pytest-xdist, as under colcon, tests run one after the other, in pytest's order.
"""
from __future__ import annotations

import fcntl
import os
from typing import Iterator

import pytest

# What run_tests.sh has measured of the parts before this one: "name seconds, name seconds".
BEFORE = "BRAIN_TESTS_BEFORE"
# Beside test/ros: the linters of ROS, and what reads the files that a package installs.
THERE = ("test_style.py", "test_launching.py", "test_robots.py")
seconds = {"side by side": 0.0, "alone": 0.0}


def is_worker(config: pytest.Config) -> bool:
    """Whether this is a worker of pytest-xdist; a pytest that a worker's test starts is none, though it looks so."""
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    """Makes the folder of the lock, where there are workers; else nothing is left in the tree."""
    if is_worker(config):
        (config.rootpath / ".pytest_cache").mkdir(exist_ok=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what is known by its place, groups what shares a worker, and moves what runs alone to the end."""
    for item in items:
        if item.path.name in THERE or item.path.parts[-3:-1] == ("test", "ros"):
            item.add_marker(pytest.mark.colcon)
        if item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.xdist_group("alone"))
        elif item.get_closest_marker("slow"):   # its module may have fixtures that take a minute to make
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    if is_worker(config):
        items.sort(key=lambda item: item.get_closest_marker("alone") is not None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Holds a test that is to be alone until the other workers' have ended, and them until it has."""
    if not is_worker(item.config):
        return (yield)
    # The lock is of the checkout: a second run in it is held too.
    with (item.config.rootpath / ".pytest_cache" / "alone.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds up how long tests took."""
    seconds["alone" if "alone" in report.keywords else "side by side"] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says in a line per part where the time went, before pytest's own last line."""
    if is_worker(terminalreporter.config) or BEFORE not in os.environ:
        return
    for part in filter(None, os.environ[BEFORE].split(", ")):
        name, _, took = part.rpartition(" ")
        terminalreporter.write_line(f"brain: {name}: {took} s")
    for name, took in seconds.items():
        terminalreporter.write_line(f"brain: tests {name}: {took:.0f} s, added up")

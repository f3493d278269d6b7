# SPDX-License-Identifier: Apache-2.0
"""How tests run side by side: what takes long first, what is to run alone last and alone; and where the time went.

Without pytest-xdist, as under colcon, tests run one after the other, in pytest's order.
"""
from __future__ import annotations

import fcntl
import signal
import time
from typing import Iterator

import pytest

# Beside test/ros: the linters of ROS, and what reads the files that a package installs.
THERE = ("test_style.py", "test_launching.py", "test_robots.py")
BEGAN = time.monotonic()
seconds = {"side by side": 0.0, "alone": 0.0}


def is_worker(config: pytest.Config) -> bool:
    """Whether this is a worker of pytest-xdist; a pytest that a worker's test starts is none, though it looks so."""
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    """Makes the folder of the lock, where there are workers; else nothing is left in the tree.

    What is started by ``nohup``, or in the background of a script, is deaf to SIGHUP or SIGINT, and so would be all
    that the tests start, and end by these.
    """
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    if is_worker(config):
        (config.rootpath / ".pytest_cache").mkdir(exist_ok=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks what is known by its place."""
    if item.path.name in THERE or item.path.parts[-3:-1] == ("test", "ros"):
        item.add_marker(pytest.mark.colcon)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts modules in order where they run side by side."""
    if is_worker(config):
        items[:] = in_order(items)


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Modules that take long first, so that none of them is left for the end; those with what runs alone last.

    The first of them takes turns with the last: side by side there is then seldom a brain, which waits for real time,
    with another brain, and a training with another training.
    """
    modules: dict[object, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)

    def has(module: list[pytest.Item], mark: str) -> bool:
        return any(item.get_closest_marker(mark) for item in module)

    long = [module for module in modules.values() if has(module, "slow") and not has(module, "alone")]
    turns = [long.pop(-1 if number % 2 else 0) for number in range(len(long))]
    fast = [module for module in modules.values() if not has(module, "slow") and not has(module, "alone")]
    alone = [module for module in modules.values() if has(module, "alone")]
    return [item for module in (*turns, *fast, *alone) for item in module]


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says in a line per part where the time went, before pytest's own last line."""
    workers = config.getoption("numprocesses", default=None)
    if is_worker(config) or not workers:
        return
    for name, took in seconds.items():
        terminalreporter.write_line(f"brain: tests {name}: {took:.0f} s, added up")
    terminalreporter.write_line(
        f"brain: tests from the sources: {time.monotonic() - BEGAN:.0f} s with {workers} side by side")

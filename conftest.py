# SPDX-License-Identifier: Apache-2.0
"""Choice and order of the tests: what takes long first, what is to run alone last and alone; and where the time went.

Without pytest-xdist, as under colcon, tests run one after the other, in pytest's order.
"""
from __future__ import annotations

import fcntl
import hashlib
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

# Beside test/ros: the linters of ROS, and what reads the files that a package installs.
THERE = ("test_style.py", "test_launching.py", "test_robots.py")
# Modules that start whole brains, of a dozen processes each: one worker has all those of the sources, and the part
# under colcon takes turns with it, module by module. Two brains on two cores starve each other.
BRAINS = ("test_e2e_", "test_added_region", "test_incremental", "test_launch.py", "test_robot_install",
          "test_ros_bench", "test_ros_brain")
# These start one too, but wait for the end with what runs alone: nobody is to wait for them.
ALONE = ("test_e2e_hostile", "test_e2e_one_process")
SLOW = 10.0         # s that a module with slow tests is taken to last where nothing is kept of it
# Modules which a server imports that forks processes for a package's tests, within milliseconds and not seconds; by
# names that are installed, since it does not have a test's sys.path, and would go on without a word. It does nothing
# but import: where it forks no thread runs and no session is open.
FORKED = {
    "brain_collectives": ("torch", "brain_collectives.backend", "brain_collectives.shrinking", "brain_wire.router"),
    "brain_cloud": ("brain_cloud.processes.run_cloud", "brain_edge.processes.run_edge", "brain_runtime.process",
                    "brain_wire.router"),
    "brain_runtime": ("brain_runtime.process", "brain_wire.router"),
    # ros_process where there is a ROS
    "brain_tests": ("torch", "brain_collectives.shard_process", "brain_collectives.torch_process",
                    "brain_runtime.process", "brain_runtime.ros_process"),
    "brain_training": ("torch", "brain_training.process_pool", "brain_training.language", "brain_training.motor",
                       "brain_training.parallel.mesh_trainer", "brain_training.parallel.pipeline_stage",
                       "brain_training.parallel.pipeline_trainer", "brain_training.parallel.tensor_trainer",
                       "brain_training.parallel.zero", "brain_training.parameter_server.command",
                       "brain_training.parameter_server.together", "brain_training.vision",
                       "safetensors.torch", "torch.distributed.optim"),
}
BEGAN = time.monotonic()
seconds = {"side by side": 0.0, "alone": 0.0}
durations: dict[str, float] = {}    # of each test (s), its cases added up
processor: dict[str, float] = {}    # time (s) of it that each test took, and what it started and waited for
passed: list[str] = []
LISTED = 0.1        # s from which on a test has a line of its own in what is kept of durations
MORE = 0.02         # share of all durations that new tests may add without a word
# Minutes after which what has not begun is left for the next piece, which goes on there; empty: all is run at once.
PIECE = os.environ.get("BRAIN_TEST_PIECE", "")
LEFT = "left for the next piece"


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
    if is_worker(config) or takes_turns():
        (config.rootpath / ".pytest_cache").mkdir(exist_ok=True)


def takes_turns() -> bool:
    """Tells whether another part may start brains meanwhile: scripts/run_tests.sh says so."""
    return "BRAIN_TEST_TURNS" in os.environ


def for_colcon(path: Path) -> bool:
    """Whether all tests of a file are for the part under colcon, as is known by its place."""
    return path.name in THERE or path.parts[-3:-1] == ("test", "ros")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out of the part under colcon the files that have nothing for it: importing them takes minutes."""
    if config.getoption("markexpr") != "colcon" or not collection_path.name.startswith("test_") \
            or collection_path.suffix != ".py" or for_colcon(collection_path):
        return None
    return True if "mark.colcon" not in collection_path.read_text(encoding="utf-8") else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks what is known by its place."""
    if for_colcon(item.path):
        item.add_marker(pytest.mark.colcon)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is extended where nobody asked for it; puts modules in order where they run side by side."""
    if not os.environ.get("BRAIN_TEST_EXTENDED"):
        config.hook.pytest_deselected(items=[item for item in items if is_extended(item)])
        items[:] = [item for item in items if not is_extended(item)]
    if PIECE:
        done = set(passed_before(config.rootpath))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
        items[:] = [item for item in items if item.nodeid not in done]
    if is_worker(config):
        items[:] = in_order(items, lasted(config.rootpath))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tells the server that forks, of which a process has one, what it is to import once a test wants it."""
    packages = {part for item in session.items for part in item.path.parts} & FORKED.keys()
    multiprocessing.set_forkserver_preload([name for package in sorted(packages) for name in FORKED[package]])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives a module to one worker, and to one all modules that start brains."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "brains" if starts_brains(file.rpartition("/")[2]) else file

    return Scheduling(config, log)


def passed_before(root: Path) -> list[str]:
    """Tests that have passed in earlier pieces, on the same sources."""
    try:
        found = json.loads((root / ".pytest_cache" / "pieces.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return found["passed"] if found["sources"] == sources(root) else []


def sources(root: Path) -> str:
    """Names a commit, and what was changed since."""
    found = hashlib.sha256()
    for words in (["rev-parse", "HEAD"], ["diff", "HEAD"]):
        found.update(subprocess.run(["git", *words], cwd=root, capture_output=True, check=False).stdout)
    return found.hexdigest()


def starts_brains(name: str) -> bool:
    """Tells whether a module of tests, by its file's name, is one of :data:`BRAINS`."""
    return name.startswith(BRAINS) and not name.startswith(ALONE)


def is_extended(item: pytest.Item) -> bool:
    """Whether only `make nightly` runs it: it, or this one of its cases, is marked ``extended``.

    A mark with values is of the cases that have one of them as a parameter.
    """
    cases = getattr(getattr(item, "callspec", None), "params", {}).values()
    return any(not mark.args or any(case == value for value in mark.args for case in cases)
               for mark in item.iter_markers("extended"))


def lasted(root: Path) -> dict[str, float]:
    """Reads how long each module took when ``results/tests.json`` was saved (s), by its path from the root."""
    try:
        tests = json.loads((root / "results" / "tests.json").read_text(encoding="utf-8"))["figures"]["tests"]
    except FileNotFoundError:
        return {}
    found: dict[str, float] = {}
    for test, took in tests.items():
        module = test.partition("::")[0]
        found[module] = found.get(module, 0.0) + took
    return found


def in_order(items: list[pytest.Item], before: dict[str, float]) -> list[pytest.Item]:
    """Modules that start brains first, then what takes longest, so that none is left for the end; alone is last."""
    modules: dict[Path, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)

    def has(module: list[pytest.Item], mark: str) -> bool:
        return any(item.get_closest_marker(mark) for item in module)

    def turn(path: Path) -> tuple[bool, bool, float]:
        module = modules[path]
        took = before.get(module[0].nodeid.partition("::")[0], SLOW if has(module, "slow") else 0.0)
        return has(module, "alone"), not starts_brains(path.name), -took

    return [item for path in sorted(modules, key=turn) for item in modules[path]]


class Turn:
    """Lock of the checkout, so that a second run in it, and the other part of this one, are held too."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock: Any = None

    def begins(self, item: pytest.Item, how: int = fcntl.LOCK_EX) -> None:
        """Waits until nobody has the lock who keeps this test from beginning, unless it has it from the one before."""
        if self._lock is None:
            self._lock = (item.config.rootpath / ".pytest_cache" / f"{self._name}.lock").open("w")
            fcntl.flock(self._lock, how)

    def ends(self) -> None:
        """Lets others have their turn."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


brains_turn = Turn("brains")    # of a module that starts brains, beside the other part
alone_turn = Turn("alone")      # of a test, or of those of a module that are to run alone, which may share a brain


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Holds a test that is to be alone until the other workers' have ended, and them until it has.

    Modules that start brains wait for their turn.
    """
    alone = [one is not None and one.path == item.path and one.get_closest_marker("alone") for one in (item, nextitem)]
    if takes_turns() and starts_brains(item.path.name):
        brains_turn.begins(item)
    if is_worker(item.config):
        alone_turn.begins(item, fcntl.LOCK_EX if alone[0] else fcntl.LOCK_SH)
    try:
        return (yield)
    finally:
        if not all(alone):
            alone_turn.ends()
        if nextitem is None or nextitem.path != item.path:
            brains_turn.ends()


def used() -> float:
    """Processor time (s) of this process, and of the children that have ended."""
    return sum(found.ru_utime + found.ru_stime
               for found in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


began = pytest.StashKey[float]()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Notes the processor's time, which the report of the test's end takes along."""
    item.user_properties.append(("processor", used() - item.stash[began]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves a test for the next piece where this one is over."""
    item.stash[began] = used()
    if PIECE and time.monotonic() - BEGAN > 60.0 * float(PIECE):
        pytest.skip(LEFT)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds up how long tests took, and keeps which have passed."""
    if report.when == "call" and not report.failed or report.skipped and LEFT not in str(report.longrepr):
        passed.append(report.nodeid)
    seconds["alone" if "alone" in report.keywords else "side by side"] += report.duration
    test = report.nodeid.partition("[")[0]
    durations[test] = durations.get(test, 0.0) + report.duration
    if report.when == "teardown":
        processor[test] = processor.get(test, 0.0) + dict(report.user_properties).get("processor", 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says in a line per part where the time went, before pytest's own last line."""
    workers = config.getoption("numprocesses", default=None)
    if is_worker(config) or not workers:
        return
    if PIECE:
        stats = terminalreporter.stats
        left = sum(LEFT in str(report.longrepr) for report in stats.get("skipped", ()))
        failed = len([*stats.get("failed", ()), *stats.get("error", ())])
        terminalreporter.write_line(piece_ended(config.rootpath, failed, left))
    for line in kept(config.rootpath):
        terminalreporter.write_line(line)
    for name, took in seconds.items():
        terminalreporter.write_line(f"brain: tests {name}: {took:.0f} s, added up")
    terminalreporter.write_line(
        f"brain: tests from the sources: {time.monotonic() - BEGAN:.0f} s with {workers} side by side")


def piece_ended(root: Path, failed: int, left: int) -> str:
    """Keeps what has passed for the next piece, or forgets it after the last one; says which."""
    path = root / ".pytest_cache" / "pieces.json"
    if not failed and not left:
        path.unlink(missing_ok=True)
        return "brain: that was the last piece"
    path.write_text(json.dumps({"sources": sources(root), "passed": [*passed_before(root), *passed]}), encoding="utf-8")
    return f"brain: {left} tests are left for the next piece, and {failed} have failed: the same command goes on there"


def kept(root: Path) -> list[str]:
    """Keeps the durations, and says what new tests add to those of ``results/tests.json``.

    They go to ``.pytest_cache/tests.json``, and with ``BRAIN_TEST_SAVE=1`` to ``results/tests.json`` too. What this
    machine was busy with meanwhile changes them, so that tests which were there before are not compared.
    """
    found: dict[str, float] = {}
    for test, took in durations.items():
        name = test if took >= LISTED else f"{test.partition('::')[0]}::(shorter ones)"
        found[name] = round(found.get(name, 0.0) + took, 2)
    figures = {"seconds": round(sum(durations.values()), 1), "tests": dict(sorted(found.items())),
               "processor_seconds": round(sum(processor.values()), 1),
               "processor": {test: round(took, 1) for test, took in sorted(processor.items()) if took >= 1.0}}
    (root / ".pytest_cache").mkdir(exist_ok=True)
    (root / ".pytest_cache" / "tests.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    path = root / "results" / "tests.json"
    if os.environ.get("BRAIN_TEST_SAVE"):
        from brain_eval import saved     # as all that is in that folder

        about = {"name": "tests", **saved.provenance(), "command": "BRAIN_TEST_SAVE=1 make test", "seeds": {}}
        path.write_text(json.dumps({**about, "figures": figures}, indent=1) + "\n", encoding="utf-8")
    if not path.is_file() or os.environ.get("BRAIN_TEST_EXTENDED"):     # what is extended has none
        return []
    before = json.loads(path.read_text(encoding="utf-8"))["figures"]
    new = {name: took for name, took in found.items() if name not in before["tests"] and "(" not in name}
    if sum(new.values()) <= MORE * before["seconds"]:
        return []
    slowest = ", ".join(sorted(new, key=lambda name: -new[name])[:5])
    return [f"brain: new tests take {sum(new.values()):.0f} s, {100 * sum(new.values()) / before['seconds']:.1f} % of "
            f"what all took before: {slowest}"]

# SPDX-License-Identifier: Apache-2.0
"""Changes the code on purpose, a place at a time, and tells which changes no test notices. Run before a release.

    .venv/bin/python scripts/mutate.py [MODULE ...] [--jobs N] [--limit-minutes M] [--list]

Of each module in :data:`MODULES` it takes operators, comparisons, numbers, conditions, signs, min and max, and
statements that are only there for what they do (see scripts/mutations.py); for the safety path all of them, of the
others a number that are drawn by seed. Texts for people (what is raised or logged) stay as they are. For each it runs
the tests that can see that module. One that no test notices must stand in :data:`ARGUED`, with the reason why no test
can or should.

A server that has loaded what the tests need, but nothing that imports the module, forks for each mutant; there, and in
each Python that its tests start, an import hook gives the module's mutated code. So no file is ever changed, and a
mutant costs its tests alone. (mutmut and cosmic-ray write mutants to files, and either leave what is outside functions
alone or start Python for each; none draws by seed.)

Results are kept in runs/mutations.jsonl, and a run goes on where the last one ended: a kill stands as long as the
module and the test that noticed are as they were, a survivor as long as the module and its tests are.
Exit status: 1: survivors that are not argued, or arguments for what is no more; 2: not all was run.
"""
from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import importlib.abc
import json
import marshal
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutations import Mutation, mutations

ROOT = Path(__file__).resolve().parents[1]
ARGUED = ROOT / "scripts/mutate_argued.json"
RESULTS = ROOT / "runs/mutations.jsonl"
SEED = 1
MEMORY = 16 << 30       # bytes of addresses; torch takes most of them
SLOWEST = 5, 60         # s of the processor and of the clock that a mutant gets beyond a multiple of a run without it


@dataclass
class Module:
    """Module to mutate, with the tests that see its mutations.

    Attributes:
        files: patterns of sources, below src.
        tests: patterns of test files, below src, in the order in which they are run; :data:`PAGES` comes last for
            what is inside a function.
        number: of mutations; None: all.
        marks: pytest's ``-m``.
        code: texts in it are lines of code.
    """

    files: tuple[str, ...]
    tests: tuple[str, ...]
    number: int | None = 60
    marks: str = "not slow and not alone and not extended"
    code: bool = False

    def paths(self, patterns: tuple[str, ...]) -> list[Path]:
        """Files of some patterns, in their order."""
        found = [sorted((ROOT / "src").glob(pattern)) for pattern in patterns]
        if not all(found):
            raise SystemExit(f"no file is there for one of {', '.join(patterns)}")
        return [path for paths in found for path in paths]


REGIONS, RUNTIME, EDGE, CLOUD, TRAINING = (f"brain_{name}/test/test_" for name in (
    "regions", "runtime", "edge", "cloud", "training"))
PAGES = "brain_tests/test/test_reference.py"    # holds defaults and limits of parameters
MODULES = {
    "brainstem": Module(("brain_regions/brain_regions/brainstem.py", "brain_regions/brain_regions/obedience.py"),
                        (PAGES, REGIONS + "brainstem.py", REGIONS + "obedience.py", REGIONS + "scan_watch.py"),
                        None),
    "azimuth": Module(("brain_r*/brain_r*/**/azimuth.py",), (REGIONS + "azimuth.py", REGIONS + "pfc_heading.py"), None),
    "cdr": Module(("brain_wire/brain_wire/cdr.py",), (RUNTIME + "messages.py", "brain_tests/test/test_wire_vectors.py"),
                  None, code=True),
    "energy": Module(("brain_runtime/brain_runtime/contract/energy.py",), (PAGES, RUNTIME + "energy.py")),
    "snapshot": Module(("brain_runtime/brain_runtime/contract/snapshot.py",),
                       (RUNTIME + "snapshot.py", "brain_tests/test/test_fuzz_files.py")),
    "inbox": Module(("brain_runtime/brain_runtime/contract/inbox.py",),
                    (RUNTIME + "inbox.py", RUNTIME + "local_host.py")),
    "goals": Module(("brain_regions/brain_regions/goals.py",), (PAGES, REGIONS + "goals.py")),
    "fleet messages": Module((
        "brain_edge/brain_edge/messages/*.py", "brain_cloud/brain_cloud/enrolment/admission.py"), (
        *(EDGE + f"{name}.py" for name in ("answering", "envelopes", "outbox")),
        *(CLOUD + f"{name}.py" for name in ("admission", "receiver", "sender", "deliveries", "versions", "epochs",
                                            "full_disk", "attackers"))),
        marks="not alone and not extended"),
    "federated": Module(("brain_cloud/brain_cloud/federated/*.py", "brain_training/brain_training/federated.py"), (
        CLOUD + "strategies.py", TRAINING + "federated.py", CLOUD + "rounds.py", CLOUD + "learning.py"),
        marks="not alone and not extended"),
    "parameter server": Module(("brain_training/brain_training/parameter_server/*.py",), (
        TRAINING + "parameter_client.py", TRAINING + "parameter_shard.py", TRAINING + "parameter_asked.py",
        TRAINING + "parameter_server.py", TRAINING + "parameter_wire.py"),
        marks="not alone and not extended"),
}


def every(module: Module) -> list[Mutation]:
    """Mutations that there are of a module."""
    files = [path for path in module.paths(module.files) if path.name != "__init__.py"]
    return [mutation for path in files for mutation in mutations(path, ROOT / "src", module.code)]


def drawn(module: Module) -> list[Mutation]:
    """Mutations of a module that are run: those whose hashes come first, so that most stay drawn when code changes."""
    found = every(module)
    order = sorted((m.key for m in found), key=lambda key: hashlib.sha256(f"{SEED} {key}".encode()).digest())
    chosen = set(order[:module.number])
    return [m for m in found if m.key in chosen]


# -- runs --------------------------------------------------------------------------------------------------------------

# What Python runs at its start where PYTHONPATH leads to it.
HOOK = """
import importlib.util, marshal, sys
from importlib.machinery import SourceFileLoader

class Mutated(SourceFileLoader):
    def get_code(self, name):
        with open({code!r}, "rb") as file:
            return marshal.load(file)

class Hook:
    def find_spec(name, path=None, target=None):
        if name == {name!r}:
            return importlib.util.spec_from_file_location(name, {path!r}, loader=Mutated(name, {path!r}))

sys.meta_path.insert(0, Hook)
"""


def name_of(path: Path) -> str:
    """Name of the module in a file below src."""
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts[1:])


class Withhold(importlib.abc.MetaPathFinder):
    """Refuses some modules."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in self.names:
            raise RuntimeError(f"{name} is not to be loaded yet")


class Watch:
    """A plug-in of pytest: where it failed first."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    pytest_collectreport = pytest_runtest_logreport


class Server:
    """Runs the tests of one module, forked."""

    def __init__(self, module: Module) -> None:
        self.module, self.tests = module, module.paths(module.tests)
        self.limit = (300.0, 900.0)     # s of the processor and of the clock

    def start(self, mutation: Mutation | None = None, *more: str) -> tuple[int, Path]:
        """Forks; gives the process, and the folder in which it says what came of it, in ``said``."""
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        pid = os.fork()
        if pid:
            return pid, folder
        try:
            os.setsid()
            for number, name in ((1, "out"), (2, "out")):
                os.dup2(os.open(folder / name, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), number)
            resource.setrlimit(resource.RLIMIT_CPU, (int(self.limit[0]) + 1,) * 2)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY,) * 2)
            if mutation is not None:
                (folder / "code").write_bytes(marshal.dumps(mutation.code()))
                hook = HOOK.format(code=str(folder / "code"), name=name_of(mutation.path), path=str(mutation.path))
                (folder / "sitecustomize.py").write_text(hook)
                os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
                exec(hook, {})
            tests = sorted(self.tests, key=lambda path: mutation is not None and mutation.inside and path.match(PAGES))
            import pytest
            watch = Watch()
            rc = pytest.main(["-x", "-q", "-p", "timeout", "-p", "no:cacheprovider", "--basetemp", str(folder / "tmp"),
                              "-m", self.module.marks, *more, *map(str, tests)], [watch])
            (folder / "said").write_text(json.dumps({"rc": int(rc), "failed": watch.failed,
                                                     "modules": list(sys.modules)}))
        finally:
            os._exit(0)

    def end(self, pid: int, folder: Path, began: float) -> dict | None:
        """Result of a process; None while it runs. It gets no more than :attr:`limit`."""
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() - began < self.limit[1]:
                return None
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        try:
            os.killpg(pid, signal.SIGKILL)      # what its tests left
        except ProcessLookupError:
            pass
        said = folder / "said"
        found = json.loads(said.read_text()) if said.exists() else {"rc": -1, "failed": ""}
        found["out"] = (folder / "out").read_text(errors="replace")[-2000:]
        shutil.rmtree(folder, ignore_errors=True)
        return found

    def whole(self, *more: str) -> dict:
        """A run without a mutation, that must pass."""
        began, used = time.monotonic(), sum(os.times()[2:4])
        pid, folder = self.start(None, *more)
        while (found := self.end(pid, folder, began)) is None:
            time.sleep(0.05)
        if found["rc"]:
            raise SystemExit(f"the tests fail without a mutation:\n{found['out']}")
        found["took"] = sum(os.times()[2:4]) - used, time.monotonic() - began
        return found

    def prepare(self) -> None:
        """Loads what the tests need without the module, and finds out how long they take."""
        loaded = self.whole("--collect-only")["modules"]
        withhold = Withhold({name_of(path) for path in self.module.paths(self.module.files)})
        sys.meta_path.insert(0, withhold)
        for name in loaded:
            if name not in sys.modules and not name.startswith(("test", "conftest", "src.")):
                try:
                    importlib.import_module(name)
                except BaseException:       # whatever a module that lacks another one meets
                    sys.modules.pop(name, None)
        sys.meta_path.remove(withhold)
        processor, clock = self.whole()["took"]
        self.limit = 3 * processor + SLOWEST[0], 12 * clock + SLOWEST[1]     # other work may slow it down


@functools.cache
def digest(what: str) -> str:
    """Hash of a file below the root, or of a test in it: ``path::name``; empty where it is not there."""
    path, _, name = what.partition("::")
    if not (ROOT / path).exists():
        return ""
    text = (ROOT / path).read_text(encoding="utf-8")
    if name:
        found = [node for node in ast.walk(ast.parse(text)) if getattr(node, "name", "") == name]
        text = "".join(ast.unparse(node) for node in found)
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def results(module: Module) -> dict[str, dict]:
    """Results that are still true, since what they rest on is as it was; by mutation.

    What was not killed rests on all tests that the module has now.
    """
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    digest.cache_clear()
    tests = {str(path.relative_to(ROOT)) for path in module.paths(module.tests)}
    return {one["key"]: one for one in lines if all(digest(what) == was for what, was in one["rests_on"].items()) and (
        one["outcome"] == "killed" or tests <= one["rests_on"].keys())}


def run(name: str, jobs: int, until: float, known: dict[str, dict]) -> None:
    """Runs the mutations of a module that have no result yet, in a process of its own."""
    module = MODULES[name]
    left = [m for m in drawn(module) if m.key not in known]
    if not left or time.monotonic() >= until:
        return
    if pid := os.fork():
        if os.waitpid(pid, 0)[1]:
            raise SystemExit(1)
        return
    rc = 1
    try:
        server = Server(module)
        server.prepare()
        print(f"{name}: {len(left)} to run; each gets up to {server.limit[1]:.0f} s", flush=True)
        running: list[tuple[Mutation, int, Path, float]] = []
        while running or (left and time.monotonic() < until):
            while left and len(running) < jobs and time.monotonic() < until:
                mutation = left.pop(0)
                running.append((mutation, *server.start(mutation), time.monotonic()))
            time.sleep(0.02)
            for one in tuple(running):
                if (found := server.end(*one[1:])) is not None:
                    running.remove(one)
                    keep(server, one[0], found, time.monotonic() - one[3])
        rc = 0
    except BaseException as error:      # it must not go on as its parent would
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        os._exit(rc)


def keep(server: Server, mutation: Mutation, found: dict, took: float) -> None:
    """Writes a result."""
    outcome = "survived" if found["rc"] == 0 else "killed" if found["failed"] else "ended"
    rests_on = [found["failed"].partition("[")[0]] if found["failed"] else [
        str(path.relative_to(ROOT)) for path in server.tests]
    digest.cache_clear()
    rests_on.append(str(mutation.path.relative_to(ROOT)))
    with RESULTS.open("a") as file:
        file.write(json.dumps({"key": mutation.key, "outcome": outcome, "by": found["failed"], "took": round(took, 1),
                               "rests_on": {what: digest(what) for what in rests_on}}) + "\n")
    if outcome == "survived":
        print(f"  survived: {mutation.key}", flush=True)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(MODULES))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit-minutes", type=float, default=120.0)
    parser.add_argument("--list", action="store_true", help="only say what is known")
    wanted = parser.parse_args()
    if odd := set(wanted.modules) - set(MODULES):
        parser.error(f"no module {', '.join(sorted(odd))}; there are {', '.join(MODULES)}")
    os.chdir(ROOT)
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    RESULTS.parent.mkdir(exist_ok=True)
    until = time.monotonic() + 60 * wanted.limit_minutes
    argued, status = {a["mutation"]: a["reason"] for a in json.loads(ARGUED.read_text())}, 0
    for name in wanted.modules or MODULES:
        if not wanted.list:
            run(name, wanted.jobs, until, results(MODULES[name]))
        known, chosen = results(MODULES[name]), drawn(MODULES[name])
        outcomes = Counter(known[m.key]["outcome"] if m.key in known else "not run" for m in chosen)
        survived = [m.key for m in chosen if m.key in known and known[m.key]["outcome"] == "survived"]
        new = [key for key in survived if key not in argued]
        print(f"{name}: {len(chosen)} mutations: {outcomes['killed']} killed, {outcomes['ended']} ended or hung, "
              f"{len(survived) - len(new)} argued, {len(new)} survived, {outcomes['not run']} not run")
        print("".join(f"  survived: {key}\n" for key in new), end="")
        status = max(status, 1 if new else 2 if outcomes["not run"] else 0)
    there = {m.key for module in MODULES.values() for m in every(module)}
    for key in sorted(argued.keys() - there):
        print(f"argued, but no more there: {key}")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

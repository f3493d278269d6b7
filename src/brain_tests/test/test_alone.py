# SPDX-License-Identifier: Apache-2.0
"""Tests side by side: brains with one worker, any other module with one, and what is marked `alone` last and alone."""
import contextlib
import fcntl
import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 240.0     # s; only ends a hang
TESTS = """
import os
import time
import pytest

MARKS
@pytest.mark.parametrize("number", range(3))
def test_it(number):
    with open("SAID", "a") as said:
        print("NAME", os.getpid(), "begins", file=said, flush=True)
        time.sleep(0.2)
        print("NAME", os.getpid(), "ends", file=said, flush=True)
"""
BRAINS = ("e2e_g", "e2e_h")
MODULES = {"a": "alone", "b": "", "c": "alone", "d": "slow", "e": "", "f": "slow", "e2e_g": "slow", "e2e_h": "slow",
           "e2e_hostile": "alone"}


@contextlib.contextmanager
def running(tmp_path, **more):
    """A run of modules whose tests write when they begin and end, with variables of the environment; its process."""
    pytest.importorskip("xdist")
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "pytest.ini").write_text((ROOT / "pytest.ini").read_text(encoding="utf-8").replace("timeout = 240", ""))
    (tmp_path / "src").mkdir()
    said = tmp_path / "said"
    for name, mark in MODULES.items():
        text = TESTS.replace("MARKS", f"pytestmark = pytest.mark.{mark}" if mark else "")
        (tmp_path / "src" / f"test_{name}.py").write_text(text.replace("SAID", str(said)).replace("NAME", name))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "BRAIN_TEST_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "xdist", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"],
        cwd=tmp_path, env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **more}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def lines(tmp_path):
    """What tests have written: module, worker, and whether one begins or ends."""
    said = tmp_path / "said"
    return [line.split() for line in said.read_text().splitlines()] if said.exists() else []


def ended(tmp_path, process):
    """What pytest printed, and what its tests wrote."""
    stdout, _ = process.communicate()
    assert process.returncode == 0, stdout
    assert "27 passed" in stdout.splitlines()[-1]
    found = lines(tmp_path)
    assert len({(name, worker) for name, worker, _ in found}) == len(MODULES), "a module had two workers"
    return stdout, found


def test_brains_wait_while_colcons_part_has_its_turn_and_others_do_not(tmp_path):
    (tmp_path / ".pytest_cache").mkdir()
    with (tmp_path / ".pytest_cache" / "brains.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with running(tmp_path, BRAIN_TEST_TURNS="1") as process:
            end = time.monotonic() + PATIENCE
            while [what for *_, what in lines(tmp_path)].count("ends") < 21:    # of all others, also of what is alone
                assert time.monotonic() < end and process.poll() is None
                time.sleep(0.05)
            assert not {name for name, *_ in lines(tmp_path)} & set(BRAINS)
            fcntl.flock(lock, fcntl.LOCK_UN)
            ended(tmp_path, process)


def test_brains_are_handed_out_first_then_what_lasted_longest_and_last_what_is_alone():
    def item(name, mark):
        path = Path(f"src/test_{name}.py")
        return SimpleNamespace(path=path, nodeid=f"{path}::test_it",
                               get_closest_marker=lambda wanted: wanted == mark or None)

    lasted = {f"src/test_{name}.py": 5.0 if name == "e" else 0.6 for name in MODULES if name != "b"}
    in_order = runpy.run_path(str(ROOT / "conftest.py"))["in_order"]
    found = [one.path.stem.removeprefix("test_") for one in in_order([item(*one) for one in MODULES.items()], lasted)]
    assert found == ["e2e_g", "e2e_h", "e", "d", "f", "b", "a", "c", "e2e_hostile"]


def test_in_order_and_alone(tmp_path):
    (tmp_path / "results").mkdir()
    before = {"seconds": 10.0, "tests": {f"src/test_{name}.py::test_it": 0.6 for name in MODULES if name != "b"}}
    before["tests"]["src/test_e.py::test_it"] = 5.0     # begins before what is shorter
    (tmp_path / "results" / "tests.json").write_text(json.dumps({"figures": before}))
    with running(tmp_path) as process:
        stdout, found = ended(tmp_path, process)
    took = json.loads((tmp_path / ".pytest_cache" / "tests.json").read_text())["tests"]
    assert set(took) == {*before["tests"], "src/test_b.py::test_it"} and min(took.values()) >= 0.6
    assert f"brain: new tests take {took['src/test_b.py::test_it']:.0f} s" in stdout
    order = list(dict.fromkeys(name for name, *_ in found))
    (brains,) = {worker for name, worker, _ in found if name in BRAINS}
    others = [name for name in order if name not in BRAINS]
    assert [name for name, worker, _ in found if worker == brains][:12] == ["e2e_g"] * 6 + ["e2e_h"] * 6
    turns = [set(others[:1]), set(others[1:4]), set(others[4:])]   # two may begin at once
    assert turns == [{"e"}, {"d", "f", "b"}, {"a", "c", "e2e_hostile"}], order
    alone = [(name, what) for name, _, what in found[36:]]
    assert len(alone) == 18
    assert all(begin == (name, "begins") and end == (name, "ends")
               for begin, end in zip(alone[::2], alone[1::2]) for name in begin[:1]), alone
    assert all(len({name for name, _ in alone[n:n + 6]}) == 1 for n in (0, 6, 12)), "they took turns within modules"
    beside = [what for *_, what in found[:36]]
    assert any(beside[n:n + 2] == ["begins", "begins"] for n in range(35)), "no two ran side by side"
    assert "brain: tests alone: " in stdout and "with 2 side by side" in stdout


def test_a_piece_goes_on_where_the_last_one_ended(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "test_it.py").write_text(
        "import pathlib, pytest\n\n@pytest.fixture\ndef there():\n    assert pathlib.Path('mended').exists()\n\n"
        "@pytest.mark.parametrize('n', range(5))\ndef test_it(n):\n"
        "    assert n or pathlib.Path('mended').exists()\n\ndef test_fixture(there):\n    pass\n")

    def piece(minutes):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "BRAIN_TEST_"))}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "xdist", "-n", "1"], cwd=tmp_path, capture_output=True, text=True,
            env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "BRAIN_TEST_PIECE": minutes}, check=False).stdout

    assert "6 tests are left for the next piece, and 0 have failed" in piece("0")
    assert "0 tests are left for the next piece, and 2 have failed" in (said := piece("60")) and "4 passed" in said
    (tmp_path / "mended").touch()
    assert "that was the last piece" in (said := piece("60")) and "2 passed" in said
    assert "6 passed" in piece("60"), "after the last piece the first one begins"

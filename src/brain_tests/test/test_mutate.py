# SPDX-License-Identifier: Apache-2.0
"""Mutations: named so that names move with the code; those that no test notices are told; a run goes on."""
from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "mutate.py"
CODE = '''
"""A module: 1 + 1."""
import math
import logging

log = logging.getLogger(__name__)
LIMIT = 2.0


class Brake:
    def speed(self, room: float, sides: tuple = ()) -> float:
        """Speed for some room."""
        assert room == room
        log.warning("%s", room + 1)
        if room < 0 or math.isnan(room):
            raise ValueError(f"{room + 1} is no room")
        return min(LIMIT, 0.5 * room)


def until(left):
    while left > 0:
        left = left - 1
    return left
'''
TESTS = """
import subprocess
import sys
import pytest
from toy import limits

@pytest.mark.parametrize("room", [3.0])
def test_speed(room):
    assert limits.Brake().speed(room) == 1.5 and limits.Brake().speed(9.0) == limits.LIMIT
    assert limits.Brake().speed(0.0) == 0.0

def test_until():
    assert limits.until(3) == 0

def test_in_a_process_of_its_own():
    subprocess.run([sys.executable, "-c", "from toy import limits; assert limits.LIMIT == 2.0"], check=True)
"""
MORE = """
def test_wrong():
    with pytest.raises(ValueError):
        limits.Brake().speed(-1.0)
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "src" / "toy" / "toy" / "limits.py"
    path.parent.mkdir(parents=True)
    path.write_text(CODE)
    return path


def test_what_is_changed_and_how_it_is_named(source, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    module = importlib.import_module("mutations")

    def mutations(code=False):
        return [m.key.removeprefix("toy/limits.py::") for m in module.mutations(source, source.parents[1], code)]

    found = mutations()
    assert found == [
        "::LIMIT = «2.0 → 4.0»",
        "Brake.speed::if «room < 0 or math.isnan(room) → math.isnan(room)»:",
        "Brake.speed::if «room < 0 or math.isnan(room) → room < 0»:",
        "Brake.speed::if «room < 0 → room <= 0» or math.isnan(room):",
        "Brake.speed::if «room < 0 → room >= 0» or math.isnan(room):",
        "Brake.speed::if room < «0 → 1» or math.isnan(room):",
        "Brake.speed::«raise ValueError(f'{room + 1} is no room') → pass»",
        "Brake.speed::return «min → max»(LIMIT, 0.5 * room)",
        "Brake.speed::return min(LIMIT, «0.5 * room → 0.5 / room»)",
        "Brake.speed::return min(LIMIT, «0.5 → 1.0» * room)",
        "until::while «left > 0 → left >= 0»:",
        "until::while «left > 0 → left <= 0»:",
        "until::while left > «0 → 1»:",
        "until::left = «left - 1 → left + 1»",
        "until::left = left - «1 → 2»"]
    source.write_text("\n\n\n" + CODE.replace("self, room", "self, /, room"))     # lines move, names do not
    assert mutations() == found
    source.write_text('def f(n):\n    line(f"if {n} > size or data[e - 1]: raise ValueError(\'1 + 1\')")\n')
    assert [key[-8:] for key in mutations()] == [" → pass»"]
    texts = [key.partition("line(f")[2] for key in mutations(code=True)]
    assert '"if {n} «> → >=» size or data[e - 1]: raise ValueError(\'1 + 1\')")' in texts
    assert '"if {n} > size« or data[e - 1] → »: raise ValueError(\'1 + 1\')")' in texts
    assert '"if {n} > size or data[e - 1]: «raise → »ValueError(\'1 + 1\')")' in texts and len(texts) == 7


def test_what_is_drawn_stays_drawn_when_there_is_more_code(source, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    mutate = importlib.import_module("mutate")
    monkeypatch.setattr(mutate, "ROOT", source.parents[3])
    module = mutate.Module(("toy/toy/*.py",), (), 8)
    before, there = ({m.key for m in some(module)} for some in (mutate.drawn, mutate.every))
    source.write_text(CODE + "\n\ndef half(of):\n    if of < 1:\n        return 0.5\n    return of * 0.5 + 1\n")
    after = {m.key for m in mutate.drawn(module)}
    assert len(before) == len(after) == 8 and after & there <= before and after & before


@pytest.mark.slow
@pytest.mark.extended
def test_survivors_are_told_unless_they_are_argued_and_a_second_run_goes_on(source):
    root = source.parents[3]
    (root / "src" / "toy" / "test").mkdir()
    tests = root / "src" / "toy" / "test" / "test_limits.py"
    tests.write_text(TESTS)
    (root / "src" / "toy" / "toy" / "__init__.py").touch()
    (root / "argued.json").write_text("[]")
    program = f"""
import sys
from pathlib import Path
sys.path[:0] = [{str(SCRIPT.parent)!r}, {str(root / "src" / "toy")!r}]
import mutate
mutate.ROOT, mutate.RESULTS, mutate.ARGUED = (Path({str(root)!r}) / name for name in (".", "runs/found", "argued.json"))
mutate.MODULES = {{"limits": mutate.Module(("toy/toy/*.py",), ("toy/test/test_*.py",), None)}}
mutate.SLOWEST = 0, 2
sys.exit(mutate.main())
"""

    def run(*more):
        done = subprocess.run([sys.executable, "-c", program, *more], capture_output=True, text=True, timeout=200,
                              env={**os.environ, "PYTHONPATH": str(root / "src" / "toy")})
        return done.returncode, done.stdout, done.stderr

    rc, out, err = run("--limit-minutes", "0")
    assert rc == 2 and "15 mutations: 0 killed, 0 ended or hung, 0 argued, 0 survived, 15 not run" in out, err
    rc, out, err = run("--jobs", "4")
    results = {one["key"].partition("::")[2]: one for one in map(
        json.loads, (root / "runs/found").read_text().splitlines())}
    assert len(results) == 15, (out, err)
    survived = {key for key, one in results.items() if one["outcome"] == "survived"}
    assert survived == {"Brake.speed::if «room < 0 or math.isnan(room) → math.isnan(room)»:",
                        "Brake.speed::if «room < 0 or math.isnan(room) → room < 0»:",
                        "Brake.speed::«raise ValueError(f'{room + 1} is no room') → pass»"}
    assert results["until::left = «left - 1 → left + 1»"]["outcome"] == "ended"
    assert results["Brake.speed::return «min → max»(LIMIT, 0.5 * room)"]["by"].endswith("::test_speed[3.0]")
    assert results["::LIMIT = «2.0 → 4.0»"]["by"].endswith("::test_in_a_process_of_its_own")
    assert rc == 1 and Counter(one["outcome"] for one in results.values())["killed"] >= 10
    assert all(f"survived: toy/toy/limits.py::{key}" in out for key in survived)
    # Those that are argued are no fault; those that are argued and no more there are.
    keys = sorted(f"toy/toy/limits.py::{key}" for key in survived)
    for more, status in ((["toy/toy/limits.py::gone"], 1), ([], 0)):
        (root / "argued.json").write_text(json.dumps([{"mutation": key, "reason": "a test"} for key in keys + more]))
        rc, out, err = run("--list")
        assert rc == status and "3 argued, 0 survived, 0 not run" in out and ("no more there" in out) is bool(more), err
    # With one more test survivors are tried again, and what hung; not what was killed.
    tests.write_text(TESTS + MORE)
    rc, out, err = run()
    assert "4 to run" in out and "1 argued, 0 survived, 0 not run" in out and rc == 0, (out, err)
    more_tests = tests.with_name("test_more.py")
    more_tests.write_text("def test_nothing():\n    pass\n")
    assert "0 argued, 0 survived, 2 not run" in run("--list")[1]
    more_tests.unlink()
    tests.write_text(TESTS.replace("== 1.5", "== 1.4"))
    assert "the tests fail without a mutation" in run()[2]

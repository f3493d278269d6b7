# SPDX-License-Identifier: Apache-2.0
"""Counting what a launch started again."""
import os
import subprocess
import sys

import pytest

from brain_runtime import launch_starts
from brain_runtime.launch_watch import VARIABLE, mark


@pytest.fixture(autouse=True)
def launched(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv(VARIABLE, mark())


def test_each_command_line_has_its_own_count(monkeypatch):
    assert [launch_starts.restarts(["a"]) for _ in range(3)] == [0, 1, 2]
    assert launch_starts.restarts(["a", "b"]) == 0
    monkeypatch.delenv(VARIABLE)
    assert launch_starts.restarts(["a"]) == 0


def test_counts_of_launches_that_are_gone_go_too(monkeypatch):
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setenv(VARIABLE, mark(ended.pid))
    assert launch_starts.restarts(["a"]) == 0
    ended.communicate(b"\n")
    monkeypatch.setenv(VARIABLE, mark())
    assert launch_starts.restarts(["a"]) == 0
    assert len(list(launch_starts.folder().iterdir())) == 1


@pytest.mark.parametrize("held", ["", "x", "9" * 5000, "-3", "\x00"])
def test_a_count_that_is_none_begins_anew(held):
    launch_starts.restarts(["a"])
    path = next(p for p in launch_starts.folder().rglob("*") if p.is_file())
    path.write_text(held)
    assert [launch_starts.restarts(["a"]) for _ in range(2)] == [0, 1]


def test_where_nothing_can_be_kept_it_starts_all_the_same(tmp_path, monkeypatch, caplog):
    (tmp_path / f"brain-launch-{os.getuid()}").write_text("not a folder")
    assert launch_starts.restarts(["a"]) == 0
    assert "not counted" in caplog.text

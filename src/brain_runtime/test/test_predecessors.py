# SPDX-License-Identifier: Apache-2.0
"""What a process knows of those before it: how many launch started, and what was ordered of the last."""
import os
import subprocess
import sys

import pytest

from brain_runtime.hosts import predecessors
from brain_runtime.run.workload import Backoff
from brain_runtime.run.keeper import OUTER, VARIABLE, mark
from brain_runtime.hosts.predecessors import Predecessors
from brain_wire.wakeup import Flag

ARGV = ["--class", "a:B", "--ros-args", "-p", "x:=1"]


@pytest.fixture(autouse=True)
def launched(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv(VARIABLE, mark())
    monkeypatch.delenv(OUTER, raising=False)


def test_each_command_line_has_its_own_records(monkeypatch):
    before = [Predecessors.named(ARGV) for _ in range(3)]
    assert [b.starts for b in before] == [0, 1, 2] and {b.ordered for b in before} == {"active"}
    before[-1].order("finalized")
    # how often it was started, and that it was a spare, is no other command line; a parameter is
    for same in (ARGV, [*ARGV[:2], "--restarts", "4", *ARGV[2:]], [*ARGV[:2], "--standby", *ARGV[2:]]):
        assert Predecessors.named(same).ordered == "finalized"
    assert (other := Predecessors.named([*ARGV, "-p", "y:=2"])).ordered == "active" and other.starts == 0
    monkeypatch.setenv("ROS_DOMAIN_ID", "33")
    assert Predecessors.named(ARGV).ordered == "active"
    monkeypatch.delenv(VARIABLE)
    assert Predecessors.named(ARGV) is None


def test_what_is_started_again_between_launch_and_a_region_hands_on_whose_records_count(monkeypatch):
    Predecessors.named(ARGV).order("inactive")
    monkeypatch.setenv(OUTER, os.environ[VARIABLE])
    monkeypatch.setenv(VARIABLE, mark(os.getppid()))
    assert Predecessors.named(ARGV).ordered == "inactive"


def test_records_of_launches_that_are_gone_go_too(monkeypatch):
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setenv(VARIABLE, mark(ended.pid))
    Predecessors.named(ARGV).order("finalized")
    ended.communicate(b"\n")
    monkeypatch.setenv(VARIABLE, mark())
    assert Predecessors.named(ARGV).ordered == "active"
    assert len(list(predecessors.folder().iterdir())) == 1


def test_what_ends_soon_again_and_again_waits_longer_each_time_and_what_cannot_start_is_not_tried_for_ever(
        monkeypatch, capsys):
    ended, waited = Flag(), []
    monkeypatch.setattr(ended, "wait", lambda seconds=None: waited.append(seconds))
    for _ in range(4):
        before = Predecessors.named(ARGV)
        before.hold_back(ended)
        before.give_up(ended)
    assert waited == [0.2, 0.4, None, 0.8, None]    # None: until it is told to end
    assert "not tried again: correct it" in capsys.readouterr().err
    monkeypatch.setattr(predecessors, "BACKOFF", Backoff(healthy=-1.0))
    before.renew()      # it has lived long enough
    assert (after := Predecessors.named(ARGV)).failures == 0 and after.starts == 4


@pytest.mark.parametrize("held", ["", "x", "9" * 5000, "-3", "\x00", "\xff"])
def test_a_count_that_is_none_begins_anew_and_an_order_that_is_none_keeps_the_region_from_moving(held, caplog):
    Predecessors.named(ARGV).order("finalized")
    for path in [p for p in predecessors.folder().rglob("*") if p.is_file()]:
        path.write_text(held, encoding="latin1")
    before = [Predecessors.named(ARGV) for _ in range(2)]
    assert [b.starts for b in before] == [0, 1] and [b.ordered for b in before] == ["inactive", "inactive"]
    assert "the region stays inactive until it is started by order" in caplog.text


def test_an_order_is_written_again_where_somebody_tidied_up(monkeypatch):
    before = Predecessors.named(ARGV)
    before.order("inactive")
    for path in predecessors.folder().rglob("*.order"):
        path.unlink()
    before.renew()      # it was written a moment ago
    assert not list(predecessors.folder().rglob("*.order"))
    monkeypatch.setattr(predecessors, "RENEWED", 0.0)
    before.renew()
    assert Predecessors.named(ARGV).ordered == "inactive"


def test_where_nothing_can_be_kept_it_starts_all_the_same(tmp_path, caplog):
    (tmp_path / f"brain-launch-{os.getuid()}").write_text("not a folder")
    before = Predecessors.named(ARGV)
    assert before.starts == 0 and "restarts are not counted" in caplog.text
    before.order("finalized")
    assert before.ordered == "finalized" and "may not survive a crash" in caplog.text

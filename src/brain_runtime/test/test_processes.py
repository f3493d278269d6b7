# SPDX-License-Identifier: Apache-2.0
"""Processes that a program keeps beside its own work, with commands and calls that need no torch."""
from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from brain_runtime.run.called import Call
from brain_runtime.run.processes import Ended, Processes, by_number
from brain_runtime.run.workload import NEVER, Backoff, Restart, Workload
from brain_wire.logs import Logs

KILLED_AGAIN = Restart(always=False, tries=1, hopeless=frozenset(range(1, 256)), backoff=Backoff(first=0.0, most=0.0))
PATIENCE = 60.0


def gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def until_gone(*processes: int) -> None:
    end = time.monotonic() + PATIENCE
    while not all(map(gone, processes)):
        assert time.monotonic() < end, "they are there still"
        time.sleep(0.02)


def shell(name: str, script: str, **more) -> Workload:
    return Workload(name, ("sh", "-c", script), **{"restart": NEVER, **more})


def test_who_ended_first_is_told_first_and_others_are_ended():
    with Processes([shell("rank 1", "read x"), shell("rank 10", "sleep 0.3; exit 3"), shell("rank 2", "kill -9 $$"),
                    shell("rank 3", "exec sleep 600")]) as some:
        assert some.wait(PATIENCE, lambda found: len(found) == 3)
        assert by_number(some.statuses()) == {1: 1, 2: -9, 10: 3} and list(some.statuses())[-1] == "rank 10"
        assert not some.wait(0.05), "one runs"
        heard = [some.hear(PATIENCE) for _ in range(3)]
        assert ("rank 2", Ended(-9, False)) in heard and heard[-1] == ("rank 10", Ended(3, False))
        last = some.pids["rank 3"]
        assert not gone(last)
    assert gone(last) and set(by_number(some.statuses())) == {1, 2, 10}, "who was asked to end is none of them"
    assert some.hear(0.0) is None


def test_one_that_does_not_end_by_sigterm_is_killed_after_its_grace_time(tmp_path):
    deaf = shell("deaf", "trap '' TERM; echo ready; while :; do sleep 0.05; done", grace=0.3)
    with Processes([deaf], Logs(tmp_path, print), log="all") as some:
        end = time.monotonic() + PATIENCE
        while "\nready" not in (tmp_path / "deaf.log").read_text():
            assert time.monotonic() < end
        began = time.monotonic()
    assert time.monotonic() - began > 0.25 and gone(some.pids["deaf"])
    assert "by SIGKILL, since it did not end within 0.3 s of SIGTERM" in (tmp_path / "all.log").read_text()


def test_what_ended_or_was_killed_starts_anew_and_others_are_left_alone():
    with Processes([shell("a", "exec sleep 600"), shell("b", "exec sleep 600")]) as some:
        before = dict(some.pids)
        some.kill("a")
        assert some.wait(PATIENCE, lambda found: found == {"a": -9})
        some.start(shell("a", "exec sleep 601"), shell("c", "exec sleep 600"))
        assert some.statuses() == {} and some.pids["b"] == before["b"] and some.pids["a"] != before["a"]
        assert set(some.pids) == {"a", "b", "c"}
    until_gone(*some.pids.values())


def test_a_command_that_is_not_there_is_an_error_and_leaves_none():
    with pytest.raises(OSError, match="could not be started.*No such file"):
        Processes([shell("a", "exec sleep 600"), Workload("b", ("/nowhere",), restart=NEVER, lingers=True)])


def test_variables_are_added_and_taken_away(monkeypatch, capfd):
    monkeypatch.setenv("BRAIN_HERE", "here")
    monkeypatch.setenv("BRAIN_KEEPER", "1:1")
    with Processes([shell("a", "echo ${BRAIN_HERE-none} $BRAIN_MORE ${BRAIN_KEEPER-alone}; echo error >&2")],
                   environment={"BRAIN_HERE": None, "BRAIN_MORE": "more"}) as some:
        assert some.wait(PATIENCE)
    assert capfd.readouterr() == ("none more alone\n", "error\n")     # as this process's own


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_they_end_with_the_program_however_it_ends(number):
    program = textwrap.dedent("""
        import time
        from brain_runtime.run.processes import Processes
        from brain_runtime.run.workload import Workload
        some = Processes([Workload("a", ("sleep", "600")), Workload("b", ("sleep", "600"))])
        print(*some.pids.values(), flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as keeps:
        pids = [int(word) for word in keeps.stdout.readline().split()]
        keeps.send_signal(number)
    until_gone(*pids)


def test_what_nobody_holds_any_more_ends():
    some = Processes([shell("a", "exec sleep 600")])
    pid = some.pids["a"]
    del some
    gc.collect()
    until_gone(pid)


def works(word, file, tell):
    tell(f"{word} {os.getsid(0) == os.getpid()}")
    if not file.exists():
        file.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    tell("x" * 200_000)     # more than a pipe takes
    sys.exit(int(word))


def test_a_call_tells_what_it_does_and_is_made_anew_where_it_was_killed(tmp_path):
    words = iter("089")
    call = Call(works, lambda: (next(words), tmp_path / "was"))
    with Processes([Workload("a", call=call, restart=KILLED_AGAIN)]) as some:
        told = [some.hear(PATIENCE) for _ in range(5)]
        assert told == [("a", what) for what in ("0 True", Ended(-9, True), "8 True", "x" * 200_000, Ended(8, False))]
        assert some.restarts() == 1 and some.statuses() == {"a": 8}
    with Processes([Workload("a", call=Call(time.sleep, lambda: (600,)))]) as some:
        pass
    assert gone(some.pids["a"])

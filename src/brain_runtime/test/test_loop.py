# SPDX-License-Identifier: Apache-2.0
"""The loop with what is wanted changing, and with trees of processes; see test_supervisor.py for the rest."""
from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from brain_runtime.run.lines import Lie, Lines
from brain_runtime.run.loop import Loop
from brain_runtime.run.tree import Below, base_env, left_status
from brain_runtime.run.workload import NEVER, Backoff, Restart, Workload
from brain_wire.logs import Through

SLEEP = ("sleep", "600")
QUICK = Restart(backoff=Backoff(first=0.01, most=0.05))
PATIENCE = 60.0


def gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def until(condition, step=lambda: time.sleep(0.02)):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it never came"
        step()
    return found


@pytest.fixture
def loop():
    made = Loop((), Through())
    yield made
    made.stop(grace=0.5)


def test_what_is_wanted_starts_and_what_is_not_any_more_ends(loop):
    a, b = Workload("a", SLEEP), Workload("b", SLEEP)
    loop.want([a, b])
    until(lambda: loop.pid("a") and loop.pid("b"), loop.round)
    kept, ends = loop.pid("a"), loop.pid("b")
    loop.want([a])
    until(lambda: gone(ends), loop.round)
    assert loop.names == ["a"] and loop.pid("a") == kept
    loop.want([replace(a, argv=("sleep", "601"))])
    until(lambda: gone(kept) and (loop.pid("a") or kept) != kept, loop.round)
    assert loop.fault("a") == "", "it did not end by itself"


def test_what_is_given_up_is_tried_again_when_it_is_wanted_otherwise(loop):
    bad = Workload("a", ("false",), restart=NEVER)
    loop.want([bad])
    until(lambda: loop.over("a"), loop.round)
    assert loop.status("a") == 1 and loop.fault("a") == "ended with status 1"
    loop.want([bad])
    loop.round(0.1)
    assert loop.over("a")
    loop.want([replace(bad, argv=SLEEP)])
    assert until(lambda: loop.pid("a"), loop.round)


def test_who_waits_is_woken_at_once(loop):
    loop.want([Workload("a", SLEEP)])
    loop.round()
    threading.Timer(0.1, loop.wake).start()
    loop.round(600.0)       # the test would be cut off


def test_loops_that_have_ended_leave_no_descriptors():
    def opened() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = opened()
    for _ in range(20):
        one = Loop([Workload("a", ("true",), restart=NEVER)], Through())
        until(lambda one=one: one.over("a"), one.round)
        one.stop()
    del one
    assert opened() <= before + 1


def below(folder: Path, script: str) -> Below:
    return Below(folder, f"tree-{folder}", ({"argv": ["sh", "-c", script], "env": base_env(), "cwd": "/"},))


def test_what_a_command_leaves_behind_ends_with_it(loop, tmp_path):
    file = tmp_path / "left"
    tree = below(tmp_path, f"setsid sh -c 'trap \"\" TERM; sleep 600' & echo $! >{file}; wait")
    loop.want([Workload("a", ("sh",), restart=QUICK, grace=0.3, below=tree)])
    first = int(until(lambda: file.exists() and file.read_text().strip(), loop.round))
    os.kill(loop.pid("a"), signal.SIGKILL)      # the subreaper itself
    second = int(until(lambda: (text := file.read_text().strip()) and int(text) != first and text, loop.round))
    until(lambda: gone(first), loop.round)
    loop.want(())
    until(lambda: gone(second), loop.round)


def test_a_tree_ends_with_whoever_keeps_it_and_leaves_its_status(tmp_path):
    program = textwrap.dedent(f"""
        from pathlib import Path
        from brain_runtime.run.loop import Loop
        from brain_runtime.run.tree import Below, base_env
        from brain_runtime.run.workload import Workload
        from brain_wire.logs import Through
        step = {{"argv": ["sh", "-c", "echo $$ >{tmp_path}/pid; trap 'exit 7' TERM; while :; do sleep 0.05; done"],
                 "env": base_env(), "cwd": "/"}}
        loop = Loop([Workload("a", (), below=Below(Path({str(tmp_path)!r}), "t", (step,)))], Through())
        while True:
            loop.round()
    """)
    with subprocess.Popen([sys.executable, "-c", program]) as keeps:
        child = int(until(lambda: (file := tmp_path / "pid").exists() and file.read_text().strip()))
        keeps.kill()
    until(lambda: gone(child) and (tmp_path / "exit").exists())
    assert '"status": 7' in (tmp_path / "exit").read_text() and left_status(tmp_path) is None, "it was asked to"


TALKS = """
import json, os, socket, sys, time
keeper = socket.socket(fileno=0)
lines = keeper.makefile("rb")
say = lambda text: keeper.sendall(text.encode() + b"\\n")
"""


def talking(script, heard, patience=60.0):
    """A workload that talks with what keeps it."""
    def hear(name, line):
        heard.append(line.decode())
        if line == b"a lie":
            raise Lie("it is a lie")
        return line != b"nothing new"

    return Workload("a", (sys.executable, "-S", "-c", TALKS + textwrap.dedent(script)), restart=NEVER, channel=True,
                    probe=Lines(hear, patience, b"hello\n"))


def test_a_process_talks_with_what_keeps_it(loop):
    heard = []
    loop.want([talking("""
        for line in lines:
            say(f"you said {line.decode().strip()}")
            if line == b"end\\n":
                say("the last")
                sys.exit(3)
        """, heard)])
    until(lambda: heard == ["you said hello"], loop.round)
    loop.watching("a").say(b"x" * 100_000 + b"\nend\n")
    until(lambda: loop.over("a"), loop.round)
    assert heard[1:] == [f"you said {'x' * 100_000}", "you said end", "the last"]     # what it says last is heard too
    assert loop.status("a") == 3 and loop.watching("a") is None and loop.channel("a") is None


@pytest.mark.parametrize("script, fault", [
    ("say('here'); time.sleep(600)", "hung: it has not said a word for 0.5 s"),
    ("say('here'); [(say('nothing new'), time.sleep(0.1)) for _ in range(6000)]", "hung: it has not said a word for "
                                                                                  "0.5 s"),
    ("say('here'); lines.close(); keeper.close(); time.sleep(600)", "hung: it has not said a word for 0.5 s"),
    ("say('a lie'); time.sleep(600)", "lying: it is a lie"),
    ("say('x\\n' * 5000); time.sleep(600)", "lying: it says more than 100 lines a second"),
    ("keeper.sendall(b'x' * 2**20); time.sleep(600)", "lying: it said a line of more than 262144 bytes")])
def test_a_process_that_says_nothing_too_much_or_what_none_says_is_ended(loop, script, fault):
    loop.want([talking(script, [], patience=0.5)])
    until(lambda: loop.over("a"), loop.round)
    assert loop.fault("a") == fault

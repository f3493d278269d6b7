# SPDX-License-Identifier: Apache-2.0
"""Programs that a robot's owner lets the cloud run: kept running, ended, and started again without the cloud."""
from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from brain_edge.owners_file import OwnersFileProblem, read_programs
from brain_edge.programs.program_manager import DONE, RESTART, RUNS, how_it_is
from brain_runtime.run.loop import Loop
from brain_runtime.run.tree import Below, base_env
from brain_runtime.run.workload import Workload
from brain_wire.logs import Through

ALIVE = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'a')); time.sleep(3600)"
ONCE = "import sys; open(sys.argv[1], 'a').write('x')"
BAD = "import sys; sys.exit('there is no data, give --data\\x1b[31m')"


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def order(program: str, **more: object) -> dict[str, object]:
    return {"apiVersion": "fleet.brain/v1", "kind": "Job", "metadata": {"name": program, "robots": ["robot1"]},
            "spec": {"program": program, **more}}


@pytest.mark.slow
def test_a_robot_runs_what_its_owner_lets_it_with_its_cloud_or_without(fleet, until, tmp_path):
    pids, ran, file = tmp_path / "pids", tmp_path / "ran", tmp_path / "programs.yaml"
    python = f'"{sys.executable}", -c'
    file.write_text(f'alive: [{python}, "{ALIVE}", "{pids}"]\nonce: [{python}, "{ONCE}", "{ran}"]\n'
                    f'bad: [{python}, "{BAD}"]\nnone: [/no/such/program]\n')
    fleet.more["robot1"] = ["--programs", str(file)]
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")

    def states() -> dict[str, tuple[str, str]]:
        return {one["name"]: (one["state"], one.get("why", "")) for one in fleet.ask("status")["resources"]}

    def pid() -> int | None:
        return int(pids.read_text().split()[-1]) if pids.exists() and pids.read_text() else None

    fleet.ask("apply", resources=[order(name) for name in ("alive", "once", "bad", "none", "unknown")])
    found = until(lambda: (found := states())["alive"] == ("applied", RUNS) and found["once"] == ("applied", DONE) and
                  "status 1" in found["bad"][1] and "127" in found["none"][1] and
                  found["unknown"][0] == "refused" and found, states)
    assert "there is no data, give --data" in found["bad"][1] and "\x1b" not in found["bad"][1]
    assert found["bad"][0] == "waiting" and "there are alive, bad, none, once" in found["unknown"][1]
    first = until(pid, states)
    # Killed, it comes back; so it does where the robot's side was killed, with which it ends, and has no cloud.
    os.kill(first, signal.SIGKILL)
    second = until(lambda: (now := pid()) != first and now, states)
    fleet.end("cloud")
    fleet.end("robot1")
    until(lambda: not lives(second), lambda: fleet.said("robot1"))
    fleet.edge()
    third = until(lambda: (now := pid()) != second and now, lambda: fleet.said("robot1"))
    # What had ended well is not run again; taken back or wanted at rest, a program ends.
    fleet.cloud()
    until(lambda: states()["alive"] == ("applied", RUNS), states)
    assert ran.read_text() == "x" and states()["once"] == ("applied", DONE)
    fleet.ask("apply", resources=[order("alive", active=False)])
    until(lambda: not lives(third), states)
    fleet.ask("apply", resources=[order("alive")])
    fourth = until(lambda: (now := pid()) != third and now, states)
    fleet.ask("delete", resources=[{"kind": "Job", "name": "alive"}])
    until(lambda: not lives(fourth), states)
    assert fleet.end("robot1", signal.SIGTERM) == 0


def test_a_file_that_cannot_be_meant_so_names_what_is_wrong(tmp_path):
    file = tmp_path / "programs.yaml"
    file.write_text("learn: [brain, fleet, learn]\n")
    assert read_programs(file) == {"learn": ("brain", "fleet", "learn")}
    for text, why in (("learn: brain fleet learn\n", "learn"), ("learn: []\n", "learn"), ("Learn: [brain]\n", "Learn"),
                      ("- brain\n", "the file"), ("learn: [1]\n", "learn"), ("learn: [\n", "programs.yaml")):
        file.write_text(text)
        with pytest.raises(OwnersFileProblem, match=why) as found:
            read_programs(file)
        assert "as learn: [brain, fleet, learn, vision" in str(found.value)
    with pytest.raises(OwnersFileProblem, match="cannot read"):
        read_programs(tmp_path / "nothing.yaml")


def test_one_that_failed_is_told_to_run_only_when_it_has_for_a_while(tmp_path, monkeypatch):
    code = "import os, sys, time; os.path.exists('x') and time.sleep(600); open('x', 'w'); sys.exit('there is no data')"
    step = {"argv": [sys.executable, "-c", code], "env": base_env(), "cwd": str(tmp_path)}
    loop = Loop([Workload("bad", (), restart=RESTART, below=Below(tmp_path, "bad", (step,)))], Through())
    try:
        while (found := how_it_is(loop, "bad"))["why"] == RUNS or loop.runs_for("bad") is None:
            loop.round()
        assert found == {"state": "waiting", "why": "it ended with status 1: there is no data; it is started again"}
        monkeypatch.setattr("brain_edge.programs.program_manager.SETTLED", loop.runs_for("bad") + 0.2)
        while (found := how_it_is(loop, "bad"))["state"] == "waiting":
            loop.round()
        assert found == {"state": "applied", "why": RUNS} and loop.restarts("bad") == 1
    finally:
        loop.stop()

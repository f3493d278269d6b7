# SPDX-License-Identifier: Apache-2.0
"""Ranks and agents that are killed, and agents that join: the training goes on, and its weights are the same."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import parallel_tasks as tasks
import pytest

from brain_training.checkpoint import all_of
from brain_training.parallel.elastic import Spec, first
from brain_training.parallel.how import How, agents
from brain_training.parallel.plan import Plan, PlanError
from brain_training.parallel.shards import ShardsTrainer
from brain_training.parallel.store import __name__ as store
from brain_training.task import TrainingError

PROGRAM = Path(__file__).with_name("programs") / "elastic_main.py"
PATIENCE = 400.0        # s: ranks start slowly where others use the cores


begun: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def none_is_left():
    """Ends what a test has begun and not seen to its end, as where it is interrupted."""
    yield
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    begun.clear()


def begin(folder, *args):
    """An elastic training as a process of its own."""
    with (folder / f"{time.monotonic_ns()}.err").open("w") as errors:
        begun.append(subprocess.Popen([sys.executable, str(PROGRAM), str(folder), *args], stdout=subprocess.PIPE,
                                      stderr=errors, text=True, start_new_session=True,
                                      env={**os.environ, "OMP_NUM_THREADS": "1"}))
    return begun[-1]


def said(folder):
    """What all commands have written to standard error."""
    return "".join(path.read_text() for path in sorted(folder.glob("*.err")))


def below(pid):
    """Processes below one: ranks by number, and agents."""
    parents, ranks, agent = {}, {}, []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                values = dict(item.partition("=")[::2] for item in (entry / "environ").read_text().split("\0"))
                line = (entry / "cmdline").read_text()
            except OSError:
                continue
            if "RANK" in values:
                ranks[int(entry.name)] = int(values["RANK"])
            elif "brain_training.parallel.elastic" in line:
                agent.append(int(entry.name))

    def under(process):
        while process > 1 and process != pid:
            process = parents.get(process, 0)
        return process == pid

    return {rank: process for process, rank in ranks.items() if under(process)}, [a for a in agent if under(a)]


def log(folder):
    """(step, ranks, time) of each step that rank 0 has done."""
    path = folder / "log"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(int(step), int(world), float(when)) for step, world, when in lines]


def until(what, folder, *processes):
    """Waits until something is true."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end and all(its.poll() is None for its in processes), said(folder)
        time.sleep(0.05)


def done(process, folder):
    """What a command told."""
    try:
        out, _ = process.communicate(timeout=PATIENCE)
    finally:
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
    assert process.returncode == 0, said(folder)
    return json.loads(out.splitlines()[-1])


@pytest.fixture
def undisturbed():
    """The weights of two ranks that nobody kills."""
    return tasks.sha(ShardsTrainer(tasks.Spikes(), 5, shards=2).run())


@pytest.mark.extended("rank 0", "rank 1")
@pytest.mark.slow
@pytest.mark.parametrize("who", ["rank 0", "rank 1", "agent"])
def test_what_is_killed_starts_again_and_the_weights_are_those_of_an_undisturbed_run(tmp_path, undisturbed, who):
    process = begin(tmp_path, "1:1", "-", "20")
    until(lambda: log(tmp_path) and log(tmp_path)[-1][0] == 20, tmp_path, process)
    ranks, (agent,) = below(process.pid)
    os.kill({"rank 0": ranks[0], "rank 1": ranks[1], "agent": agent}[who], signal.SIGKILL)
    (tmp_path / "on").touch()
    assert done(process, tmp_path) == {"sha": undisturbed, "world": 2}
    steps = [step for step, _, _ in log(tmp_path)]
    again = steps[steps.index(20) + 1]
    assert 19 <= again <= 21 and steps[-1] == 50        # from the newest checkpoint, of that step or the one before
    words = "the agent was killed by SIGKILL" if who == "agent" else r"start again, from 0000\d\d-step-\d\d"
    assert re.search(words, said(tmp_path)), said(tmp_path)
    assert not any(Path(f"/proc/{pid}").exists() for pid in (*ranks.values(), agent))


@pytest.mark.extended
def test_another_agent_joins_and_one_that_is_killed_leaves_the_rest_to_the_other(tmp_path):
    serving = subprocess.Popen([sys.executable, "-m", store], stdout=subprocess.PIPE, text=True)
    try:
        at = f"localhost:{serving.stdout.readline().strip()}"
        one = begin(tmp_path, "1:2", at, "15")
        until(lambda: log(tmp_path) and log(tmp_path)[-1][0] == 15, tmp_path, one, serving)
        two = begin(tmp_path, "1:2", at, "30")
        until(lambda: len(below(two.pid)[0]) == 2, tmp_path, one, two)
        (tmp_path / "on").touch()
        until(lambda: log(tmp_path)[-1][1] == 4, tmp_path, one, two)
        os.killpg(two.pid, signal.SIGKILL)      # the whole of it
        two.wait()
        assert done(one, tmp_path)["world"] == 2 and log(tmp_path)[-1][:2] == (50, 2)
        with pytest.raises(TrainingError, match="no store at localhost:1 .*start one with"):
            first("localhost:1", "tiny")
        late = begin(tmp_path, "1:2", at, "-")
        late.communicate(timeout=PATIENCE)
        assert late.returncode == 1 and "is over; start another store" in said(tmp_path)
    finally:
        serving.kill()
        serving.wait()


@pytest.mark.extended
@pytest.mark.slow
def test_a_rank_that_says_why_is_not_started_again(tmp_path):
    process = begin(tmp_path, "1:1", "-", "-", "wrong")
    assert process.wait(PATIENCE) == 1
    assert said(tmp_path).count("is nan after 12 steps") == 1 and "start again" not in said(tmp_path), said(tmp_path)
    assert [step for step, _, _ in log(tmp_path)] == list(range(1, 13))


@pytest.mark.extended
@pytest.mark.timeout(1800)
def test_the_command_makes_the_file_of_an_undisturbed_run(tmp_path):
    """Two ranks of motor, of which one is killed, and one process with as many shards."""
    def command(folder, *options):
        folder.mkdir()
        with (tmp_path / f"{folder.name}.err").open("w") as errors:
            return subprocess.Popen([sys.executable, "-m", "brain", "train", "motor", "--quick", "--out",
                                     str(folder / "m.safetensors"), *options], stdout=subprocess.PIPE, stderr=errors,
                                    text=True, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    part, whole = tmp_path / "part", tmp_path / "whole"
    process = command(part, "--parallel", "dp=2", "--elastic", "1:2", "--checkpoint-every", "0")
    until(lambda: all_of(part / "m.checkpoints"), tmp_path, process)
    os.kill(below(process.pid)[0][1], signal.SIGKILL)
    out, _ = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0 and "weights written to" in out, said(tmp_path)
    assert "the ranks of this agent start again, from 0000" in said(tmp_path)
    alone = command(whole, "--shards", "2", "--threads", "1")
    assert alone.wait(2 * PATIENCE) == 0, said(tmp_path)
    for name in ("m.safetensors", "m_ann.safetensors"):
        assert (part / name).read_bytes() == (whole / name).read_bytes()
    assert {path.name for path in part.iterdir()} == {"m.safetensors", "m_ann.safetensors"}


def test_what_cannot_be_elastic_is_named_with_the_remedy():
    assert agents("1:4") == (1, 4) and Plan(dp=2, zero=3).scaled(6) == Plan(dp=6, zero=3)
    for how, words in ((How(Plan(dp=2), elastic=(3, 2)), "--elastic 3:2 cannot be; give the least"),
                       (How(Plan(ps=2), elastic=(1, 1)), "has servers, whose workers may come and go"),
                       (How(Plan(tp=2), elastic=(1, 2)), "adds ranks of dp, and tp=2 takes none; give --elastic 1:1"),
                       (How(elastic=(1, 2)), "--elastic is of training by several processes"),
                       (How(Plan(dp=2), store="a:1"), "--store is of agents that come and go"),
                       (How(Plan(dp=2), elastic=(1, 2), store="here"), "--store here is no place; give HOST:PORT")):
        with pytest.raises(PlanError, match=re.escape(words)):
            how.check("cpu")
    for text in ("4", "a:b", "1:", ":2"):
        with pytest.raises(PlanError, match="give the least and the most agents"):
            agents(text)
    assert Spec(1, 2, 2, "a:1", "x", [], "r", []).most == 2

# SPDX-License-Identifier: Apache-2.0
"""Ranks that die or stand still: the others do the step again, and have the bits of so many from there on."""
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
import torch.distributed as dist

from brain_training.parallel.how import How
from brain_training.parallel.plan import Plan, PlanError
from brain_training.parallel.shards import ShardsTrainer
from brain_training.parallel.surviving import decision

PROGRAM = Path(__file__).with_name("programs") / "survive_main.py"
PATIENCE = 240.0        # s: ranks start slowly where others use the cores
NEVER, ALWAYS = "1e9", "0"      # checkpoints, but for the last
SEED = 5
MARK = "SURVIVE_TEST"   # variable of all processes of a training


class Training:
    """A command that has started ranks, which hold where they are told to.

    Args:
        folder: of the training.
        args: of the program, or of ``brain`` where they begin with ``train``.
        cwd: folder in which it runs.
        environment: beside that of the test.
    """

    def __init__(self, folder, *args, cwd=None, **environment):
        self.folder, self._errors = folder, folder / "err"
        line = ["-m", "brain", *args] if args[0] == "train" else [str(PROGRAM), str(folder), *args]
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen([sys.executable, *line], stdout=subprocess.PIPE, stderr=errors, text=True,
                                            start_new_session=True, cwd=cwd,
                                            env={**os.environ, "OMP_NUM_THREADS": "1", MARK: str(folder),
                                                 **environment})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def said(self):
        """What the command and its ranks wrote to standard error."""
        return self._errors.read_text()

    def until(self, what):
        """Waits until something is true, while the command runs."""
        end = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < end and self.process.poll() is None, self.said()
            time.sleep(0.02)

    def log(self):
        """(step, ranks, which of them was the first) of each step."""
        path = self.folder / "log"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(int(step), int(size), int(first)) for step, size, _, first in lines]

    def at(self, step):
        """Waits until the first rank holds after a step."""
        self.until(lambda: step in [line[0] for line in self.log()])

    def ranks(self):
        """Processes by the numbers with which they began."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit():
                    values = dict(item.partition("=")[::2] for item in (entry / "environ").read_text().split("\0"))
                    if values[MARK] == str(self.folder):
                        found[int(values["RANK"])] = int(entry.name)
            except (OSError, KeyError):
                continue
        return found

    def signal(self, rank, number):
        os.kill(self.ranks()[rank], number)

    def go_on(self, where):
        (self.folder / f"on-{where}").touch()

    def ends(self, status=0):
        """What the command told."""
        out, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == status, self.said()
        assert not self.ranks()
        return json.loads(out.splitlines()[-1]) if status == 0 else self.said()


def trained(folder, *parts):
    """Hash of the weights of one process that makes steps as so many ranks do, then as others, by checkpoints."""
    for shards, end in parts:
        trainer = ShardsTrainer(tasks.Spikes(), SEED, shards=shards, checkpoint=folder / "reference.checkpoint")
        trainer.resume()
        while trainer.step < end:
            trainer.advance()
        trainer.save()
    return tasks.sha(trainer.network)


@pytest.mark.extended
@pytest.mark.slow
def test_two_of_three_ranks_die_one_after_the_other_and_the_last_one_goes_on_from_memory(tmp_path):
    """Rank 2 dies when rank 0 alone has what belongs to step 21, so that rank 1 is behind, and gets it; then rank 0."""
    with Training(tmp_path, "dp=3", NEVER, "1", "torn-20,35") as training:
        training.at(35)
        training.signal(0, signal.SIGKILL)
        training.go_on(35)
        told = training.ends()
    assert told["sha"] == trained(tmp_path, (3, 21), (2, 35), (1, 50)) and told["losses"] == 50
    assert {path.name for path in tmp_path.glob("handed-*")} == {"handed-by-0-to-0-at-21", "handed-by-0-to-1-at-20"}
    assert training.log() == [(step, *((3, 0) if step <= 21 else (2, 0) if step <= 35 else (1, 1)))
                              for step in range(1, 51)]
    for words in ("rank 2 died, which leaves 2 of 3; on with step 22 of 50 from memory", "rank 0 of 3 was killed by "
                  "SIGKILL", "rank 0 died, which leaves 1 of 3; on with step 36 of 50 from memory"):
        assert words in training.said(), training.said()
    assert told["first"] == 1 and len(told["cost"]["notes"]) == 2


@pytest.mark.extended
def test_with_zero_1_they_go_on_from_the_newest_checkpoint_and_another_rank_examines(tmp_path):
    with Training(tmp_path, "dp=3,zero=1", ALWAYS, "1", "20,end") as training:
        training.at(20)
        training.signal(1, signal.SIGKILL)
        training.go_on(20)
        training.at(50)
        training.until(lambda: (tmp_path / "examines").exists())
        training.signal(0, signal.SIGKILL)
        training.go_on("end")
        told = training.ends()
    assert told["sha"] == trained(tmp_path, (3, 20), (2, 50)) and told["first"] == 2
    assert re.search("rank 1 died, which leaves 2 of 3; on with step 21 of 50 from the newest checkpoint, since a dead "
                     "rank takes its part of the optimizer of zero=1 along", training.said()), training.said()
    assert "rank 0 died, which leaves 1 of 3; on with the examination of what was trained" in training.said()
    assert [path.name for path in tmp_path.glob("weights-*")] == ["weights-2"]


@pytest.mark.extended
@pytest.mark.slow
def test_ranks_that_stand_still_for_too_long_write_nothing(tmp_path):
    """Rank 2 is refused when it wakes. Rank 0 might write what rank 1 writes now, and is ended."""
    with Training(tmp_path, "dp=3", ALWAYS, "1", "20,30,40", BRAIN_COLLECTIVES_LEASE="1.5") as training:
        training.at(20)
        training.signal(2, signal.SIGSTOP)
        training.go_on(20)
        training.at(30)
        training.signal(2, signal.SIGCONT)
        training.until(lambda: "rank 2: " in training.said())
        training.signal(0, signal.SIGSTOP)
        training.until(lambda: "rank 0 stood still for too long, and was ended: rank 1 writes" in training.said())
        training.go_on(30)
        training.at(40)
        assert list(training.ranks()) == [1]
        training.go_on(40)
        told = training.ends()
    assert told["sha"] == trained(tmp_path, (3, 20), (2, 30), (1, 50)) and told["first"] == 1
    assert re.search(r"rank 2: (rank \d took this rank \(rank 2\) for dead, since it stood still|the others went on "
                     r"without this rank).*; this process ends, and writes nothing", training.said()), training.said()
    assert "Traceback" not in training.said()
    assert [path.name for path in tmp_path.glob("weights-*")] == ["weights-1"]


@pytest.mark.extended
@pytest.mark.slow
def test_with_fewer_ranks_than_are_asked_for_the_training_ends_and_its_checkpoint_stays(tmp_path):
    with Training(tmp_path, "dp=2", ALWAYS, "2", "20") as training:
        training.at(20)
        training.signal(0, signal.SIGKILL)
        said = training.ends(1)
    assert "rank 0 died, which leaves 1 of 2 ranks, fewer than --survivors 2; go on from the last checkpoint" in said
    (tmp_path / "s.checkpoint").rename(tmp_path / "reference.checkpoint")
    assert trained(tmp_path, (2, 50)) == trained(tmp_path / "alone", (2, 50))


@pytest.mark.slow
def test_a_rank_that_dies_before_the_ranks_have_met_ends_the_training_at_once(tmp_path):
    with Training(tmp_path, "dp=2", ALWAYS, "1", "") as training:
        training.until(lambda: 1 in training.ranks())
        training.signal(1, signal.SIGKILL)
        assert "rank 1 of 2 was killed by SIGKILL" in training.ends(1)
    assert not training.log()


@pytest.mark.extended
@pytest.mark.slow
def test_who_finds_others_written_down_as_those_that_go_on_ends(tmp_path):
    with Training(tmp_path, "dp=2", ALWAYS, "1", "20") as training:
        training.at(20)
        values = Path(f"/proc/{training.ranks()[0]}/environ").read_text().split("\0")
        port = next(int(its.partition("=")[2]) for its in values if its.startswith("MASTER_PORT="))
        store = dist.TCPStore("127.0.0.1", port, is_master=False)
        assert store.compare_set(decision(1), "", "[0, 1]") == b"[0, 1]"
        training.signal(1, signal.SIGKILL)
        training.go_on(20)
        said = training.ends(1)
    assert "rank 1 of 2 was killed by SIGKILL" in said and "Traceback" not in said, said
    assert training.log()[-1] == (20, 2, 0) and not list(tmp_path.glob("weights-*"))


@pytest.mark.slow
def test_the_command_ends_well_with_its_weight_files_when_rank_0_was_killed(tmp_path):
    """The spiking network has its last line in the log, and the other one is in the middle; then rank 0 is killed."""
    out, hold = tmp_path / "out", tmp_path / "hold"
    out.mkdir()
    hold.touch()
    with Training(tmp_path, "train", "served_tasks:Both", "--quick", "--out", str(out / "m.safetensors"), "--parallel",
                  "dp=2", "--backend", "zenoh", "--survive", "--log", str(tmp_path / "lines"), "--json",
                  cwd=PROGRAM.parents[1] / "served", HOLD=str(hold), HOLDS="ann") as training:
        training.until(lambda: (tmp_path / "lines").exists())
        training.signal(0, signal.SIGKILL)
        hold.unlink()
        out_text, _ = training.process.communicate(timeout=2 * PATIENCE)
    assert training.process.returncode == 0, training.said()
    told = json.loads(out_text)
    assert told["network"] == "served_tasks:Both" and set(told) >= {"spiking", "ann", "files"}
    assert {path.name for path in out.iterdir()} == {"m.safetensors", "m_ann.safetensors"}
    words = "rank 0 died, which leaves 1 of 2; on (with|after the last) step"
    assert re.search(words, training.said()), training.said()


def test_what_cannot_survive_is_named_with_the_remedy():
    good = {"backend": "zenoh", "survive": True}
    for plan in (Plan(dp=2), Plan(dp=3, zero=1)):
        How(plan, **good, survivors=2).check("cpu")
    for how, words in (
            (How(Plan(dp=2, zero=3), **good), "a dead rank takes along what no other has; give --elastic 1:1"),
            (How(Plan(dp=2, zero=2), **good), "with dp=2,zero=2 a dead rank takes along"),
            (How(Plan(dp=4, zero=1, shard=2), **good), "give --elastic 1:1"),
            (How(Plan(tp=2), **good), "or dp alone or with zero=1"), (How(Plan(dp=2, pp=2), **good), "--elastic 1:1"),
            (How(Plan(ps=2), **good), "has servers, whose workers may come and go"),
            (How(Plan(dp=1), **good), "dp=1 is one; give dp=2"),
            (How(Plan(dp=2), survive=True), "the backend that tells who died; give --backend zenoh"),
            (How(Plan(dp=2), "gloo", survive=True), "give --backend zenoh"),
            (How(Plan(dp=2), **good, elastic=(1, 1)), "starts all ranks again where one dies, --survive none"),
            (How(Plan(dp=2), **good, survivors=3), "--survivors 3 cannot be of dp=2; give 1 to 2"),
            (How(Plan(dp=2), survivors=2), "give --survive too"),
            (How(Plan(dp=2), **good, offload="optimizer", offload_folder=Path("x")), "leave one of them out"),
            (How(survive=True), "--survive is of training by several processes")):
        with pytest.raises(PlanError, match=re.escape(words)):
            how.check("cpu")

# SPDX-License-Identifier: Apache-2.0
"""A training that is killed with SIGKILL and resumed writes the file that an uninterrupted one writes, to the bit."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brain.cli import app

PATIENCE = 240.0     # s; only ends a hang
SERVED = Path(__file__).with_name("served")
TRAIN = """
import os, signal, sys
from pathlib import Path
from brain_training.runs import Settings, train_networks

out, name, networks, resume, bar, at = sys.argv[1:]
told = []

def tell(what, done, of, note):
    told.append((what, done))
    if what == bar and done == int(at):
        os.kill(os.getpid(), signal.SIGKILL)

settings = Settings(seed=2, quick=True, threads=1, period=0, resume=bool(int(resume)), log=Path(out + ".log"))
train_networks(name, networks.split(), Path(out), settings, tell)
print(*(done for what, done in told if what == "spiking"))
"""


def train(out: Path, name: str, networks: str, resume: bool = False, bar: str = "", at: int = 0):
    """A training in a process of its own, that kills itself when a bar stands at ``at``."""
    out.parent.mkdir(exist_ok=True)
    return subprocess.run([sys.executable, "-c", TRAIN, str(out), name, networks, str(int(resume)), bar, str(at)],
                          capture_output=True, text=True, timeout=400)


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(("name", "networks", "bar", "at", "left"), [
    ("vision", "spiking ann", "spiking", 2, "3"),      # in the middle
    ("vision", "spiking ann", "ann", 1, ""),          # when one network is done
    ("language", "spiking", "spiking", 21, "22"),       # in a chapter in which what was hard comes again
    ("motor", "spiking", "spiking", 2, "3"),            # in a round
    ("motor", "spiking", "drives (spiking)", 60, "4"),  # in the drives of the second
])
def test_killed_and_resumed_is_as_uninterrupted(tmp_path, name, networks, bar, at, left):
    whole, part = (tmp_path / folder / f"{name}.safetensors" for folder in ("whole", "part"))
    done = train(whole, name, networks)
    assert done.returncode == 0, done.stderr
    killed = train(part, name, networks, False, bar, at)
    assert killed.returncode == -signal.SIGKILL and not part.exists(), killed.stderr
    assert part.with_suffix(".checkpoint").is_file()
    resumed = train(part, name, networks, True)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.split()[:1] == left.split()       # it did not begin anew
    for file in [f"{name}.safetensors", *([f"{name}_ann.safetensors"] if "ann" in networks else [])]:
        assert (part.parent / file).read_bytes() == (whole.parent / file).read_bytes(), file


@pytest.mark.slow
def test_the_command_goes_on_after_it_was_killed(tmp_path, monkeypatch):
    """Two networks, in processes of their own that end with the command."""
    brain = [Path(sys.executable).with_name("brain"), "train", "served_tasks:Both", "--quick", "--seed", "2", "--out"]
    whole, part, kept = tmp_path / "whole" / "v.safetensors", tmp_path / "part" / "v.safetensors", tmp_path / "kept"
    monkeypatch.chdir(SERVED)
    anew = CliRunner().invoke(app, [*map(str, brain[1:]), str(whole), "--resume"])
    assert anew.exit_code == 0, anew.output
    assert f"there is no checkpoint of served_tasks:Both in {whole.parent}" in " ".join(anew.stderr.split())
    hold = tmp_path / "hold"
    hold.touch()
    command = subprocess.Popen([*brain, part, "--checkpoint", kept, "--checkpoint-every", "0"],
                               env={**os.environ, "HOLD": str(hold)}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        while len(list(kept.glob("*.checkpoint"))) < 2 and command.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert command.poll() is None, "it ended before it could be killed"
    finally:
        os.kill(command.pid, signal.SIGKILL)
        command.wait()
    assert list(kept.glob("v*.checkpoint")) and not part.exists()
    told = subprocess.run([*brain, part, "--checkpoint", kept, "--resume"], capture_output=True, text=True, timeout=400)
    assert told.returncode == 0 and "no checkpoint" not in told.stderr, told.stderr
    for file in ("v.safetensors", "v_ann.safetensors"):
        assert (part.parent / file).read_bytes() == (whole.parent / file).read_bytes(), file
    assert not list(kept.glob("*.checkpoint"))      # nothing is left to resume from


def test_what_another_training_writes_is_left_alone(tmp_path):
    from brain_training.checkpoint import CheckpointError, held
    from brain_training.runs import Settings, train, train_all

    settings = Settings(quick=True)
    with held(tmp_path / "motor_ann.checkpoint"):
        with pytest.raises(CheckpointError, match="another training is writing .*motor_ann.checkpoint"):
            train("motor", tmp_path / "motor.safetensors", settings, lambda *told: None)
        with pytest.raises(CheckpointError, match="another training is writing .*motor_ann.checkpoint"):
            next(train_all(tmp_path, settings, lambda *told: None, ["language", "motor"]))
    assert not list(tmp_path.iterdir())

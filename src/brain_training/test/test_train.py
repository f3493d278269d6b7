# SPDX-License-Identifier: Apache-2.0
"""`brain train`: every network is made anew by one command, and what is worth nothing replaces nothing."""
import json
import re

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_training.runs import Settings, train_all
from brain_training.task import TrainingError


@pytest.mark.extended
def test_all_networks_are_trained_by_one_command(tmp_path):
    told = CliRunner().invoke(app, ["train", "all", "--quick", "--out", str(tmp_path), "--json"])
    assert told.exit_code == 0, told.output
    report = json.loads(told.stdout)
    for name in ("vision", "language", "motor"):
        files = {tmp_path / f"{name}{ann}.safetensors" for ann in ("", "_ann")}
        assert files == set(tmp_path.glob(f"{name}*"))
        assert report[name]["files"] == [str(tmp_path / f"{name}{ann}.safetensors") for ann in ("", "_ann")]
    assert report["took_s"] > 0 and "teacher" in report["motor"] and report["vision"]["spiking"]["objects"] > 0


@pytest.mark.parametrize("name", ["vision", "language", "motor", "all"])
def test_a_tiny_run_never_replaces_what_is_shipped(name):
    told = CliRunner().invoke(app, ["train", name, "--quick"])
    assert told.exit_code == 2 and "--out" in told.output


@pytest.mark.parametrize("name", ["vision", "language", "motor", "all"])
def test_where_nothing_can_be_written_nothing_is_trained(tmp_path, name):
    (tmp_path / "file").write_text("kept")
    out = tmp_path / "file" if name == "all" else tmp_path / "file" / "weights.safetensors"
    told = CliRunner().invoke(app, ["train", name, "--out", str(out)])
    assert told.exit_code == 1 and "cannot write the weights" in told.output and "--out" in told.output
    told = CliRunner().invoke(app, ["train", name, "--out", str(tmp_path), "--checkpoint", str(tmp_path / "file")])
    assert told.exit_code == 2 and "--checkpoint" in told.output and "is a file" in told.output
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.slow
def test_one_training_that_fails_takes_none_of_the_others_down(tmp_path):
    found = []
    (tmp_path / "language.safetensors").mkdir()     # where it is to write a file
    with pytest.raises(TrainingError, match=r"training of language \(ann\) failed: .*Is a directory"):
        for made in train_all(tmp_path, Settings(quick=True), lambda *news: None, names=("language", "motor")):
            found.append(made["network"])
    assert found == ["motor"] and (tmp_path / "motor.safetensors").is_file()


@pytest.mark.parametrize(("options", "why"), [
    (["nothing"], "there is no training 'nothing'; there are vision, language, motor and all"),
    (["vision", "--device", "cuda:99"], "there is no device 'cuda:99' here .*; use --device cpu"),
    (["vision", "--device", "tea"], "there is no device 'tea' here .*; use --device cpu"),
    (["motor", "--log", "/nowhere/log"], "cannot write /nowhere/log")])
def test_what_cannot_be_is_told_in_one_line(tmp_path, options, why):
    told = CliRunner().invoke(app, ["train", *options, "--quick", "--out", str(tmp_path / "a.safetensors")])
    assert told.exit_code in (1, 2) and re.search(why, told.output) and not list(tmp_path.iterdir())

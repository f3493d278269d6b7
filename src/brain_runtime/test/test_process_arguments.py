# SPDX-License-Identifier: Apache-2.0
"""What is wrong on a region's command line is said in one line, before anything is opened."""
import os
import subprocess
import sys

import pytest

from brain_runtime.hosts.process_arguments import arguments
from brain_runtime.run.state_folder import StateFolderProblem, usable

REGION = ("--class", "no_such_package:None")


@pytest.fixture
def places(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "closed").mkdir(mode=0o500)
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


@pytest.mark.parametrize("where", ["file", "file/below", "loop", "n" * 300, "/proc/no/where", "closed/below"])
def test_a_folder_that_can_hold_no_snapshots_is_refused_at_start(places, where):
    folder = places / where
    if where.startswith("closed") and os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    with pytest.raises(StateFolderProblem, match="no snapshot can be kept in .*; name a folder"):
        usable(folder)
    done = subprocess.run([sys.executable, "-m", "brain_runtime.process", *REGION, "--state-dir", folder],
                          capture_output=True, text=True, timeout=400)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("cannot start: argument --state-dir: no snapshot can be kept in ")
    assert done.stderr.count("\n") == 1


def test_a_folder_is_made_and_left_empty(tmp_path):
    folder = arguments("p").parse_args([*REGION, "--state-dir", str(tmp_path / "a" / "b")]).state_dir
    assert folder == tmp_path / "a" / "b" and list(folder.iterdir()) == []
    assert arguments("p").parse_args(REGION).state_dir is None


@pytest.mark.parametrize("wrong, says", [
    (("--seed", "x"), "argument --seed: invalid int value: 'x'"), (("--seeds", "1"), "unrecognized arguments"),
    ((), "required: --class")])
def test_other_arguments_that_are_wrong_are_told_in_one_line_too(capsys, wrong, says):
    with pytest.raises(SystemExit) as ended:
        arguments("p").parse_args([*(REGION if wrong else ()), *wrong])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("cannot start: ") and says in error and error.count("\n") == 1

# SPDX-License-Identifier: Apache-2.0
"""Episodes that are recorded into bags."""
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from brain import cli
from brain_eval.episodes import Record, run_local
from brain_sim.suite import episodes


def test_an_episode_that_is_recorded_is_the_same_and_none_is_written_over(tmp_path):
    episode = replace(next(e for e in episodes("val", 60) if e.kind == "go" and e.visibility == "front"),
                      time_limit=10.0)      # it is reached in 7 s
    plain = run_local(episode)
    record = Record(tmp_path, "sqlite3")
    recorded = run_local(episode, record=record)
    assert {k: v for k, v in recorded.items() if k != "wall"} == {k: v for k, v in plain.items() if k != "wall"}
    assert {file.suffix for file in record.bag(episode).iterdir()} == {".db3", ".yaml"}
    with pytest.raises(FileExistsError, match="is there already; name another folder"):
        run_local(episode, record=record)


@pytest.mark.parametrize(("option", "says"), [
    (["--policy", "oracle"], "--record writes what a brain in lockstep senses"), (["--storage", "tape"], "mcap and")])
def test_what_cannot_be_recorded_is_refused(tmp_path, option, says):
    done = CliRunner().invoke(cli.app, ["eval", "--episodes", "1", "--record", str(tmp_path / "bags"), *option])
    assert done.exit_code == 2 and says in done.output.replace("\n", " ")

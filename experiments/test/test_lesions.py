# SPDX-License-Identifier: Apache-2.0
"""What `brain bench lesions` plays, keeps and compares."""
import json

import pytest
from typer.testing import CliRunner

from brain import cli
from brain_eval import ablations
from experiments import lesions
from experiments.lesions import GROUNDS, KINDS, OTHERS, Run

SEED = 8       # of a suite whose second episode has its target in view


def row(number, outcome, ground="plain"):
    (*_, chosen) = lesions.episodes(GROUNDS[ground], "val", SEED, number + 1)
    return {"id": chosen.id, "kind": chosen.kind, "lang": "en", "visibility": "front", "outcome": outcome,
            "success": outcome == "success", "time": 9.0, "spl": 0.5, "reason": "", "spikes": 5, "synops": 9,
            "simulated": 9.5, "wall": 1.5, "commit": "abc"}


def write(folder, run, rows, **other):
    head = {**lesions.made_with(run, "val", SEED), **other}
    run.path(folder).parent.mkdir(parents=True, exist_ok=True)
    run.path(folder).write_text("".join(json.dumps(line) + "\n" for line in (head, *rows)), encoding="utf-8")


def invoke(folder, *options):
    return CliRunner().invoke(cli.app, ["bench", "lesions", "--pairs", "2", "--seed", str(SEED), "--folder",
                                        str(folder), *options])


@pytest.mark.extended
def test_every_population_has_its_rows_and_everything_can_be_taken_away():
    every = lesions.runs()
    silent = {run.lesion.removesuffix("=silent") for run in every if run.lesion.endswith("=silent")}
    assert silent == {f"{region}.{population.name}" for region, cls in ablations.declared("brain").items()
                      for population in cls.populations}
    assert {run.lesion for run in every} >= {*OTHERS, ""} and {run.ground for run in every} == set(GROUNDS)
    for run in every:
        ablations.parse(lesions.made_with(run, "val", 0)["ablated"])
    # the whole brain comes first on each ground
    grounds = [run.ground for run in every]
    assert all(not every[grounds.index(ground)].lesion for ground in GROUNDS)
    assert len({run.path(lesions.FOLDER) for run in every}) == len(every)


def test_some_rows_alone_bring_the_whole_brain_with_them():
    assert lesions.runs(["pfc.avoid=silent"]) == [Run("", "avoid"), Run("pfc.avoid=silent", "avoid")]
    assert {run.lesion for run in lesions.runs(["pfc.avoid"])} == {"", *(f"pfc.avoid={kind}" for kind in KINDS)}
    assert all(run.lesion.endswith("=silent") or not run.lesion for run in lesions.runs(["silent"]))
    with pytest.raises(ValueError, match="no pfc.gone in the table; there are vision.edges, .*=passive, silent"):
        lesions.runs(["pfc.gone"])


def test_grounds_are_what_they_say():
    assert {e.kind for e in lesions.episodes(GROUNDS["avoid"], "val", 1, 20)} == {"avoid"}
    assert {e.low_obstacles for e in lesions.episodes(GROUNDS["low"], "val", 1, 4)} == {3}
    plain, more = (lesions.episodes(GROUNDS["plain"], "val", 1, n) for n in (5, 9))
    assert plain == more[:5]


@pytest.mark.extended
def test_pairs_are_of_the_same_episodes_and_what_was_not_played_is_empty(tmp_path):
    write(tmp_path, Run("", "plain"), [row(n, "success") for n in range(4)])
    write(tmp_path, Run("vision.edges=silent", "plain"), [row(2, "contact"), row(0, "timeout"), row(1, "success")])
    found = lesions.report(tmp_path, "val", SEED, 3)
    edges = next(r for r in found["populations"] if r["what"] == "vision.edges")
    assert edges["silent"]["n"] == 3 and edges["silent"]["success"]["difference"] == pytest.approx(-2 / 3, abs=1e-4)
    assert edges["silent"]["contact"]["difference"] == pytest.approx(1 / 3, abs=1e-4)
    assert edges["drop"] is None and edges["shuffle"] is None and found["commits"] == ["abc"]
    fewer = lesions.report(tmp_path, "val", SEED, 1)["populations"]
    assert next(r for r in fewer if r["what"] == "vision.edges")["silent"]["n"] == 1
    assert all(r["off"] is None for r in found["others"])


def test_episodes_of_other_weights_are_not_mixed_in(tmp_path):
    write(tmp_path, Run("", "plain"), [row(0, "success")], weights={})
    result = invoke(tmp_path, "--only", "vision.edges=silent")
    assert result.exit_code == 2 and "brain.jsonl holds episodes of another weights; move it away" in result.stderr


def test_a_torn_line_is_played_again(tmp_path):
    run = Run("", "plain")
    write(tmp_path, run, [row(0, "success"), row(1, "success")])
    whole = run.path(tmp_path).read_text()
    run.path(tmp_path).write_text(whole[:-20])
    assert len(lesions.kept(run.path(tmp_path), lesions.made_with(run, "val", SEED))) == 1
    assert whole.startswith(run.path(tmp_path).read_text()) and run.path(tmp_path).read_text().endswith("\n")


@pytest.mark.extended
def test_what_was_interrupted_goes_on(tmp_path):
    """The whole brain has played both episodes, the lesion one of them."""
    write(tmp_path, Run("", "plain"), [row(n, "success") for n in range(2)])
    write(tmp_path, Run("lexicon=off", "plain"), [row(0, "timeout")])
    result = invoke(tmp_path, "--only", "lexicon=off", "--json")
    assert result.exit_code == 0, result.output
    assert "2 runs of 2 episodes, of which 1 are to be played" in result.stderr
    found = next(r for r in json.loads(result.stdout)["others"] if r["what"] == "lexicon=off")
    assert found["off"]["n"] == 2 and found["off"]["after"]["n"] == 2
    kept = Run("lexicon=off", "plain").path(tmp_path).read_text().splitlines()
    assert len(kept) == 3 and json.loads(kept[1]) == row(0, "timeout") and json.loads(kept[2])["wall"] > 0
    again = invoke(tmp_path, "--only", "lexicon=off")
    assert "of which 0 are to be played" in again.stderr
    assert "lexicon=off, language-v1: -50.0 points" in again.stdout


@pytest.mark.extended
def test_a_file_of_other_episodes_is_refused_before_anything_is_played(tmp_path, monkeypatch):
    write(tmp_path, Run("lexicon=off", "plain"), [], split="test")
    monkeypatch.setattr(lesions, "play", lambda *_: pytest.fail("played"))
    told = invoke(tmp_path, "--only", "language.choice=silent")
    assert told.exit_code == 2 and "lexicon=off.jsonl holds episodes of another split" in told.output

# SPDX-License-Identifier: Apache-2.0
"""Differences between runs, what is kept of them, and other time limits."""
import json
import math

import pytest
from typer.testing import CliRunner

from brain import cli
from brain_eval import ablations, results
from brain_eval.compare import label
from brain_eval.episodes import run_local
from brain_sim.intervals import tango
from brain_sim.suite import episodes


def made_up(outcome, *, kind="go", lang="en", visibility="front", time=10.0, spl=0.5):
    return {"id": "x", "kind": kind, "lang": lang, "visibility": visibility, "outcome": outcome,
            "success": outcome == "success", "time": time, "spl": spl if outcome == "success" else 0.0,
            "synops": 1e6, "spikes": 1e4, "simulated": 20.0, "wall": 4.0}


def test_paired_differences():
    some = [{**made_up("success" if k % 2 else "contact"), "id": str(k)} for k in range(10)]
    better = [{**r, "outcome": "success"} for r in some]
    found = results.paired(better, some)
    assert found["n"] == 10 and found["success"]["difference"] == 0.5 and found["contact"]["difference"] == -0.5
    assert found["success"]["interval95"] == pytest.approx(tango(5, 0, 10), abs=1e-4)
    assert (found["success"]["gained"], found["success"]["lost"]) == (5, 0)
    assert (found["contact"]["gained"], found["contact"]["lost"]) == (0, 5)
    assert found["success"]["before"]["count"] == 5 and found["contact"]["before"]["share"] == 0.5
    same = results.paired(some, some)["success"]
    assert same["difference"] == 0.0 and same["interval95"] == pytest.approx([-0.2775, 0.2775], abs=1e-4)
    with pytest.raises(ValueError, match="no episode in common"):
        results.paired(some, [])


def test_paired_differences_of_times_are_of_what_both_reached_and_of_spl_of_all_that_was_to_be():
    before = [{**made_up("success", time=10.0 + k), "id": str(k)} for k in range(6)]
    before += [{**made_up("timeout", time=60.0), "id": "lost"},
               {**made_up("success", kind="stop", spl=1.0), "id": "halt"}]
    now = [{**r, "time": r["time"] + 2.0 + int(r["id"]) / 10} for r in before[:6]]
    now += [{**made_up("success", time=20.0), "id": "lost"}, {**before[7], "time": 99.0}]
    found = results.paired(now, before)
    assert found["n"] == 8 and found["time"]["n"] == 6 and found["time"]["difference"] == pytest.approx(2.25)
    low, high = found["time"]["interval95"]
    assert 2.0 <= low < 2.25 < high <= 2.5
    assert found["spl"]["n"] == 7 and found["spl"]["difference"] == pytest.approx(0.5 / 7, abs=1e-4)
    assert results.paired(before, before)["time"] == {"n": 6, "difference": 0.0, "interval95": None}
    failed = [{**r, "outcome": "timeout", "success": False} for r in before]
    assert results.paired(failed, before)["time"] == {"n": 0, "difference": None, "interval95": None}


def test_what_is_saved_keeps_what_comparisons_need(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    arguments = ["eval", "--policy", "tour", "--episodes", "12", "--seed", "1"]
    other = ["eval", "--policy", "oracle", "--episodes", "12", "--seed", "1"]
    for line in ([*arguments, "--out", "out.json", "--save", "one"], [*other, "--out", "other.json", "--save", "two"]):
        assert CliRunner().invoke(cli.app, line).exit_code == 0
    compared = [json.loads(CliRunner().invoke(cli.app, ["compare", *files, "--json"]).stdout)["results"]
                for files in (("out.json", "other.json"), ("results/one.json", "results/two.json"))]
    assert compared[0] == compared[1] and compared[0][1]["paired_with_first"]["time"]["n"] > 1
    text = (tmp_path / "results" / "one.json").read_text()
    assert sum('"language-v1/val/1/' in line for line in text.splitlines()) == 12   # a line for each
    assert json.loads(text)["figures"]["suite"] == "language-v1.1"
    assert results.paired(results.read(tmp_path / "results" / "two.json")["results"],
                          results.read(tmp_path / "out.json")["results"]) == compared[0][1]["paired_with_first"]


def test_what_is_kept_of_an_episode_has_its_regions():
    some = [{**made_up("success"), "id": "a", "by_region": {"pfc": [3, 40.0], "vision": [1, 2.0]}},
            {**made_up("error", time=math.nan), "id": "b"}]
    there = results.unfolded(results.kept(some))
    assert there[0]["by_region"] == {"pfc": [0, 40.0], "vision": [0, 2.0]} and there[0]["success"]
    assert there[1]["by_region"]["pfc"] == [0, 0] and not there[1]["success"] and math.isnan(there[1]["time"])
    assert len(json.dumps(results.kept(some)["rows"][0])) < 120


def test_another_time_limit_ends_episodes_then_and_makes_no_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_local(episodes("val", 1, 1, time_limit=10.0)[0], "oracle")["outcome"] == "timeout"   # it takes 12.1 s
    usual = ["eval", "--policy", "oracle", "--episodes", "3", "--seed", "1", "--out"]
    assert CliRunner().invoke(cli.app, [*usual, "usual.json"]).exit_code == 0
    done = CliRunner().invoke(cli.app, [*usual, "short.json", "--time-limit", "12.5"])
    assert done.exit_code == 0 and "12.5 s" in done.stdout
    report = json.loads((tmp_path / "short.json").read_text())
    assert report["time_limit"] == 12.5
    assert [r["outcome"] for r in report["results"]] == ["success", "timeout", "timeout"]
    assert report["results"][1]["time"] == 12.5 and report["results"][1]["reason"] == "12.5 s passed"
    done = CliRunner().invoke(cli.app, [*usual, "x.json", "--against", "short.json"])
    assert done.exit_code == 2 and "no episode in common" in done.stderr and "--time-limit" in done.stderr
    told = CliRunner().invoke(cli.app, ["compare", "usual.json", "short.json", "--markdown"]).stdout
    assert "val 1: oracle, 12.5 s |" in told and "no pairs" in told
    done = CliRunner().invoke(cli.app, [*usual, "x.json", "--time-limit", "5"])
    assert done.exit_code == 2 and "time_limit is 5.0: use 10 to 3600 seconds" in done.stderr


def test_the_suite_has_a_name_with_and_without_its_minor_version():
    named = [results.environment(name)["suite"] for name in results.SUITES]
    assert named == ["language-v1.1", "language-v1.1", "language-v1.1-hard", "language-v1.1-hard"]
    assert {name: module.episode("val", 0).id for name, module in results.SUITES.items()} == {
        "language-v1": "language-v1/val/0/0", "language-v1.1": "language-v1/val/0/0",
        "language-v1-hard": "language-v1-hard/val/0/0", "language-v1.1-hard": "language-v1-hard/val/0/0"}
    report = {"policy": "brain", "split": "val", "seed": 1, "host": "local"}
    old, new = (label({**report, "suite": suite}) for suite in ("language-v1", "language-v1.1"))
    assert old == new == "val 1: brain"


@pytest.mark.parametrize("limit", [12.0, pytest.param(90.0, marks=pytest.mark.extended)])
def test_a_brain_that_gets_nowhere_is_judged_at_the_time_limit_of_its_episode(limit):
    episode = next(e for e in episodes("val", 40, 1, time_limit=limit) if e.kind == "go")
    result = run_local(episode, ablation=ablations.parse(["motor=silent"]))
    assert result["outcome"] == "timeout" and result["time"] == limit and result["id"] == episode.id


def test_a_name_that_stands_alone_plays_nothing():
    done = CliRunner().invoke(cli.app, ["eval", "language-v1-hard", "--policy", "oracle"])
    assert done.exit_code == 2 and "a suite is --suite NAME" in done.output


def test_a_region_costs_the_same_in_files_of_out_and_of_save():
    from brain_eval.compare import cost

    some = [{**made_up("success"), "id": "a", "simulated": 10.0, "by_region": {"motor": [3, 40.0]}},
            {**made_up("success"), "id": "b", "simulated": 10.0, "by_region": {}}]
    saved = results.unfolded(results.kept(some))
    assert cost({"results": some}, None, "motor") == cost({"results": saved}, None, "motor")

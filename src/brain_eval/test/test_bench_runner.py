# SPDX-License-Identifier: Apache-2.0
"""`brain bench`: what every experiment has from the one runner, and what is said where there is no checkout."""
import json
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from brain_eval.bench import verb
from brain_eval.bench.experiment import Experiment
from brain_eval.bench.rows import Table, rows
from brain_eval.bench.runner import command
from brain_eval import saved

TOP = Path(__file__).resolve().parents[3]
PNG = b"\x89PNG"


class Mine(Experiment):
    """Measures."""

    quick = {"rooms": 1}
    picture = "mine.png"
    cpu = True
    problems = (ValueError,)

    def measure(self, seed: int = 3, rooms: Annotated[int, typer.Option(min=0, help="Of them.")] = 20):
        if rooms == 13:
            raise ValueError("no room\nis called 13")
        return {"seconds": 0.5, "seed": seed, "rooms": rooms, "within": {"seconds": rooms < 20}}

    def rows(self, found):
        yield f"{found['seconds']} s"
        yield Table("rooms", ("room", "s"), [("first", "0.5")], caption="that is all")

    def draw(self, path, found):
        from matplotlib.figure import Figure

        Figure().savefig(path)


def run(*arguments, kind=Mine):
    own = typer.Typer()
    own.command()(command("mine", kind))
    return CliRunner().invoke(own, list(arguments))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    return tmp_path


def test_the_parameters_are_its_options_beside_those_that_all_have(tree):
    told = run("--help").output
    for option in ("--seed", "--rooms", "--json", "--save", "--quick", "--picture"):
        assert option in told
    assert "Measures." in told and run("--rooms", "-1").exit_code == 2


def test_lines_and_tables_are_told_and_the_bounds_are_the_exit_status(tree):
    done = run()
    assert done.exit_code == 1 and done.stdout.startswith("0.5 s\n")
    for word in ("rooms", "first", "0.5", "that is all"):
        assert word in done.stdout
    assert run("--rooms", "2").exit_code == 0


def test_quick_takes_the_place_of_what_is_not_given(tree):
    assert json.loads(run("--quick", "--json").stdout)["rooms"] == 1
    assert json.loads(run("--quick", "--rooms", "4", "--json").stdout)["rooms"] == 4


def test_what_json_tells_is_saved_with_all_that_it_was_measured_with(tree):
    result = run("--seed", "7", "--save")
    assert result.exit_code == 1 and result.output == f"wrote {Path('results/mine.json')}\n"
    found = json.loads((tree / "results" / "mine.json").read_text())
    assert list(found) == list(saved.FIELDS)
    told = json.loads(run("--seed", "7", "--json").stdout)
    assert found["figures"] == told and list(told)[0] == "cpu" and found["seeds"] == {"seed": 7}
    assert found["machine"]["cores"] >= 1 and found["machine"]["packages"]["numpy"] and found["machine"]["kernel"]
    assert (found["commit"] is None) == (not (TOP / ".git").exists())
    assert saved.read(tree / "results")["mine"] == found and saved.known("mine") == told


def test_nothing_is_measured_where_it_could_not_be_saved_or_drawn(tmp_path, monkeypatch):
    class Never(Mine):
        def measure(self):
            pytest.fail("it measured")

    monkeypatch.chdir(tmp_path)
    result = run("--save", kind=Never)
    assert result.exit_code == 2 and "there is no folder" in result.output
    (tmp_path / "file").touch()
    result = run("--picture", "file", kind=Never)
    assert result.exit_code == 2 and "cannot write to file" in result.output


def test_a_picture_is_drawn_under_either_name_of_the_option(tree):
    for option in ("--picture", "--pictures"):
        assert run(option, option[2:]).exit_code == 1
        assert (tree / option[2:] / "mine.png").read_bytes().startswith(PNG)


def test_a_problem_is_told_in_a_line_and_a_mistake_is_not_hidden(tree):
    done = run("--rooms", "13")
    assert done.exit_code == 1 and done.stderr == "brain: no room is called 13\n" and done.stdout == ""

    class Wrong(Mine):
        problems = (OSError,)
    assert isinstance(run("--rooms", "13", kind=Wrong).exception, ValueError)


def test_without_a_checkout_the_others_are_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(verb, "checkout", lambda: None)
    assert verb.known() == verb.INSTALLED
    done = CliRunner().invoke(verb.app, ["tls", "--blocks", "3"])
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    assert "'tls' installed; there are wire, brain, gaps, steps, pictures" in done.stderr and "git clone" in done.stderr


@pytest.mark.skipif(not (TOP / "experiments").is_dir(), reason="the experiments are not beside an installed package")
def test_a_checkout_is_found_by_its_code_or_from_within(monkeypatch, tmp_path):
    monkeypatch.chdir(TOP / "docs")
    assert verb.checkout() == TOP
    monkeypatch.setattr(verb, "__file__", str(tmp_path / "verb.py"))
    assert verb.checkout() == TOP
    monkeypatch.chdir(tmp_path)
    assert verb.checkout() is None


def test_figures_of_any_form_are_told_by_their_names():
    figures = {"cores": 2, "load": 0.25, "kept": True, "none": None, "ratio": [1.0, 0.5, 2.0], "all": list(range(9)),
               "trips": [{"size": "200 B", "host": {"p50": 0.00036, "spans": [[1, 2]]}}, {"size": "1 MiB", "lost": 3}],
               "sides": {"with": {"wrong": 1}, "without": {"wrong": 7}}, "killed": {"median": 1.5, "one": {"a": 1}},
               "each": [{"n": number} for number in range(40)]}
    trips, sides, *lines = rows(figures)
    assert trips == Table("trips", ["size", "host.p50", "host.spans", "lost"],
                          [["200 B", "0.00036", "(1)", ""], ["1 MiB", "", "", "3"]])
    assert sides == Table("sides", ["", "wrong"], [["with", "1"], ["without", "7"]])
    assert lines == ["killed.one: a 1", "killed: median 1.5", "each: 40 rows",
                     "cores 2, load 0.25, kept yes, none , ratio 1, 0.5, 2, all (9)"]


def test_many_columns_are_told_as_rows_where_there_are_few_and_else_in_parts():
    wide = {f"what it is {number}": number for number in range(12)}
    (turned,) = rows({"one": [wide, wide]})
    assert turned.headings == ["", "1", "2"] and turned.rows[3] == ("what it is 3", "3", "3")
    first, second = rows({"many": [wide] * 10})
    assert first.headings[0] == second.headings[0] == "what it is 0" and len(first.rows) == len(second.rows) == 10
    assert [*first.headings, *second.headings[1:]] == list(wide)
    assert all(sum(len(heading) + 3 for heading in part.headings) <= 118 for part in (first, second))

# SPDX-License-Identifier: Apache-2.0
"""Tables in README and docs are what `results/` says; what is not there is named, and --save writes what is."""
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brain_eval import tables
from brain.cli import app
from brain_eval import results
from brain_eval import saved
from brain_sim.intervals import tango

TOP = Path(__file__).resolve().parents[3]
PAGE = "# x\n\n<!-- results: speed -->\nold\n<!-- end -->\n\nafter\n"
FIGURES = {"trips": [{"p50": 0.000361}], "share": 0.98, "n": 400}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree with one result, one table and one page, and the working directory in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    saved.write("wire", FIGURES, {"seed": 3})
    (tmp_path / "results" / tables.TABLES).write_text(
        "speed: [{what: a trip, what_ja: 往復, of: wire, figure: '{trips.0.p50 1e6*.0f} µs, {share .1%} of {n}'}]\n")
    (tmp_path / "README.md").write_text(PAGE)
    return tmp_path


beside = pytest.mark.skipif(not (TOP / "results").is_dir(), reason="the results are not beside an installed package")


@beside
def test_the_committed_tables_are_those_of_the_results():
    made = tables.made(TOP)
    assert TOP / "README.md" in made and TOP / "docs" / "evidence.md" in made
    for page, text in made.items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: write its tables anew with `brain docs`"


@beside
def test_every_result_is_in_a_table():
    found = saved.read(TOP / "results")
    for name, report in found.items():
        assert report["command"].startswith(("brain ", "BRAIN_TEST_SAVE=1 make")), name
        assert report["machine"]["cpu"] and report["date"], name
    used = set().union(*map(tables.used, tables.read(TOP / "results").values()))
    assert set(found) == used


def parts(figures):
    """All that has keys in some figures, however deep."""
    if isinstance(figures, dict):
        yield figures
    for part in figures.values() if isinstance(figures, dict) else figures if isinstance(figures, list) else ():
        yield from parts(part)


@beside
def test_intervals_of_the_committed_results_are_what_their_pairs_and_episodes_give():
    for name, report in saved.read(TOP / "results").items():
        figures = report["figures"]
        for part in parts(figures):
            for outcome in ("success", "contact"):
                if "n" in part and "interval95" in (part.get(outcome) or ()):
                    found = part[outcome]
                    gained, lost, n = found["gained"], found["lost"], part["n"]
                    assert found["interval95"] == pytest.approx(tango(gained, lost, n), abs=1e-4), name
                    assert found["difference"] == pytest.approx((gained - lost) / n, abs=1e-4), name
            if "episodes_kept" in part:
                again = results.group(results.unfolded(part["episodes_kept"]))
                assert again == part["summary"]["all"], name


def test_an_array_of_plain_values_is_saved_in_a_line(tree):
    figures = {"rows": [["a [\n b", -1.5, None, True], []], "mixed": [1, [2]], "none": [], "text": 'x [\n "1"\n ]'}
    path = saved.write("rows", figures, {})
    assert json.loads(path.read_text())["figures"] == figures
    assert '["a [\\n b", -1.5, null, true],' in path.read_text()


def test_a_table_is_written_where_the_page_has_its_place(tree):
    assert CliRunner().invoke(app, ["docs", "--check"]).exit_code == 1
    assert CliRunner().invoke(app, ["docs"]).exit_code == 0
    text = (tree / "README.md").read_text()
    assert "| a trip | 361 µs, 98.0 % of 400 | `" in text and "old" not in text and text.endswith("\nafter\n")
    assert CliRunner().invoke(app, ["docs", "--check"]).exit_code == 0
    (tree / "README.md").write_text(text.replace("361", "161"))
    found = CliRunner().invoke(app, ["docs", "--check"])
    assert found.exit_code == 1 and "README.md: a table differs" in found.output


def test_another_language_has_a_first_column_of_its_own(tree):
    (tree / "README.md").write_text(PAGE.replace("speed", "speed ja"))
    (text,) = tables.made(tree).values()
    assert "| 往復 | 361 µs, 98.0 % of 400 |" in text
    described = tree / "results" / tables.TABLES
    described.write_text(described.read_text().replace("of: wire", "figure_ja: '{n} 回中 {share .1%}', of: wire"))
    (text,) = tables.made(tree).values()
    assert "| 往復 | 400 回中 98.0 % |" in text


def test_a_table_of_many_columns_has_a_row_for_each_item_and_names_its_source(tree):
    saved.write("many", {"cases": [{"what": "small", "us": {"a": 1.25}, "n": 20480}, {"what": "large", "us": None}],
                         "sides": {"one": {"x": 0.5}, "other": {"x": None}}}, {})
    described = tree / "results" / tables.TABLES
    described.write_text("""
speed:
  head: [size, time, n, wire]
  each: {of: many, at: cases}
  cells: ["{what}", "{us.a .1f} µs", "{us.a}", "{wire:n _}"]
sides:
  head: ["", x]
  rows: [{of: many, at: sides.one, what: one}, {of: many, at: sides.other, what: other}]
  cells: ["{x .0%}"]
""")
    made = tables.table(tables.read(tree / "results"), saved.read(tree / "results"), "speed")
    assert made.startswith("| size | time | n | wire |\n|---|---|---|---|\n"
                           "| small | 1.2 µs | 1.25 | 400 |\n| large |  |  | 400 |\n\nFrom `")
    made = tables.table(tables.read(tree / "results"), saved.read(tree / "results"), "sides")
    assert made.startswith("|  | x |\n|---|---|\n| one | 50 % |\n| other |  |\n\nFrom `")
    assert tables.used(tables.read(tree / "results")["speed"]) == {"many", "wire"}
    saved.write("many", {"cases": [], "sides": {}}, {})
    made = tables.table(tables.read(tree / "results"), saved.read(tree / "results"), "speed")
    assert made.startswith("None.\n\nFrom `")


@beside
@pytest.mark.slow
@pytest.mark.extended
def test_what_eval_and_compare_save_has_the_figures_that_the_tables_take(tree):
    """Imported results have the same paths, so they can be measured anew at any time."""
    run = CliRunner().invoke
    for arguments in (("--episodes", "1", "--seed", "5", "--out", "a.json", "--save", "eval-first"),
                      ("--episodes", "1", "--seed", "5", "--energy", "20000", "--against", "a.json", "--out", "b.json",
                       "--save", "eval-second")):
        done = run(app, ["eval", *arguments])
        assert done.exit_code == 0, done.output
    done = run(app, ["compare", "a.json", "b.json", "--region", "pfc", "--save", "compared"])
    assert done.exit_code == 0, done.output
    measured = saved.read(tree / "results")
    checked = 0
    for name, described in tables.read(TOP / "results").items():
        for result in tables.used(described):
            kind = {"eval": "eval-second", "comp": "compared"}.get(result[:4])
            if kind is not None:
                tables.check(described, result, measured[kind]["figures"])
                checked += 1
    assert checked > 10
    with pytest.raises(tables.TableError, match="has no figure summary.all.nothing"):
        tables.check([{"what": "x", "of": "eval-x", "figure": "{summary.all.nothing}"}], "eval-x",
                     measured["eval-second"]["figures"])


def test_an_item_of_a_list_is_picked_by_what_it_says(tree):
    saved.write("many", {"ways": [{"who": "a", "n": 1}, {"who": "b", "n": 12345}]}, {})
    described = tree / "results" / tables.TABLES
    described.write_text("speed: [{what: b, of: many, figure: '{ways.who=b.n _}'}]")
    (text,) = tables.made(tree).values()
    assert "| b | 12 345 |" in text
    described.write_text("speed: [{what: c, of: many, figure: '{ways.who=c.n}'}]")
    with pytest.raises(tables.TableError, match="many.json has no figure ways.who=c.n"):
        tables.made(tree)


def test_commands_are_shown_without_save_and_many_files_as_one_word(tree):
    path = tree / "results" / "wire.json"
    report = json.loads(path.read_text())
    for command, shown in (("brain bench x a.txt b/c.txt --save", "brain bench x FILES"),
                           ("brain eval --seed 1 --save wire --policy tour", "brain eval --seed 1 --policy tour"),
                           ("brain compare a.json b.json --region pfc", "brain compare FILES --region pfc")):
        path.write_text(json.dumps({**report, "command": command}))
        (text,) = tables.made(tree).values()
        assert f"| `{shown}` |" in text


@pytest.mark.parametrize(("table", "said"), [
    ("speed: [{what: x, of: lacking, figure: '{n}'}]", "results/lacking.json; measure it with --save"),
    ("speed: [{what: x, of: wire, figure: '{trips.1.p50}'}]", "results/wire.json has no figure trips.1.p50"),
    ("other: []", "no table 'speed'"), ("[", "while parsing")])
def test_what_is_not_there_is_named(tree, table, said):
    (tree / "results" / tables.TABLES).write_text(table)
    with pytest.raises(tables.TableError, match=said):
        tables.made(tree)


def test_a_file_that_is_no_result_is_named(tree):
    (tree / "results" / "other.json").write_text('{"name": "other"}')
    with pytest.raises(ValueError, match=r"other\.json is no result of --save: it lacks command, "):
        saved.read(tree / "results")

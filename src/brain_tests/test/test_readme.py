# SPDX-License-Identifier: Apache-2.0
"""README in two languages: the same commands, figures and links in both, and a drawing that is what the graph says."""
import re
from pathlib import Path

import pytest

from brain_runtime.graph.resolve import resolve

ROOT = Path(__file__).resolve().parents[3]
ENGLISH, JAPANESE = ROOT / "README.md", ROOT / "README.ja.md"
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)
COLUMNS = 100

pytestmark = pytest.mark.skipif(not ENGLISH.is_file(), reason="README is not beside an installed package")


def text(path):
    return path.read_text(encoding="utf-8")


def commands(path):
    """Lines of all code blocks without what a comment says of them, which is translated."""
    lines = "".join(BLOCK.findall(text(path))).splitlines()
    return [kept for line in lines if (kept := re.sub(r"(^|\s)# .*", "", line).rstrip())]


def sections(path):
    """What stands below each heading, without code blocks and without the first line, which links to the other."""
    return re.split(r"^## .*$", BLOCK.sub("", text(path).partition("\n")[2]), flags=re.M)


def figures(section):
    """Numbers of a section, sorted: those of its prose, and of its tables those behind the first column."""
    told = [line.partition(" | ")[2] if line.startswith("| ") else line for line in section.splitlines()]
    return sorted(re.findall(r"\d+(?:\.\d+)*", re.sub(r"\]\([^)]*\)", "", "\n".join(told))))


def test_each_links_to_the_other_in_its_first_line():
    assert "(README.ja.md)" in text(ENGLISH).splitlines()[0]
    assert "(README.md)" in text(JAPANESE).splitlines()[0]


def test_commands_are_the_same():
    assert len(commands(ENGLISH)) > 30
    assert commands(JAPANESE) == commands(ENGLISH)


def test_figures_are_the_same_section_by_section():
    english, japanese = sections(ENGLISH), sections(JAPANESE)
    assert len(english) == len(japanese)
    for one, other in zip(english, japanese, strict=True):
        assert figures(other) == figures(one), one[:200]
    assert len(figures(text(ENGLISH))) > 60


def test_links_are_the_same_section_by_section():
    for one, other in zip(sections(ENGLISH), sections(JAPANESE), strict=True):
        found = [re.findall(r"\]\(([^)]+)\)", part) for part in (one, other)]
        assert sorted(found[0]) == sorted(found[1])


def test_the_tables_are_those_of_the_results_in_their_language():
    assert re.findall(r"<!-- results: (.*) -->", text(ENGLISH)) == ["eight", "cost"]
    assert re.findall(r"<!-- results: (.*) -->", text(JAPANESE)) == ["eight ja", "cost ja"]


@pytest.fixture(scope="module")
def classes():
    """Class of each region of the shipped graph, without its world."""
    return {name: type(region) for name, region in resolve("brain", "none", "turtlebot3_burger").make().items()}


def drawing():
    (found,) = (block for block in BLOCK.findall(text(ENGLISH)) if "published by" in block)
    return found


def test_the_drawing_has_every_region_and_fits():
    assert max(map(len, drawing().splitlines())) <= COLUMNS
    above = drawing().partition("published by")[0]
    assert set(re.findall(r"[\w/]+", above)) >= {"vision", "language", "place", "pfc", "motor", "brainstem"}


def test_the_topics_below_the_drawing_go_where_the_graph_says(classes):
    rows = [re.split(r"\s{2,}", line.strip()) for line in drawing().partition("heard by\n")[2].splitlines()]
    assert len(rows) >= 9
    # introspection hears what it shows, on demand
    shown = {name: cls for name, cls in classes.items() if name != "introspection"}
    for topic, source, hearers in rows:
        assert {name for name, cls in shown.items() if topic in {p.topic for p in cls.outputs().values()}} == {source}
        heard = {name for name, cls in shown.items() if topic in {p.topic for p in cls.inputs().values()}}
        assert heard == (set() if hearers == "(the base)" else set(hearers.split(", "))), topic


def test_the_code_of_each_region_is_where_the_table_says(classes):
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\]\((src/brain_(?:regions|observe)/[^)]+)\) \|", text(ENGLISH), re.M))
    assert set(rows) == set(classes)
    for name, cls in classes.items():
        inside = cls.__module__.replace(".", "/")
        assert f"src/{inside.partition('/')[0]}/{inside}.py".startswith(rows[name].removesuffix(".py")), name

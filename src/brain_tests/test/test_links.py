# SPDX-License-Identifier: Apache-2.0
"""Links, anchors and page names resolve, in documentation and in code; and nothing of ours is installed by name."""
from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from brain_tests.cases import of_all

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").glob("*/README.md"),
                *(ROOT / ".github").rglob("*.md")])
CODE = re.compile(r"^ *```.*?^ *```", re.M | re.S)
# A distribution of ours after `pip install`, options and other names: not as a path, in which a slash is before it.
BY_NAME = re.compile(r"""pip3? install\s+(?:[\w=.<>~,-]+[ ]+)*?['"]?"""
                     r"""(brain(?:[-_][a-z_-]+)?(?:\[[\w,]+\])?)(?=['"\s`,.;)]|$)""")
JOINED = re.compile(r"""["']\s*\n\s*f?["']""")     # a text that goes on in the next line of a program

pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the package alone has no docs")


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as a forge and the documentation's site make them."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} (.*)$", CODE.sub("", page.read_text(encoding="utf-8")), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return set(found)


def tracked() -> list[Path]:
    """Text files that may name a page or say how something is installed; not results, which are as they were."""
    folders = [ROOT / name for name in ("docs", "src", "experiments", "scripts", "config", "deploy", ".github")]
    found = [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    kinds = {".py", ".md", ".rst", ".yaml", ".yml", ".xml", ".cfg", ".toml", ".txt", ".proto", ".sh", ".ini"}
    return [path for path in found if (path.suffix in kinds or path.name in ("Dockerfile", "Makefile"))
            and path.is_file() and not {"build", "__pycache__"} & set(path.relative_to(ROOT).parts)]


@of_all(PAGES)
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{page.relative_to(ROOT)} links to {target}, which is not there"
        assert not anchor or anchor in anchors(found), f"{page.relative_to(ROOT)} links to {target}: no such heading"


def test_pages_that_code_and_messages_name_are_there() -> None:
    lost = [f"{path.relative_to(ROOT)}: {name}" for path in tracked()
            for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|png|gif|py)\b", path.read_text(encoding="utf-8"))
            if not (ROOT / name).is_file()]
    assert lost == []


def test_headings_of_a_page_have_anchors_of_their_own() -> None:
    """A forge and the site count equal headings differently, so a link to the second would lead to two places."""
    twice = [f"{page.relative_to(ROOT)}: {anchor}" for page in PAGES if page.parent.name != "reference"
             for anchor in anchors(page)
             if re.fullmatch(r".*-\d+", anchor) and anchor.rpartition("-")[0] in anchors(page)]
    assert twice == []


@pytest.mark.parametrize("line, name", [
    ("pip install brain", "brain"), ("`pip install 'brain-cloud[operator]'`", "brain-cloud[operator]"),
    ("pip install -c constraints.txt brain_wire", "brain_wire"), ("(pip install brain-sim, PyTorch)", "brain-sim"),
    ("pip install ./src/brain_wire", None), ('pip install "src/brain_cloud[operator]"', None),
    ("pip install prometheus_client", None), ("pip install -r src/brain/requirements-ros.txt", None)])
def test_an_installation_by_name_is_told_from_one_by_path(line: str, name: str | None) -> None:
    found = BY_NAME.search(line)
    assert (found and found[1]) == name


def test_libraries_that_a_fleet_may_lack_are_named_with_the_versions_of_its_setup() -> None:
    for package, extras, number in (("brain_edge", ("modbus", "mqtt"), 2), ("brain_cloud", ("operator",), 3)):
        setup = configparser.ConfigParser()
        setup.read(ROOT / "src" / package / "setup.cfg", encoding="utf-8")
        wanted = {f"'{line.replace(' ', '')}'" for name in extras
                  for line in setup["options.extras_require"][name].strip().splitlines()}
        assert len(wanted) == number
        for folder, kind in (("docs", "*.md"), (f"src/{package}/{package}", "*.py")):
            text = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob(kind)))
            assert {requirement for requirement in wanted if requirement not in text} == set(), folder


def test_nothing_of_ours_is_installed_by_its_name() -> None:
    """The package index has another project's `brain`: an install line takes a path of the checkout."""
    named = [f"{path.relative_to(ROOT)}: {found[0]}" for path in tracked() if path != Path(__file__).resolve()
             for found in BY_NAME.finditer(JOINED.sub("", path.read_text(encoding="utf-8")))]
    assert named == []

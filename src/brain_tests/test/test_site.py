# SPDX-License-Identifier: Apache-2.0
"""The documentation's site: what can be told without building it (`make docs` builds it, strictly)."""
from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(not (ROOT / "mkdocs.yml").is_file(), reason="the package alone has no docs")


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def named(nav: Any) -> list[str]:
    """Pages of a part of the nav, in order."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in named(part)]


def test_every_page_is_in_the_nav_once_and_nothing_else(settings: dict[str, Any], hooks: ModuleType) -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    made = {*hooks.BORROWED, *(f"api/{package}.md" for package in hooks.API)}
    found = named(settings["nav"])
    assert sorted(found) == sorted(pages | made) and not pages & made


def test_what_is_borrowed_and_what_the_api_names_is_there(settings: dict[str, Any], hooks: ModuleType) -> None:
    assert [source for source in hooks.BORROWED.values() if not (ROOT / source).is_file()] == []
    paths = [ROOT / path for path in settings["plugins"][1]["mkdocstrings"]["handlers"]["python"]["paths"]]
    for package, modules in hooks.API.items():
        (folder,) = [path / package for path in paths if (path / package).is_dir()]
        places = {module: folder / module.replace(".", "/") for module in modules}
        lost = [module for module, place in places.items()
                if not (place.with_suffix(".py").is_file() or (place / "__init__.py").is_file())]
        assert lost == [], f"scripts/docs_site.py: {package} has no {', '.join(lost)}"


def test_links_lead_to_the_site_or_the_repository(hooks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for link, becomes in (("[a](ros2.md#start)", "[a](ros2.md#start)"),
                          ("[b](../src/brain_wire/README.md)", "[b](wire.md)"),
                          ("[c](../Makefile)", "c (`Makefile`)"), ("[d](https://x.org)", "[d](https://x.org)"),
                          ("![e](demo.gif)", "![e](demo.gif)"), ("`a[0](b)`", "`a[0](b)`"),
                          ("```\na[0](b)\n```", "```\na[0](b)\n```")):
        assert hooks.relinked(link, "fleet.md") == becomes
    monkeypatch.setattr(hooks, "REPOSITORY", "https://forge.example/o/n")
    assert hooks.relinked("[c](../Makefile) [`s`](../src)", "fleet.md") == (
        "[c](https://forge.example/o/n/blob/main/Makefile) [`s`](https://forge.example/o/n/tree/main/src)")
    assert hooks.relinked("[w](docs/reference/words.md)", "index.md") == "[w](reference/words.md)"
    assert hooks.relinked("[w](../fleet.md)", "reference/words.md") == "[w](../fleet.md)"
    with pytest.raises(FileNotFoundError, match="fleet.md links to nowhere.md"):
        hooks.relinked("[c](nowhere.md)", "fleet.md")


def test_what_stands_below_an_item_of_a_list_is_indented_for_the_site(hooks: ModuleType) -> None:
    text = "- a\n  b\n\n  ```sh\n  c\n  ```\n\nd\n\n    e\n"
    assert hooks.nested(text) == "- a\n    b\n\n    ```sh\n    c\n    ```\n\nd\n\n    e\n"


def test_the_site_is_built_from_exact_versions_by_make_and_by_the_public_workflow() -> None:
    lines = (ROOT / "requirements-docs.txt").read_text(encoding="utf-8").splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines if not line.startswith("#"))
    assert {"mkdocs-material", "mkdocstrings-python"} <= {line.partition("==")[0] for line in lines}
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert any("make docs" in step.get("run", "") for step in workflow["jobs"]["docs"]["steps"])
    assert {"/site/", "/.venv-docs"} <= set((ROOT / ".gitignore").read_text(encoding="utf-8").splitlines())

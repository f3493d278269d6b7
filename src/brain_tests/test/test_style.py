# SPDX-License-Identifier: Apache-2.0
"""Style of all packages: docstrings, and what the linters of a ROS installation judge where they are installed."""
from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2]
PACKAGES = sorted(file.parent for file in SOURCES.glob("*/package.xml"))
# Docstrings are in Google's style. What a name says well needs none (D10x), an argument no line of its own (D417); a
# first word may be the name of a thing (D402, D403), a last one a quotation (D210).
UNASKED = ["D100", "D101", "D102", "D103", "D104", "D105", "D106", "D107", "D210", "D402", "D403", "D417"]
VAGUE = {"what", "whatever", "who", "whoever", "whose", "whether", "how", "which", "where", "why", "when"}

each = pytest.mark.parametrize("package", PACKAGES, ids=[package.name for package in PACKAGES])


@each
def test_docstrings_begin_with_a_verb_or_a_term(package: Path) -> None:
    vague = [f"{file.relative_to(SOURCES)}: {docstring.splitlines()[0]}" for file in sorted(package.rglob("*.py"))
             if "test" not in file.relative_to(package).parts
             for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
             if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
             and (docstring := ast.get_docstring(node)) and docstring.split()[0].rstrip(",.:").lower() in VAGUE]
    assert vague == [], "begin with what it does (Returns, Tells, Computes ...) or with what it is"


@each
def test_flake8(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linter = pytest.importorskip("ament_flake8.main")
    monkeypatch.chdir(package)      # its settings name files from there
    if not (package / "setup.cfg").is_file():
        pytest.skip("no Python is in it")
    status, errors = linter.main_with_errors(["--config", str(package / "setup.cfg"), str(package)])
    assert status == 0, "\n".join(errors)


@each
def test_pep257(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    linter = pytest.importorskip("ament_pep257.main")
    status = linter.main(["--convention", "google", "--add-ignore", *UNASKED, "--", str(package)])
    assert status == 0, capsys.readouterr().err


@each
def test_xmllint(package: Path, capfd: pytest.CaptureFixture[str]) -> None:
    linter = pytest.importorskip("ament_xmllint.main")
    if shutil.which("xmllint") is None:
        pytest.skip("there is no xmllint: apt install libxml2-utils")
    status = linter.main([str(package / "package.xml")])
    told = capfd.readouterr().err
    if "Failed to locate the main schema" in told:
        pytest.skip("xmllint cannot fetch the schema that package.xml names")
    assert status == 0, told

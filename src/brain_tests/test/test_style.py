# SPDX-License-Identifier: Apache-2.0
"""Style of all packages: docstrings, and what the linters of a ROS installation judge where they are installed."""
from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Iterator

import pytest

SOURCES = Path(__file__).resolve().parents[2]
PACKAGES = sorted(file.parent for file in SOURCES.glob("*/package.xml"))
EXPERIMENTS = SOURCES.parent / "experiments"        # beside the packages, and none
# Docstrings are in Google's style. What a name says well needs none (D10x), an argument no line of its own (D417); a
# first word may be the name of a thing (D402, D403), a last one a quotation (D210).
UNASKED = ["D100", "D101", "D102", "D103", "D104", "D105", "D106", "D107", "D210", "D402", "D403", "D417"]
VAGUE = {"what", "whatever", "who", "whoever", "whose", "whether", "how", "which", "where", "why", "when"}

each = pytest.mark.parametrize("package", PACKAGES, ids=[package.name for package in PACKAGES])
written = pytest.mark.parametrize("package", [*PACKAGES, EXPERIMENTS], ids=lambda package: package.name)


def documented(package: Path) -> Iterator[tuple[Path, ast.AST, str]]:
    """Yields what has a docstring in a package, without its tests: file, node, docstring."""
    for file in sorted(package.rglob("*.py")):
        if "test" not in file.relative_to(package).parts:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    if docstring := ast.get_docstring(node):
                        yield file.relative_to(SOURCES.parent), node, docstring


@written
def test_docstrings_begin_with_a_verb_or_a_term(package: Path) -> None:
    vague = [f"{file}: {docstring.splitlines()[0]}" for file, _, docstring in documented(package)
             if docstring.split()[0].rstrip(",.:").lower() in VAGUE]
    assert vague == [], "begin with what it does (Returns, Tells, Computes ...) or with what it is"


def parameters(node: ast.AST) -> set[str] | None:
    """Names of a function's or a class's parameters; None: any, or nobody can read them from here."""
    if isinstance(node, ast.ClassDef):
        node = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), node)
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.args.kwarg:
        return None
    its = node.args
    return {one.arg for one in (*its.posonlyargs, *its.args, *its.kwonlyargs, *([its.vararg] if its.vararg else ()))}


@written
def test_arguments_that_docstrings_tell_of_are_parameters(package: Path) -> None:
    unknown = []
    for file, node, docstring in documented(package):
        told, names = re.search(r"^Args:\n((?:    .*\n?|\n)*)", docstring, re.M), parameters(node)
        for words in re.findall(r"^    ([*\w][*\w, ]*):", told[1], re.M) if told and names is not None else ():
            unknown += [f"{file}: {node.name}: {word}" for one in words.split(",")
                        if (word := one.strip(" *")) and word not in names]
    assert unknown == [], "a parameter has another name, or is gone"


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

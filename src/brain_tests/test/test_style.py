# SPDX-License-Identifier: Apache-2.0
"""Style of all packages: docstrings, and what the linters of a ROS installation judge where they are installed."""
from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

SOURCES = Path(__file__).resolve().parents[2]
PACKAGES = sorted(file.parent for file in SOURCES.glob("*/package.xml"))
ROOT = SOURCES.parent
EXPERIMENTS = ROOT / "experiments"        # beside the packages, and none
# Docstrings are in Google's style. What a name says well needs none (D10x), an argument no line of its own (D417); a
# first word may be the name of a thing (D402, D403), a last one a quotation (D210).
UNASKED = ["D100", "D101", "D102", "D103", "D104", "D105", "D106", "D107", "D210", "D402", "D403", "D417"]
# Codes of pycodestyle that flake8 asks for where nothing else is said.
CONTINUATION = ["E122", "E124", "E125", "E127", "E128", "E129", "E131"]
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


def test_ruff() -> None:
    """Holds the rules of flake8, its plugins and pydocstyle (ruff.toml), but for what is tested next."""
    ruff = pytest.importorskip("ruff")
    done = subprocess.run([ruff.find_ruff_bin(), "check", "--no-cache", "."], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_continuation_lines() -> None:
    pycodestyle = pytest.importorskip("pycodestyle")
    style = pycodestyle.StyleGuide(select=CONTINUATION, max_line_length=120)
    found = style.check_files([str(package) for package in PACKAGES])
    assert found.total_errors == 0, found.get_statistics()


def test_order_of_imports() -> None:
    checker = pytest.importorskip("flake8_import_order.checker")
    styles = pytest.importorskip("flake8_import_order.styles")
    style = styles.lookup_entry_point("pep8")
    settings = {"import_order_style": style, "application_import_names": [], "application_package_names": []}
    wrong = []
    for file in (file for package in PACKAGES for file in sorted(package.rglob("*.py"))):
        checked = checker.ImportOrderChecker(str(file), ast.parse(file.read_text(encoding="utf-8")))
        checked.options = settings
        wrong += [f"{file}:{error.lineno}: {error.code} {error.message}" for error in checked.check_order()
                  if error.code not in ("I202",)]
    assert wrong == []


def linter(name: str) -> str:
    """Returns a Python that has one of ament's linters: this one, or that of a ROS which `make test` has made."""
    if importlib.util.find_spec(name):
        return sys.executable
    made = sorted(ROOT.glob(".venv-ros*/bin/python"))
    if not made:
        pytest.skip(f"there is no {name}, which is of ROS")
    return str(made[0])


@pytest.mark.extended
@each
def test_flake8(package: Path) -> None:
    if not (package / "setup.cfg").is_file():
        pytest.skip("no Python is in it")
    command = [linter("ament_flake8"), "-m", "ament_flake8.main", "--config", package / "setup.cfg", package]
    done = subprocess.run(command, cwd=package, capture_output=True, text=True)     # its settings name files from there
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.extended
@each
def test_pep257(package: Path) -> None:
    command = [linter("ament_pep257"), "-m", "ament_pep257.main", "--convention", "google", "--add-ignore", *UNASKED]
    done = subprocess.run([*command, "--", package], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


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

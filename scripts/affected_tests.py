#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the test files that a change can affect: those of the packages that it is in, and those that import it.

    scripts/affected_tests.py [BASE]        a change against BASE (main), what is not committed included

A test is affected where a module that was changed is among those that its file imports, or these do in turn. What is
no module of a package (a script, a graph, a table) may be read by any test: then all files are printed.
"""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
EXPERIMENTS = ROOT / "experiments"      # beside the packages, and imported as one
OURS = r"(?:brain\w*|experiments)"
IMPORT = re.compile(rf"^([ \t]*)(?:from|import) ({OURS}(?:\.\w+)*)(?: import (\([^)]*\)|[^\n]*))?", re.M)
MODULE = re.compile(rf"[\"']({OURS}(?:\.\w+)+)")
# Imports for type checkers alone: at run time nobody is reached by them.
TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:(?:[ \t].*)?\n)+", re.M)
# Read by tests of brain_tests alone.
HARMLESS = ("docs/", "results/", ".github/", "README", "CHANGELOG.md", "CONTRIBUTING", "LICENSE", "mkdocs.yml",
            "requirements-docs.txt")


def git(*words: str) -> list[str]:
    """Returns the lines that git prints. Raises CalledProcessError."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def changed(base: str) -> set[str]:
    """Returns files that are otherwise than where this branch left ``base``, by their paths from the root."""
    begin = git("merge-base", base, "HEAD")[0]
    return {*git("diff", "--name-only", begin), *git("ls-files", "--others", "--exclude-standard")}


def modules() -> dict[str, Path]:
    """Returns the files of all packages by the names of their modules."""
    return {".".join(file.relative_to(package).with_suffix("").parts).removesuffix(".__init__"): file
            for package in (*SOURCES.iterdir(), ROOT)
            for file in (package / (EXPERIMENTS.name if package == ROOT else package.name)).rglob("*.py")
            if not (package == ROOT and "test" in file.parts)}


def imports(file: Path, known: set[str], package: str | None) -> set[str]:
    """Returns the modules of ours that a file imports.

    Args:
        package: what is imported within functions, or named in texts (``python -m MODULE``, ``module:Class``), counts
            of this package only: a command loads its verbs so, and would reach everything. None: of all, as in tests.
    """
    text, found, late = TYPES.sub("\n", file.read_text(encoding="utf-8")), set(), set()
    for indent, module, names in IMPORT.findall(text):
        (late if indent else found).update((module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))))
    late.update(MODULE.findall(text))
    found.update(name for name in late if package is None or name.partition(".")[0] == package)
    return found & known


def affected(files: set[str]) -> list[Path] | None:
    """Returns the test files that a change of some files can affect; None: any."""
    known = modules()
    names = set(known)
    tests = [test for test in sorted([*SOURCES.glob("*/test/**/test_*.py"), *EXPERIMENTS.glob("**/test/test_*.py")])
             if test.is_file()]
    by_file = {str(file.relative_to(ROOT)): name for name, file in known.items()}
    touched, packages = set(), set()
    for file in files:
        package = _package(Path(file))
        if file in by_file:
            touched.add(by_file[file])
            packages.add(package)
        elif package is not None and "/test/" in file:
            packages.add(package)
        elif package is not None and Path(file).name in ("CHANGELOG.rst", "package.xml", "setup.cfg"):
            packages |= {package, "brain_tests"}
        elif package == EXPERIMENTS.name:
            packages.add(package)
        elif file.startswith(HARMLESS):
            packages.add("brain_tests")
        elif not (ROOT / file).exists() and file.endswith(".py"):
            packages.add(package)       # it is gone; who imported it has been changed too
        else:
            return None
    direct = {name: imports(file, names, name.partition(".")[0]) for name, file in known.items()}
    reached, new = set(touched), set(touched)
    while new:
        new = {name for name, its in direct.items() if its & new} - reached
        reached |= new
    return [test for test in tests if _package(test.relative_to(ROOT)) in packages
            or imports(test, names, None) & reached]


def _package(file: Path) -> str | None:
    """Returns the package that a file, by its path from the root, is of; None: it is of none."""
    if file.parts[0] == EXPERIMENTS.name:
        return EXPERIMENTS.name
    return file.parts[1] if file.parts[0] == SOURCES.name and len(file.parts) > 2 else None


def main(base: str) -> int:
    """Prints the files; returns the exit status."""
    try:
        files = changed(base)
    except subprocess.CalledProcessError as error:
        print(f"no change against {base} can be seen ({error.stderr.strip()}); all tests are run", file=sys.stderr)
        files = set()
    found = affected(files) if files else None
    for test in found if found is not None else [SOURCES, EXPERIMENTS]:
        print(test.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "main"))

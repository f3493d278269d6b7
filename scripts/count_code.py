#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts lines of code by package, without blank lines, comments and docstrings.

``python scripts/count_code.py [CHECKOUT]``. Tests are left out. A robot in a fleet installs the packages of ``ROBOT``.
"""
from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

ROBOT = ("brain_interfaces", "brain_wire", "brain_runtime", "brain_security", "brain_regions", "brain", "brain_edge")
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> set[int]:
    """Numbers of the lines that have code in them."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
                node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or node.body[0].lineno) + 1))
    return lines


def main() -> None:
    """Prints a line for each package, and sums."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1])
    folders = {path.name: path for path in sorted((root / "src").iterdir()) if path.is_dir()}
    folders["experiments"] = root / "experiments"
    found: dict[str, tuple[int, int, int]] = {}
    for name, folder in folders.items():
        texts = [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))
                 if not {"test", "build"} & set(path.relative_to(folder).parts)]
        found[name] = len(texts), sum(text.count("\n") for text in texts), sum(len(code_lines(text)) for text in texts)
    product = [name for name in found if name not in ("brain_tests", "experiments")]
    for label, names in (*((name, [name]) for name in found), ("product", product),
                         ("a robot", [name for name in ROBOT if name in found])):
        modules, lines, code = (sum(found[name][part] for name in names) for part in range(3))
        print(f"{label:18} {modules:4} modules {lines:7} lines {code:7} of code")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Every `brain` command in the documentation has the verbs and options that it is written with."""
import re
import shlex
from pathlib import Path

from typer.main import get_command

from brain.cli import app
from brain_tests.cases import of_all

ROOT = Path(__file__).resolve().parents[3]
LINES = [(path.name, one.strip()) for path in sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("README*.md")])
         for language, block in re.findall(r"```(\w*)\n(.*?)```", path.read_text(encoding="utf-8"), re.S)
         if language in ("", "sh") for line in re.findall(r"^(brain [^#>\n]*)", block, re.M) for one in line.split(";")]


@of_all(LINES)
def test_it_is_understood(case):
    page, line = case
    command, words = get_command(app), shlex.split(line)[1:]
    while words and hasattr(command, "get_command"):     # a verb is found, and loaded, when it is asked for
        found = command.get_command(command.make_context("brain", [], resilient_parsing=True), words[0])
        if found is None:
            break
        command, words = found, words[1:]
    group = hasattr(command, "commands") and not command.invoke_without_command
    assert not group, f"{page}: `{line}` names no verb of brain"
    command.make_context(line, words)   # raises where an option or argument does not fit


def test_there_are_some():
    assert len(LINES) > 5 or not (ROOT / "docs").is_dir()     # the package alone has no docs

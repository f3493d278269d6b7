# SPDX-License-Identifier: Apache-2.0
"""Verbs are found by entry points, told of by a table, and loaded one at a time."""
import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brain import verbs
from brain.cli import app
from brain_tests.cases import of_all
from brain_tests.in_process import brain

SOURCES = Path(__file__).resolve().parents[2]


def declared():
    """Package by verb, as the packages' setup.cfg say."""
    found = {}
    for file in SOURCES.glob("*/setup.cfg"):
        parser = configparser.ConfigParser()
        parser.read(file, encoding="utf-8")
        for line in parser.get("options.entry_points", verbs.GROUP, fallback="").splitlines():
            if line.strip():
                found[line.partition("=")[0].strip()] = file.parent.name
    return found


@pytest.mark.skipif(not (SOURCES / "brain" / "setup.cfg").is_file(), reason="the packages' sources are not here")
def test_the_table_says_what_the_packages_declare():
    assert {name: verb.package for name, verb in verbs.VERBS.items()} == declared()


@pytest.mark.colcon
@of_all(verbs.VERBS)
def test_each_verb_of_the_table_is_installed_and_loads(name):
    assert callable(verbs.installed()[name].load())


def test_help_imports_no_other_package_and_estop_only_what_it_is_made_of():
    code = ("import sys\nfrom brain.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
            "tops = {m.split('.')[0] for m in sys.modules}\n"
            "print(sorted({m for m in tops if m.startswith('brain')} | tops & {'numpy', 'torch', 'zenoh', 'yaml'}))")
    for words, loaded in ((["--help"], ["brain"]), (["estop", "--help"], ["brain", "brain_runtime", "brain_wire"])):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == str(loaded), words


def test_another_package_adds_a_verb(tmp_path, monkeypatch):
    (tmp_path / "wings.py").write_text('def fly(high: bool = False):\n    """Flies."""\n    print("up")\n')
    told = tmp_path / "wings-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: wings\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(f"[{verbs.GROUP}]\nfly = wings:fly\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert CliRunner().invoke(app, ["fly", "--high"]).output == "up\n"
    assert re.search("fly +Of wings[.]", CliRunner().invoke(app, ["--help"]).output)


def test_a_verb_that_is_not_installed_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(verbs.VERBS, "dream", verbs.Verb("brain_dreams", verbs.LEARN, "Dream."))
    result = CliRunner().invoke(app, ["dream", "--long"])
    assert result.exit_code == 1
    assert "`brain dream` is in the package brain_dreams, which is not installed" in result.output
    assert "colcon build --packages-up-to brain brain_dreams" in result.output
    assert "(not installed: brain_dreams) Dream." in CliRunner().invoke(app, ["--help"]).output


def test_a_mistyped_verb_is_told_what_looks_like_it_and_each_has_a_short_help():
    for word, words in (("statsu", "Did you mean 'status'"), ("nothinglike", "No such command 'nothinglike'.")):
        done = brain(word, environment={})
        assert done.returncode == 2 and words in done.stderr
    assert "Did you mean 'list'" in brain("topic", "lst", environment={}).stderr
    for words in (["-h"], ["topic", "-h"], ["topic", "echo", "-h"], ["status", "-h"]):
        done = brain(*words, environment={})
        assert done.returncode == 0 and done.stdout.startswith("Usage: ")

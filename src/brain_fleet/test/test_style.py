# SPDX-License-Identifier: Apache-2.0
"""Style, as the linters of a ROS installation judge it; each is skipped where it is not installed."""
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]
# Docstrings are in Google's style. What a name says well needs none (D10x), an argument no line of its own (D417); a
# first word may be the name of a thing (D402, D403), a last one a quotation (D210).
UNASKED = ["D100", "D101", "D102", "D103", "D104", "D105", "D106", "D107", "D210", "D402", "D403", "D417"]


def test_flake8() -> None:
    linter = pytest.importorskip("ament_flake8.main")
    status, errors = linter.main_with_errors(["--config", str(PACKAGE / "setup.cfg"), str(PACKAGE)])
    assert status == 0, "\n".join(errors)


def test_pep257(capsys: pytest.CaptureFixture[str]) -> None:
    linter = pytest.importorskip("ament_pep257.main")
    status = linter.main(["--convention", "google", "--add-ignore", *UNASKED, "--", str(PACKAGE)])
    assert status == 0, capsys.readouterr().err


def test_xmllint(capfd: pytest.CaptureFixture[str]) -> None:
    linter = pytest.importorskip("ament_xmllint.main")
    if shutil.which("xmllint") is None:
        pytest.skip("there is no xmllint: apt install libxml2-utils")
    status = linter.main([str(PACKAGE / "package.xml")])
    told = capfd.readouterr().err
    if "Failed to locate the main schema" in told:
        pytest.skip("xmllint cannot fetch the schema that package.xml names")
    assert status == 0, told

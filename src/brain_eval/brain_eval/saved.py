# SPDX-License-Identifier: Apache-2.0
"""Saved measurements: ``results/NAME.json`` with the figures and all that they were measured with.

Tables in README and docs are made from these files by ``brain docs``.
"""
from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.command.options import fail
from brain_wire import safe_text

FOLDER = Path("results")
FIELDS = ("name", "command", "seeds", "date", "version", "commit", "machine", "figures")
SEEDS = ("seed", "seeds")
# An array of plain values: a row of figures is easier to read, and to compare, in one line. No string has a newline.
_PLAIN_ARRAY = re.compile(r'\[\n\s+((?:(?:"(?:[^"\\\n]|\\.)*"|[^\s"\[\]{},]+)(?:,\n)?\s+)+)\]')
Save = Annotated[bool, typer.Option(
    "--save", help="Write the figures to results/, with the command, the commit and the machine, for `brain docs`.")]


def known(name: str) -> dict[str, Any]:
    """Returns the figures that were saved of a measurement before; empty where there are none."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return {}
    try:
        figures = read(FOLDER)[name]["figures"]
        if not isinstance(figures, dict):
            raise ValueError(f"{path} has no figures")
    except ValueError as error:
        fail(str(error))
    return figures


def check_folder() -> None:
    """Ends the command, before it measures, where there is no folder of results."""
    if not FOLDER.is_dir():
        fail(f"there is no folder {FOLDER.absolute()}; call this at the top of the tree, or make one", 2)


def write(name: str, figures: Any, seeds: dict[str, Any]) -> Path:
    """Writes what was measured, all at once; returns where.

    Args:
        name: of the file, without its ending.
        figures: plain values, as JSON has them.
        seeds: by name of the option; empty where nothing is drawn.
    """
    path = FOLDER / f"{name}.json"
    report = {"name": name, **provenance(), "seeds": seeds, "figures": figures}
    part = path.with_suffix(".part")
    text = safe_text.as_json({field: report[field] for field in FIELDS}, 1)
    part.write_text(_PLAIN_ARRAY.sub(_in_a_line, text) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def provenance() -> dict[str, Any]:
    """Returns the provenance of figures that are taken now: command, version, commit, date and machine."""
    return {"command": shlex.join(["brain", *_told(sys.argv[1:])]), "version": _version("brain-runtime"),
            "commit": commit(), "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "machine": machine()}


def _told(arguments: list[str]) -> list[str]:
    """Arguments without where their files lie on this machine, and without where else the figures were written to."""
    kept = [word for before, word in zip(["", *arguments], arguments) if "--out" not in (before, word)]
    return [Path(word).name if word.startswith("/") else word for word in kept]


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, memory (GiB), kernel, Python, and versions of packages."""
    packages = sorted({found.metadata["Name"] for found in metadata.distributions()}, key=str.lower)
    return {"cpu": cpu(), "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "kernel": platform.release(), "python": platform.python_version(),
            "packages": {package: _version(package) for package in packages}}


def cpu() -> str:
    """Model name of the processor."""
    with contextlib.suppress(OSError):      # not Linux: platform knows less, but something
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str | None:
    """The commit that is checked out where the code lies, with ``+`` where files differ from it; None without git."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True,
                                 text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + "+" * any(not line[3:].startswith(f"{FOLDER}/") for line in changed)


def read(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """All results of a folder, by name.

    Raises:
        ValueError: a file is none, or lacks something; names it.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is no result: {error}") from error
        lacking = [field for field in FIELDS if not isinstance(report, dict) or field not in report]
        if lacking or report["name"] != path.stem:
            raise ValueError(f"{path} is no result of --save: it lacks {', '.join(lacking) or 'its own name'}")
        found[path.stem] = report
    return found


def _in_a_line(array: re.Match) -> str:
    return "[" + re.sub(r",\n\s+", ", ", array[1].rstrip()) + "]"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "source tree"

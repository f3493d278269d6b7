# SPDX-License-Identifier: Apache-2.0
"""Environments of other libraries, to measure beside: made once, kept in the user's cache.

Each has exact versions of its own. Torch and NumPy are those that the brain runs with, borrowed by a path, so that no
library gets a better one and nothing large is downloaded. No library is imported into the brain's own environment.
"""
from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from brain_eval.bench.experiment import Problem
from brain_runtime.command.options import fail
from experiments.processes import NO_PATHS, finished

PATIENCE = 600.0        # s for pip
NIR = ("nir==1.0.8", "nirtorch==2.6", "h5py==3.16.0")


class Library(NamedTuple):
    """Another library.

    Attributes:
        imports: module that must be importable in the end.
        pins: exact versions of it and of what it imports, without torch and numpy. Nothing else is installed: what they
            ask for besides (torchvision, tensorboard, drivers of chips) is imported by nothing that is measured here.
    """

    imports: str
    pins: tuple[str, ...]


LIBRARIES = {
    "norse": Library("norse.torch", ("norse==1.1.0", "torchvision==0.28.0", *NIR)),
    "snntorch": Library("snntorch", ("snntorch==1.0.0", *NIR)),
    "spikingjelly": Library("spikingjelly.activation_based.neuron", (
        "spikingjelly==2.0.0", "loguru==0.7.3", "tqdm==4.70.1", *NIR)),
    "sinabs": Library("sinabs.layers", (
        "sinabs==3.1.3", "pbr==7.1.3", "nir==1.0.4", "nirtorch==2.0.2", "h5py==3.16.0")),
}

# What carries messages, and is measured by `brain bench backends`.
CARRIERS = {"dora": Library("dora", ("dora-rs==1.1.0", "pyarrow==26.0.1", "PyYAML==6.0.3"))}


class NotThere(Problem):
    """A library cannot be had on this machine; says why."""


def cache() -> Path:
    """Folder of the environments."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "brain" / "libraries"


def environment(name: str, folder: Path | None = None) -> Path:
    """Python of a library's environment, which is made if there is none.

    Args:
        name: one of :data:`LIBRARIES` or :data:`CARRIERS`.
        folder: of all environments; :func:`cache` where it is None.

    Raises:
        NotThere: it cannot be made, or the library cannot be imported in it.
    """
    library, borrowed, home = {**LIBRARIES, **CARRIERS}[name], _borrowed(), _home(name, folder)
    python, done = home / "bin" / "python", home / "done"
    if installed(name, folder):
        return python
    try:
        _run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(home))
        (site,) = home.glob("lib/python*/site-packages")
        (site / "borrowed.pth").write_text("".join(f"{path}\n" for path in borrowed), encoding="utf-8")
        _run(sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "install", "--quiet",
             "--no-deps", "--ignore-installed", *library.pins)
        _run(str(python), "-c", f"import {library.imports}")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        shutil.rmtree(home, ignore_errors=True)
        raise NotThere(f"{name} is not there: {_reason(error)}") from error
    done.touch()
    return python


def installed(name: str, folder: Path | None = None) -> bool:
    """Tells whether a library's environment is made; arguments as for :func:`environment`."""
    home = _home(name, folder)
    return (home / "done").is_file() and os.access(home / "bin" / "python", os.X_OK)


def _home(name: str, folder: Path | None) -> Path:
    meaning = "\n".join([sys.version, *map(str, _borrowed()), *{**LIBRARIES, **CARRIERS}[name].pins])
    return (folder or cache()) / f"{name}-{hashlib.sha256(meaning.encode()).hexdigest()[:12]}"


def _borrowed() -> list[Path]:
    """Folders in which this Python finds torch and NumPy."""
    specs = map(importlib.util.find_spec, ("torch", "numpy"))
    return sorted({Path(spec.origin).parents[1] for spec in specs if spec and spec.origin})


def _run(*command: str) -> None:
    finished(*command, patience=PATIENCE, environment=NO_PATHS).check_returncode()


def _reason(error: Exception) -> str:
    """The last line that the command wrote, or what is known otherwise."""
    told = (getattr(error, "stderr", None) or "").strip().splitlines()
    errors = [line for line in told if "rror" in line]
    return (errors or told or [str(error)])[-1].strip()


def known(libraries: str) -> tuple[str, ...]:
    """Names between commas; ends the command where one is no library to measure beside."""
    names = tuple(name.strip() for name in libraries.split(",") if name.strip())
    for name in names:
        if name not in LIBRARIES:
            fail(f"there is no library {name!r} to measure beside; there are {', '.join(LIBRARIES)}", 2)
    return names

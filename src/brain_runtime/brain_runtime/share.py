# SPDX-License-Identifier: Apache-2.0
"""Data folder of a package of this workspace: messages, graphs, parameter and launch files.

The same files are installed in three ways, so they are looked for in three places, in this order:

1. ``<prefix>/share/<package>`` for each prefix in ``AMENT_PREFIX_PATH``: built by colcon and sourced;
2. ``src/<package>`` of the tree that this file lies in: a checkout, run in place or installed with ``pip -e``;
3. the files that pip recorded for the distribution: an ordinary ``pip install``, of whichever scheme.

Data inside a Python package (trained weights, for example) needs none of this: use `importlib.resources`.
"""

from __future__ import annotations

import os
from pathlib import Path


def state_home() -> Path:
    """Returns the folder for what outlives a run: ``$XDG_STATE_HOME/brain`` or ``~/.local/state/brain``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "brain"


def share_directory(package: str) -> Path:
    """Return the directory that holds `package`'s data: ``msg/``, ``config/`` or ``launch/`` lie in it.

    Raises FileNotFoundError, naming the places that were searched, if the package is in none of them.
    """
    searched = []
    for prefix in filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)):
        installed = Path(prefix) / "share" / package
        if (installed / "package.xml").is_file():
            return installed
        searched.append(str(installed))

    # A copy in site-packages has no such sibling; the check of package.xml keeps other projects' folders out.
    source = Path(__file__).resolve().parents[2] / package
    if (source / "package.xml").is_file():
        return source
    searched.append(str(source))

    recorded = _recorded_by_pip(package)
    if recorded is not None:
        return recorded
    raise FileNotFoundError(
        f"the data of package '{package}' is not installed: looked in {', '.join(searched)} and in what pip "
        f"recorded. Remedy: source the workspace's install/setup.bash, or pip install src/{package}"
    )


def _recorded_by_pip(package: str) -> Path | None:
    """Return ``share/<package>`` as pip installed it, or None if pip did not install it."""
    from importlib import metadata  # 17 ms, where most are found without

    try:
        files = metadata.files(package.replace("_", "-"))
    except metadata.PackageNotFoundError:
        return None
    for file in files or ():
        if file.parts[-3:] == ("share", package, "package.xml"):
            return Path(file.locate()).resolve().parent
    return None

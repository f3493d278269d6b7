# SPDX-License-Identifier: Apache-2.0
"""``brain fleet monitoring``: the files with which Prometheus and Grafana show a fleet."""
from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

FILES = ("prometheus.yaml", "alerts.yaml", "dashboard.json", "compose.yaml")


def monitoring(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made where it is missing.")] =
               Path("monitoring"), as_json: Json = False) -> None:
    """Writes a configuration of Prometheus, alerts, a dashboard for Grafana and a compose file, to be changed at will.

    Files that are there already stay as they are.
    """
    written, kept = [], []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            path = folder / name
            if path.exists():
                kept.append(name)
                continue
            path.write_bytes(resources.files("brain_cloud.monitoring").joinpath(name).read_bytes())
            written.append(name)
    except OSError as error:
        fail(f"cannot write into {folder}: {error.strerror or error}; name another folder")
    if as_json:
        tell_json({"folder": str(folder.absolute()), "written": written, "kept": kept})
        return
    tell(f"{folder}: " + (f"wrote {', '.join(written)}" if written else "nothing is new"))
    if kept:
        tell(f"left as they are: {', '.join(kept)}", "yellow", err=True)

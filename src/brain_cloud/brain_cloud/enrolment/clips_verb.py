# SPDX-License-Identifier: Apache-2.0
"""``brain fleet clips``: the hard clips that robots have handed in."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from brain_edge.processes.options import FOLDER
from brain_runtime.command.options import Json, fail, tell, tell_json


def clips(into: Annotated[Path, typer.Option("--into", metavar="DIR", help="Where the list is, clips.txt, and links to "
                                             "the clips.")] = FOLDER / "cloud" / "clips",
          folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Of the cloud.")] = FOLDER / "cloud",
          as_json: Json = False) -> None:
    """Lists the hard clips that robots have handed in, for trainings. Run it where the cloud is, again and again."""
    from brain_cloud.enrolment.uploads import LIST, gather

    into, folder = into.expanduser(), folder.expanduser()
    if not folder.is_dir():
        fail(f"there is no folder {folder}; name that of the cloud with --folder")
    try:
        new = gather(folder / "pictures", into, lambda text: tell(f"left out: {text}", err=True))
    except OSError as error:
        fail(f"cannot use {error.filename or into}: {error.strerror or error}")
    tell_json({"list": str(into / LIST), "new": new}) if as_json else tell(f"{len(new)} new clips in {into / LIST}")

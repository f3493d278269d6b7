# SPDX-License-Identifier: Apache-2.0
"""``brain new``: files to begin with, that run at once: a region with its test and graph, or a graph."""
from __future__ import annotations

import builtins
import importlib.util
import keyword
import re
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from brain_runtime.command.options import fail, tell

TEMPLATES = Path(__file__).with_name("templates")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
LONGEST = 40

app = typer.Typer(help="Write files to begin with: a region, or a graph.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="In lower case, as warm_floor.")]
Folder = Annotated[Path, typer.Option("--in", metavar="FOLDER", help="Where to write. Default: here.")]


@app.callback()
def new() -> None:
    """Writes files to begin with."""


@app.command()
def region(name: Name, folder: Folder = Path()) -> None:
    """Writes a spiking region, its test, and a graph of the brain with it.

    Example: brain new region warm_floor
    """
    from brain_runtime.graph.graphs import load

    _check(name)
    made = {"name": name, "Class": "".join(part.capitalize() for part in name.split("_"))}
    if hasattr(builtins, made["Class"]) or any(one.name == name for one in load("brain").regions) or (
            importlib.util.find_spec(name)):
        fail(f"{name} is the name of something that there is already; choose another one", 2)
    texts = {f"{name}.py": _filled("region.py", made), f"test_{name}.py": _filled("test_region.py", made),
             f"{name}.graph.yaml": _graph(name, f"  {name}: {name}:{made['Class']}\n")}
    _write(folder, texts)
    here = "" if folder == Path() else f"cd {folder}; "
    tell(f"wrote {', '.join(texts)}. Next:\n"
         f"  {here}python -m pytest test_{name}.py   # its test\n"
         f"  {here}brain up {name}.graph.yaml --world sim   # a robot with it in a simulated room\n"
         f"  {here}brain run {name}:{made['Class']} --name {name}   # or: join it to a brain that runs\n"
         f"  brain topic echo sensor/features   # what it tells\n"
         f"docs/write-a-region.md says what a region may declare and ask.")


@app.command("graph")
def new_graph(name: Name, folder: Folder = Path()) -> None:
    """Writes a graph of the whole brain, to change.

    Example: brain new graph my_robot
    """
    _check(name)
    _write(folder, {f"{name}.graph.yaml": _graph(name, "")})
    tell(f"wrote {name}.graph.yaml; try it: brain up {folder / f'{name}.graph.yaml'} --world sim --dry-run")


def _check(name: str) -> None:
    if not NAME.fullmatch(name) or keyword.iskeyword(name) or len(name) > LONGEST:
        fail(f"{name!r:.60} is no name: at most {LONGEST} small letters, digits and single underscores, a letter first",
             2)


def _filled(template: str, values: dict[str, str]) -> str:
    return Template((TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")).substitute(values)


def _graph(name: str, more: str) -> str:
    """The brain's graph by another name, with some more regions."""
    from brain_runtime.graph.graphs import config_directory

    text = (config_directory() / "brain.graph.yaml").read_text(encoding="utf-8")
    return text.replace("name: brain\n", f"name: {name}\n").replace("\nregions:\n", f"\nregions:\n{more}")


def _write(folder: Path, texts: dict[str, str]) -> None:
    """Writes all files, or none where one of them is there already."""
    if not folder.is_dir():
        fail(f"{folder} is no folder; make it, or name another one", 2)
    there = [name for name in texts if (folder / name).exists()]
    if there:
        fail(f"{', '.join(there)} is there already in {folder.absolute()}, and stays; choose another name", 2)
    for name, text in texts.items():
        try:
            (folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            fail(f"cannot write {folder / name}: {error.strerror or error}")

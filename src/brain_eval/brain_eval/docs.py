# SPDX-License-Identifier: Apache-2.0
"""``brain docs``: writes the reference pages from the code."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

REFERENCE = Path("docs/reference")


def docs(out: Annotated[Path, typer.Option(help="Folder of the pages.")] = REFERENCE,
         graph: Annotated[str, typer.Option(help="Whose regions are told of: name of a graph, or a path.")] = "brain",
         check: Annotated[bool, typer.Option(
             "--check", help="Write nothing; exit status 1 if a page differs.")] = False,
         as_json: Json = False) -> None:
    """Write the reference from the code, and the tables of figures from results/.

    The reference is topics, ports, parameters, messages, launch arguments and words. The tables are those of README.md
    and docs/*.md in this folder; with --out they are left alone.
    """
    from brain_eval import tables
    from brain_eval.reference import pages
    from brain_runtime.graph import GraphError
    from brain_wire.parameters import ParameterError
    from brain_runtime.hosts.ros_args import RosArgsError

    try:
        made, figures = pages(graph), tables.made(Path()) if out == REFERENCE else {}
    except (GraphError, ParameterError, RosArgsError, tables.TableError) as error:
        fail(str(error))
    wrong = [page for page, text in figures.items() if page.read_text(encoding="utf-8") != text]
    stale = [name for name, text in made.items() if not (out / name).is_file()
             or (out / name).read_text(encoding="utf-8") != text]
    if check:
        if wrong:
            fail(f"{', '.join(map(str, wrong))}: a table differs from results/; write it anew with `brain docs`")
        if stale:
            fail(f"{', '.join(stale)} in {out} differ from the code; write them anew with `brain docs --out {out}`")
        if as_json:
            tell_json({"folder": str(out.absolute()), "differ": []}, None)
        return
    written = {**{out / name: made[name] for name in stale}, **{page: figures[page] for page in wrong}}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for page, text in written.items():
            page.write_text(text, encoding="utf-8")
            if not as_json:
                tell(f"wrote {page}")
    except OSError as error:
        fail(f"cannot write {error.filename or out}: {error.strerror}; name another folder with --out")
    if as_json:
        tell_json({"folder": str(out.absolute()), "written": stale + [str(page) for page in wrong]}, None)

# SPDX-License-Identifier: Apache-2.0
"""``brain fleet audit``: who ordered what, and whether anybody has changed that since."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Iterator

import typer

from brain_edge.processes.options import CloudAt, FleetSecure
from brain_edge.processes.with_cloud import with_cloud, with_folder
from brain_runtime.command.options import Json, fail, tell, tell_json

PAGE = 1000     # entries that are asked for at once


def audit(verify: Annotated[bool, typer.Option("--verify", help="Follow the chain, and print no entries.")] = False,
          expect: Annotated[str | None, typer.Option(
              "--expect", metavar="NUMBER:HASH", help="With --verify: an entry that was noted elsewhere must be "
              "there.")] = None,
          as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None,
          folder: Annotated[Path | None, typer.Option(
              "--folder", metavar="DIR", help="At the cloud: read its folder, as ~/.brain/cloud, whether it runs or "
              "not.")] = None) -> None:
    """Prints who ordered what, oldest first: each entry with how it is known who that was.

    Exit status with --verify: 1 where an entry was changed or taken out.
    """
    wanted = None if expect is None else _read(expect)
    if wanted is not None and not verify:
        fail("--expect belongs to --verify", 2)
    if folder is not None:
        with_folder(folder, lambda reading: _show(_pages(lambda after: _page(reading, after)), verify, wanted, as_json))
        return
    with_cloud(cloud, secure, lambda ask: _show(_pages(lambda after: ask("audit", after=after)), verify, wanted,
                                                as_json))


def _page(reading: Any, after: int) -> dict[str, Any]:
    from brain_cloud import audit

    with reading.moment():
        return audit.page(reading.rows, after, PAGE)


def _read(text: str) -> tuple[int, str]:
    found = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", text)
    if found is None:
        fail("--expect: give number and hash as --verify prints them, as 12:4f...", 2)
    return int(found[1]), found[2]


def _pages(ask: Any) -> Iterator[dict[str, Any]]:
    after = 0
    while True:
        one = ask(after)
        yield one
        if not one["entries"]:
            return
        after = one["entries"][-1]["number"]


def _show(pages: Iterator[dict[str, Any]], check: bool, wanted: tuple[int, str] | None, as_json: bool) -> None:
    from brain_cloud import audit

    try:
        if not check:
            found: list[dict[str, Any]] = []
            for one in pages:
                found += one["entries"]
                if not as_json:
                    for entry in one["entries"]:
                        tell(f"{entry['at']}  {entry['person']} ({entry['proof']}): {entry['text']}")
            if as_json:
                tell_json({"entries": found})
            return
        told = audit.verify(pages, wanted)
    except (KeyError, TypeError) as error:
        fail(f"what the cloud answers is no audit log ({type(error).__name__}: {error}); its software may be another")
    if as_json:
        tell_json(told._asdict())
        raise typer.Exit(1 if told.problem else 0)
    if told.problem:
        fail(f"the audit log was tampered with, or damaged: {told.problem}")
    older = f"; {told.let_go} older ones were let go of" if told.let_go else ""
    tell(f"{told.entries} entries, none changed or taken out{older}")
    if told.last:
        tell(f"note this elsewhere, for --expect: {told.last}:{told.hash}")

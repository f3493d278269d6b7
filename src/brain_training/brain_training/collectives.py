# SPDX-License-Identifier: Apache-2.0
"""``brain collectives``: checks, measures and explains what processes do together."""
from __future__ import annotations

import contextlib
import os
import signal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Iterator

import typer

from brain_runtime.command.options import Json, check_writable, fail, tell, tell_json
from brain_eval.saved import Save

SIZES = "8B..16MiB"
RANKS, RANKS_SHOWN = 2, 3
WIDE = 120      # characters of the table, where there is no terminal


class Backend(str, Enum):
    """Backends of torch.distributed that are told apart."""

    gloo = "gloo"
    zenoh = "zenoh"
    nccl = "nccl"


def collectives(ranks: Annotated[int | None, typer.Option(
                    min=1, max=64, help="Processes. Default: 2; 3 with --explain; what RANK and WORLD_SIZE say, where "
                    "torchrun has set them.")] = None,
                backend: Annotated[Backend, typer.Option(help="Of torch.distributed.")] = Backend.gloo,
                sizes: Annotated[str, typer.Option(metavar="SIZES", help="A range in steps of 4, or a list as "
                                                   "8B,1KiB,1MiB.")] = SIZES,
                only: Annotated[list[str] | None, typer.Option(
                    metavar="NAME", help="Only this collective, or all of its kind, as all_reduce. May be given "
                    "several times.")] = None,
                explain: Annotated[str | None, typer.Option(
                    metavar="NAME", help="Show what this collective does, with the values of each rank before and "
                    "after.")] = None,
                repeats: Annotated[int, typer.Option(min=1, help="Most repetitions at one size; large ones have "
                                                     "fewer.")] = 100,
                patience: Annotated[float, typer.Option(min=1, help="After so many seconds without progress all is "
                                                        "given up.")] = 120.0,
                picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw bus bandwidth by size: a .png, "
                                                             ".svg or .pdf.")] = None,
                as_json: Json = False, save: Save = False) -> None:
    """Checks and measures every collective of torch.distributed, between processes on this machine.

    What each rank is left with is compared with values computed otherwise, at every size. Times are those of the
    slowest rank; bandwidths are what nccl-tests calls algorithm and bus bandwidth. Started by torchrun, it is one rank
    of a group, which may span machines. Where mpi4py and an mpiexec are installed, MPI is measured beside (not under
    torchrun).

    Exit status 0 when every value was right and the backend has all that it should.
    """
    from brain_collectives.checks import elastic
    from brain_collectives.checks.rank import Order
    from brain_collectives.checks.sizes import parse
    from brain_collectives.checks.table import chosen

    if explain is not None and (picture is not None or save or only):
        fail("--explain measures nothing; leave --picture, --save and --only out", 2)
    try:
        rows = chosen([explain] if explain is not None else only or ())
        order = Order(backend.value, tuple(row.name for row in rows), tuple(parse(sizes)), repeats,
                      explain is not None, patience)
        place = elastic.given(os.environ)
    except ValueError as error:
        fail(str(error), 2)
    if place is not None and ranks not in (None, place[1]):
        fail(f"--ranks {ranks} does not fit WORLD_SIZE={place[1]}; leave it out, or unset RANK and WORLD_SIZE", 2)
    _check_files(picture, save)
    told, found = (_here(order, ranks or (RANKS_SHOWN if explain is not None else RANKS)) if place is None
                   else _as_one(order, *place))
    if place is not None and place[0] != 0:
        raise typer.Exit(1 if any(one["kind"] == "wrong" for one in found[0]) else 0)
    if explain is not None:
        _tell_explained(rows, found, backend.value, as_json)
    else:
        _tell_measured(rows, found, order, told, picture, as_json, save, mpi=place is None)


def _check_files(picture: Path | None, save: bool) -> None:
    """Ends the command, before long work begins, where its results could not be written."""
    from brain_collectives.checks.picture import SUFFIXES
    from brain_eval import saved

    if picture is not None:
        from importlib.util import find_spec

        from brain_runtime.command.lacking import lacks

        if picture.suffix.lower() not in SUFFIXES:
            fail(f"cannot write {picture}: {picture.suffix or 'a name without a suffix'} is no kind of picture; name a "
                 f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}", 2)
        if find_spec("matplotlib") is None:
            fail(lacks("matplotlib"), 2)
    check_writable(picture)
    if save:
        saved.check_folder()


def _here(order: Any, ranks: int) -> tuple[str, list[list[dict[str, Any]]]]:
    """Runs an order on ranks of this machine."""
    from brain_runtime.command.terminal import Terminal
    from brain_training.collective_ranks import Ranks, RanksProblem

    try:
        with _ends_by_signals(), Terminal(stderr=True).status("starting") as shown:
            group = Ranks(order, ranks, progress=shown.update)
            found = group.run()
    except RanksProblem as problem:
        fail(str(problem))
    return group.torch, found


@contextlib.contextmanager
def _ends_by_signals() -> Iterator[None]:
    """SIGINT and SIGTERM end what runs in here, and the command; also where this was started deaf to them."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        fail("interrupted; all ranks were ended", 130)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _as_one(order: Any, rank: int, ranks: int) -> tuple[str, list[list[dict[str, Any]]]]:
    """Runs an order as one rank among others."""
    from brain_collectives.checks import elastic
    from brain_collectives.checks.rank import RankProblem

    try:
        return elastic.run(order, rank, ranks)
    except RankProblem as problem:
        fail(str(problem))


def _tell_explained(rows: list, found: list[list[dict[str, Any]]], backend: str, as_json: bool) -> None:
    from brain_collectives.checks import report, results

    told = [results.explained(row, found, backend) for row in rows]
    if as_json:
        tell_json({"backend": backend, "ranks": len(found), "explained": told})
    else:
        for one in told:
            tell("\n".join([*report.explanation(one), ""]))
    raise typer.Exit(0 if all(one["right"] for one in told) else 1)


def _tell_measured(rows: list, found: list[list[dict[str, Any]]], order: Any, torch: str, picture: Path | None,
                   as_json: bool, save: bool, *, mpi: bool) -> None:
    from brain_collectives.checks import mpi_beside, report, results
    from brain_collectives.checks.picture import draw
    from brain_eval import saved
    from brain_runtime.command.terminal import Terminal

    figures = results.together(rows, found, order.backend, torch, order.sizes)
    with _ends_by_signals():
        figures["mpi"] = mpi_beside.measure(rows, order, len(found)) if mpi else None
    say = (lambda text: None) if as_json else tell
    if as_json:
        tell_json(figures)
    else:
        console = Terminal()
        console = console if console.is_terminal else Terminal(width=WIDE)
        console.print(report.table(figures))
        for line in report.notes(figures):
            say(line)
    if picture is not None:
        try:
            draw(picture, figures)
            say(f"wrote {picture}")
        except (ValueError, OSError) as error:
            fail(f"cannot draw {picture}: {error}")
    if save:
        say(f"wrote {saved.write(f'collectives-{order.backend}', figures, {})}")
    right = figures["right"] and (figures["mpi"] or {}).get("right", True)
    raise typer.Exit(0 if right else 1)

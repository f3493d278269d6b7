# SPDX-License-Identifier: Apache-2.0
"""One measurement: its options, what it measures, and how its figures are told, bounded and drawn.

Everything around it, printing, ``--json``, ``--save``, ``--quick``, pictures and the exit status, is
:mod:`brain_eval.bench.runner`'s.
"""
from __future__ import annotations

import signal
from concurrent.futures import as_completed
from pathlib import Path
from typing import Annotated, Any, Callable, Iterable, Mapping, Sequence

import typer

from brain_eval.bench.rows import Table, rows
from brain_runtime.command.options import fail

Jobs = Annotated[int, typer.Option(min=1, help="How many run at once.")]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny: shows that it runs, and nothing else.")]


def alone() -> tuple[Any, str, int]:
    """Prepares for a brain of its own, which nobody else reaches: its end, its router's endpoint and its domain.

    The end is a :class:`brain_wire.wakeup.Flag` that SIGINT and SIGTERM set.
    """
    from brain_runtime.command.options import use_domain
    from brain_wire.router import free_port
    from brain_wire.wakeup import Flag

    stop = Flag()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    port = free_port()
    return stop, f"tcp/127.0.0.1:{port}", use_domain(port % 200)


def whole_numbers(option: str, text: str, low: int, high: int) -> list[int]:
    """Numbers of an option with commas between, each once, in order; ends the command where it has others."""
    try:
        found = sorted({int(word) for word in text.split(",")})
        if low <= found[0] and found[-1] <= high:
            return found
    except ValueError:
        pass    # told below
    fail(f"{option} is {text[:80]!r}; it must be whole numbers from {low} to {high} with commas between, as "
         f"{low},{low + 1}", 2)


class Problem(RuntimeError):
    """It cannot be measured; says why, and ends the command with that in one line."""


def brain_problems() -> tuple[type[Exception], ...]:
    """Errors of a brain that does not come up, or of a wire that is not there."""
    from brain_runtime.graph import GraphError
    from brain_runtime.supervision.supervised_brain import StartError
    from brain_wire import NoRouter, SessionProblem

    return GraphError, StartError, NoRouter, SessionProblem, TimeoutError, OSError


class Experiment:
    """A measurement of ``brain bench NAME``; its docstring is the help, the parameters of ``measure`` are the options.

    Attributes:
        quick: values of options for ``--quick``, of those that are not given. An experiment that can be smaller in
            another way has a parameter ``quick``.
        cpu: the processor's name stands first in the figures.
        picture: file that :meth:`draw` makes in the folder of ``--picture``; empty: nothing is drawn.
        problems: errors that are no mistake of the code, beside :class:`Problem` and those of :func:`brain_problems`.
        refused: exit status where one of these ends it.
        status: shows for a moment what is done; of the runner.
        log: tells a line of how it goes; of the runner.
    """

    quick: Mapping[str, Any] = {}
    cpu = False
    picture = ""
    problems: tuple[type[Exception], ...] = ()
    refused = 1

    def __init__(self) -> None:
        self.status: Callable[[str], None] = lambda text: None
        self.log: Callable[[str], None] = lambda text: None

    def measure(self, **options: Any) -> Any:
        """Takes the figures; returns plain values, as JSON has them."""
        raise NotImplementedError

    def figures(self, found: Any) -> Any:
        """Returns what ``--json`` tells and ``--save`` keeps of what was measured."""
        return found

    def rows(self, found: Any) -> Iterable[str | Table]:
        """Formats what was measured for a person, as lines and tables."""
        return rows(self.figures(found))

    def good(self, found: Any) -> bool:
        """Decides on the exit status: 0 where the bounds are kept, by default all of ``within``."""
        within = found.get("within", True) if isinstance(found, dict) else True
        return all(within.values()) if isinstance(within, dict) else bool(within)

    def draw(self, path: Path, found: Any) -> None:
        """Draws what was measured into a PNG. A robot that can measure has no plotting, so import it in here."""
        raise NotImplementedError

    def side_by_side(self, work: Callable[..., Any], items: Sequence[tuple], jobs: int, what: str,
                     begin: Callable[..., None] | None = None, *given: Any) -> list[Any]:
        """Calls ``work(*item)`` in processes of one thread each; returns the results in the order of the items.

        Args:
            work: a function of a module.
            items: arguments of each call.
            jobs: processes.
            what: name of the items, for a person.
            begin: called with ``given`` once in each process.
            given: what is large and the same for all.
        """
        from brain_eval.workers import workers

        results: dict[int, Any] = {}
        with workers(jobs, begin, *given) as pool:
            waiting = {pool.submit(work, *item): number for number, item in enumerate(items)}
            for done in as_completed(waiting):
                results[waiting[done]] = done.result()
                self.status(f"{len(results)} of {len(items)} {what}")
        return [results[number] for number in range(len(items))]

# SPDX-License-Identifier: Apache-2.0
"""Places where a verb asks: the cloud, or a folder of an edge or a cloud; the answer is shown once or repeatedly."""
from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from brain_runtime.command.options import fail, tell_json

if TYPE_CHECKING:
    from brain_edge.reading import Reading

REFRESH = 1.0       # s between two pictures of --watch


def with_cloud(cloud: str | None, secure: Path | None, work: Callable[[Any], None]) -> None:
    """Does something with a session to the cloud; ends the command with a line where there is none."""
    from brain_edge.processes.asking import Asking, NoCloud
    from brain_wire import SessionProblem

    try:
        with Asking(cloud, None if secure is None else secure.expanduser()) as asking:
            work(asking)
    except (NoCloud, SessionProblem) as problem:
        fail(str(problem))
    except KeyboardInterrupt:
        return


def with_folder(folder: Path, work: Callable[[Reading], None]) -> None:
    """Does something with what an edge or a cloud knows, whether it runs or not; ends with a line where that is none.

    Args:
        folder: of it.
        work: reads its database.
    """
    from brain_edge.reading import Reading
    from brain_edge.store import StoreProblem

    try:
        with Reading(folder.expanduser()) as reading:
            work(reading)
    except (StoreProblem, FileNotFoundError) as problem:
        fail(str(problem))
    except KeyboardInterrupt:
        return


def look(ask: Callable[[], dict[str, Any]], show: Callable[[dict[str, Any]], Any], watch: bool, as_json: bool) -> None:
    """Shows something once, or again and again."""
    from brain_runtime.command.terminal import Terminal

    console = Terminal()
    if not watch:
        found = ask()
        tell_json(found) if as_json else console.print(show(found), soft_wrap=False)
        return
    if as_json:
        while True:
            tell_json(ask(), None)
            time.sleep(REFRESH)
    from rich.live import Live

    with Live(show(ask()), console=console, auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(REFRESH)
            live.update(show(ask()), refresh=True)


def check_robot(ask: Callable[..., dict[str, Any]], robot: str | None) -> None:
    """Ends with a line where the cloud has never heard of a robot."""
    if robot is not None and robot not in {one["robot"] for one in ask("robots")["robots"]}:
        fail(f"there is no robot {robot[:60]!r} in this fleet; `brain fleet nodes` shows those that there are")

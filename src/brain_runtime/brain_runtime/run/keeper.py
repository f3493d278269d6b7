# SPDX-License-Identifier: Apache-2.0
"""Keepers: who starts the processes of a brain (`brain up`, a launch) names itself in their environment.

They end in good order when their keeper is gone, however that went, each after those that it serves: first what moves
the robot, then a simulated world, the router last. What nobody keeps (`brain run`, `ros2 run`) has no such name and
goes on. The kernel's own death signal will not do for that: it takes all at once, and comes when the *thread* ends
that started the process. It only has one that is stopped go on, so that it ends with the others.
"""
from __future__ import annotations

import logging
import math
import os
import select
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

from brain_runtime.run.end_with_parent import signalled

VARIABLE = "BRAIN_KEEPER"       # process id and start time of the keeper, as 4711:8154309
TURN = "BRAIN_TURN"             # a process with a lower number in it ends before one with a higher one
OUTER = "BRAIN_RECORDS"         # the keeper of the keeper, where one stands between a launch and a region
MOVER, WORLD, ROUTER = 1, 2, 3  # such numbers; what has none is not waited for
LOOK = 0.25                     # s between looks, where the kernel cannot say when a process ends
LINGER = 8.0                    # s that a process waits for those whose turn is before its own
PATIENCE = 15.0                 # s to end in good order: the brainstem holds on until the robot stands
LEFT = 71                       # exit status of what did not end in that time
# A signal that comes after the interpreter looked for one and before the kernel sleeps wakes nobody. Its handler runs
# at the next signal: this one, which does nothing of its own. A second SIGTERM could cut a good end short.
NUDGE = signal.SIGURG

log = logging.getLogger(__name__)


def mark(process: int | None = None) -> str:
    """The name of a process that no later one has: its id and when it started; None: of this process.

    Raises:
        OSError: there is no such process.
    """
    process = os.getpid() if process is None else process
    return f"{process}:{_fields(process)[19]}"


def _fields(process: int) -> list[str]:
    """Reads a process's fields from /proc: its state first, when it started (in ticks since the machine did) at 19."""
    return Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def lives(name: str) -> bool:
    """Tells whether the process of a :func:`mark` is there still.

    One that has ended and was not asked for its status is not.

    Raises:
        ValueError: it is no mark.
    """
    process, _, started = name.partition(":")
    number, begin = int(process), int(started)
    try:
        fields = _fields(number)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(fields[19]) == begin and fields[0] not in "ZX"


def told(turn: int = 0) -> dict[str, str]:
    """Makes the environment variables of a process that this one keeps; none where the kernel names no processes.

    Args:
        turn: number of its turn to end, such as :data:`MOVER`; 0: nobody waits for it.
    """
    try:
        return {VARIABLE: mark(), TURN: str(turn) if turn else ""}
    except OSError:
        return {}


def handle(name: str) -> int | None:
    """A file descriptor that can be read once the process of a :func:`mark` is gone; None where the kernel has none.

    Raises:
        ProcessLookupError: it is gone. ValueError: it is no mark.
    """
    try:
        found = os.pidfd_open(int(name.partition(":")[0]))
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):   # an old kernel, or a container that forbids it
        found = None
    if not lives(name):     # the id may be another process's by now
        if found is not None:
            os.close(found)
        raise ProcessLookupError(f"the process {name} is gone")
    return found


def wait(name: str) -> None:
    """Returns when the process of a :func:`mark` is gone.

    Raises:
        ValueError: it is no mark.
    """
    try:
        found = handle(name)
    except ProcessLookupError:
        return
    if found is None:
        while lives(name):
            time.sleep(LOOK)
        return
    try:
        poll = select.poll()
        poll.register(found, select.POLLIN)
        poll.poll()
    finally:
        os.close(found)


def environment_of(process: int | str) -> dict[str, str]:
    """The environment that a process of this user was started with; empty where it cannot be read, or it has ended."""
    try:
        content = Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in content.split(b"\0") if entry)
    return {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs}


def _kept() -> Iterator[tuple[int, dict[str, str]]]:
    """Processes of this user that name a keeper, with their environments."""
    for folder in Path("/proc").glob("[0-9]*"):
        environment = environment_of(folder.name)
        if environment.get(VARIABLE):
            yield int(folder.name), environment


def before(turn: int, name: str) -> list[int]:
    """Processes of a keeper whose turn to end is before a turn.

    Args:
        name: mark of the keeper.
    """
    turns = ((process, environment.get(TURN, "")) for process, environment in _kept()
             if name in (environment[VARIABLE], environment.get(OUTER)))
    return [process for process, text in turns if text.isdecimal() and len(text) < 10 and int(text) < turn]


def linger(turn: int, name: str, pause: Callable[[float], Any] = time.sleep, over: Callable[[], bool] = lambda: False
           ) -> None:
    """Waits until those of a keeper have ended whose turn is before ``turn``, :data:`LINGER` s at most.

    Args:
        name: mark of the keeper.
        pause: waits for so many s.
        over: whether nothing is to be waited for any more.
    """
    until = time.monotonic() + LINGER
    while not over() and time.monotonic() < until and before(turn, name):
        pause(LOOK / 2)


@dataclass
class Keeper:
    """A keeper and what it keeps.

    Attributes:
        process: its id.
        lives: whether it is there; what it kept ends otherwise.
        command: its command line; empty where it is gone.
        since: when it was started (s since 1970), nan where it is gone.
        domain: ROS domain of what it keeps.
        kept: ids of the processes that it keeps.
    """

    process: int
    lives: bool
    command: str
    since: float
    domain: int
    kept: list[int]


def keepers() -> list[Keeper]:
    """Keepers on this machine whose processes are this user's, also those that are gone and have left some behind."""
    found: dict[str, Keeper] = {}
    for process, environment in _kept():
        name, domain = environment[VARIABLE], environment.get("ROS_DOMAIN_ID", "")
        try:
            there = lives(name)
        except ValueError:
            continue
        number = int(name.partition(":")[0])
        one = found.setdefault(name, Keeper(
            number, there, _command(number) if there else "", _since(number) if there else math.nan,
            int(domain) if domain.isdecimal() and len(domain) < 10 else 0, []))
        one.kept.append(process)
    return sorted(found.values(), key=lambda one: one.process)


def wait_for_the_last(domain: int, wait: Callable[[float], Any]) -> list[int]:
    """Waits until what keepers of a domain that are gone have left behind to end in its turn has ended, a bounded time.

    Args:
        wait: for so many s; returns true where nothing is to be waited for any more.

    Returns:
        Processes that are there still.
    """
    until = time.monotonic() + LINGER + PATIENCE
    while left := [process for one in keepers() if not one.lives and one.domain == domain for process in one.kept
                   if environment_of(process).get(TURN)]:
        if time.monotonic() > until or wait(LOOK):
            break
    return left


def _command(process: int) -> str:
    try:
        return os.fsdecode(Path(f"/proc/{process}/cmdline").read_bytes()).replace("\0", " ").strip()
    except OSError:
        return ""


def _since(process: int) -> float:
    try:
        ticks = int(_fields(process)[19])
        up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    except OSError:
        return math.nan
    return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")


def end_with_keeper(name: str | None = None, end: Callable[[], None] | None = None) -> threading.Thread | None:
    """Has this process ended when its keeper is gone; does nothing where there is none. Call it in the main thread.

    Args:
        name: mark of the keeper; None: as the environment has it.
        end: what ends this process; None: when its turn has come SIGTERM, and where that has not done it after
            :data:`PATIENCE` s, the end.

    Returns:
        The thread that waits, or None.
    """
    name = os.environ.get(VARIABLE, "") if name is None else name
    if not name:
        return None
    try:
        lives(name)
    except ValueError:
        log.warning("%s is %r, which names no process; a keeper sets it, so leave it away", VARIABLE, name)
        return None
    if os.environ.get(TURN):    # others may have the kernel kill them with their parent
        try:
            signalled(signal.SIGCONT)
        except OSError as error:
            log.warning("should this process be stopped when its keeper is gone, it stays: %s", error)
    if end is None and signal.getsignal(NUDGE) in (signal.SIG_DFL, signal.SIG_IGN):
        signal.signal(NUDGE, _nudged)
    thread = threading.Thread(target=_attend, args=(name, end), name="keeper", daemon=True)
    thread.start()
    return thread


def _attend(name: str, end: Callable[[], None] | None) -> None:
    wait(name)
    log.warning("the process that keeps this one (pid %s) is gone; it ends", name.partition(":")[0])
    if end is not None:
        end()
        return
    turn = os.environ.get(TURN, "")
    linger(int(turn) if turn.isdecimal() else 0, name)
    _end()


def _nudged(number: int, frame: object) -> None:
    pass    # that the wait was interrupted is all


def _end() -> None:
    # To the main thread itself, which the signal then wakes whatever it waits for.
    main = threading.main_thread().ident
    assert main is not None, "it runs, or nothing would"
    signal.pthread_kill(main, signal.SIGTERM)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        time.sleep(LOOK)
        signal.pthread_kill(main, NUDGE)
    logging.shutdown()
    os._exit(LEFT)      # nobody is left who would kill it

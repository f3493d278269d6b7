# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes of their own, each running one of the files in ``programs``."""
from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Iterator

import pytest

from brain_wire.router import free_port

PROGRAMS = Path(__file__).parent / "programs"
sys.path.insert(0, str(PROGRAMS))       # for the processes that are forked, too
FORKS = multiprocessing.get_context("forkserver")     # what it has imported: FORKED of the root's conftest.py
PATIENCE = 240      # s; only ends a hang
# What an outer environment might say is not to choose the link of these tests.
OTHERS = ("BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE", "OMP_NUM_THREADS")


class Ranks:
    """Processes of one program.

    Args:
        world: how many.
        program: name of a file in ``programs``.
        words: its arguments.
        whole: interpreters of their own, which end as such; else forks of one that has torch loaded, within
            milliseconds and not seconds.
        environment: beside that of this process.
    """

    def __init__(self, world: int, program: str, *words: str, whole: bool = False, **environment: str) -> None:
        inherited = {key: value for key, value in os.environ.items()
                     if key not in OTHERS and not key.startswith("BRAIN_COLLECTIVES_")}
        shared = {**inherited, "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                  "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **environment}
        self.processes: list[Whole | Fork] = [
            (Whole if whole else Fork)(str(PROGRAMS / program), words,
                                       {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(world)]
        self.said: list[list[str]] = [[] for _ in range(world)]

    def line(self, rank: int, beginning: str) -> str:
        """The next line of a rank that begins so."""
        while line := self.processes[rank].output.readline():
            self.said[rank].append(line.rstrip("\n"))
            if line.startswith(beginning):
                return line.strip()
        pytest.fail(f"rank {rank} never said {beginning!r}:\n" + "\n".join(self.said[rank]))

    def go_on(self, rank: int) -> None:
        """Gives a rank the line for which it waits."""
        self.processes[rank].input.write("\n")
        self.processes[rank].input.flush()

    def ends(self, *but: int) -> list[str]:
        """Waits until all ranks (but some) have ended; all that each said.

        A rank that does not end fails the test.
        """
        for rank, process in enumerate(self.processes):
            if rank not in but:
                rest = process.rest()
                self.said[rank] += rest.splitlines()
                if process.returncode in (None, -signal.SIGABRT, -signal.SIGKILL):
                    pytest.fail(f"rank {rank} did not end by itself:\n" + "\n".join(self.said[rank]))
        return ["\n".join(lines) for lines in self.said]

    def succeed(self, *but: int) -> list[str]:
        """As :meth:`ends`, and each ended well."""
        said = self.ends(*but)
        for rank, process in enumerate(self.processes):
            assert rank in but or process.returncode == 0, f"rank {rank} ended with {process.returncode}:\n{said[rank]}"
        return said

    def close(self) -> None:
        """Leaves no process behind."""
        for process in self.processes:
            process.close()


class Whole:
    """A rank in an interpreter of its own."""

    def __init__(self, program: str, words: tuple[str, ...], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen([sys.executable, "-W", "ignore", program, *words], env=environment, text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         start_new_session=True)
        self.input, self.output, self.pid = self._process.stdin, self._process.stdout, self._process.pid
        self.kill = self._process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def rest(self) -> str:
        """Waits until it ends; what it says yet."""
        try:
            return self._process.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            os.kill(self.pid, signal.SIGABRT)
            return self._process.communicate()[0]

    def close(self) -> None:
        self.kill()
        self._process.wait()
        self.output.close()
        self.input.close()


class Fork:
    """A rank in a process that was forked from one that has torch loaded."""

    def __init__(self, program: str, words: tuple[str, ...], environment: dict[str, str]) -> None:
        run = importlib.import_module("rank_process").run
        hears, tells = FORKS.Pipe(duplex=False)
        told, input_end = FORKS.Pipe(duplex=False)
        self._process = FORKS.Process(target=run, args=(program, words, environment, told, tells))
        self._process.start()
        tells.close()
        told.close()
        self.pid, self.kill = self._process.pid, self._process.kill
        self.output = os.fdopen(os.dup(hears.fileno()), encoding="utf-8", errors="replace")
        self.input = os.fdopen(os.dup(input_end.fileno()), "w")
        hears.close()
        input_end.close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def rest(self) -> str:
        """Waits until it ends; what it says yet."""
        timer = threading.Timer(PATIENCE, lambda: os.kill(self.pid, signal.SIGKILL))
        timer.start()
        try:
            said = self.output.read()
            self._process.join()
        finally:
            timer.cancel()
        return said

    def close(self) -> None:
        self.kill()
        self._process.join()
        self.output.close()
        self.input.close()


class RouterProcess:
    """A router that can be killed, and started again at the same endpoint.

    Attributes:
        endpoint: at which it is reached.
    """

    def __init__(self) -> None:
        self.endpoint = f"tcp/127.0.0.1:{free_port()}"
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        environment = {key: value for key, value in os.environ.items() if key not in OTHERS}
        self._process = Fork(str(PROGRAMS / "router_process.py"), (self.endpoint,), environment)
        while (line := self._process.output.readline()) != "routing\n":    # after warnings
            assert line, "the router ended"

    def kill(self) -> None:
        """Ends it without a goodbye."""
        self._process.close()


@pytest.fixture
def router() -> Iterator[RouterProcess]:
    """A router in a process of its own."""
    started = RouterProcess()
    yield started
    started.kill()


@pytest.fixture
def ranks() -> Iterator[Any]:
    """Starts ranks, and ends what is left of them after the test."""
    started: list[Ranks] = []

    def start(world: int, program: str, *words: str, whole: bool = False, **environment: str) -> Ranks:
        started.append(Ranks(world, program, *words, whole=whole, **environment))
        return started[-1]
    yield start
    for one in started:
        one.close()

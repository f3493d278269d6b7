# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes of their own, each running one of the files in ``programs``."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from brain_wire.router import free_port

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 150      # s; only ends a hang
# What an outer environment might say is not to choose the link of these tests.
OTHERS = ("BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE", "OMP_NUM_THREADS")


class Ranks:
    """Processes of one program.

    Args:
        world: how many.
        program: name of a file in ``programs``.
        words: its arguments.
        environment: beside that of this process.
    """

    def __init__(self, world: int, program: str, *words: str, **environment: str) -> None:
        inherited = {key: value for key, value in os.environ.items()
                     if key not in OTHERS and not key.startswith("BRAIN_COLLECTIVES_")}
        shared = {**inherited, "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                  "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **environment}
        self.processes = [
            subprocess.Popen([sys.executable, "-W", "ignore", str(PROGRAMS / program), *words], text=True,
                             env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
            for rank in range(world)]
        self.said: list[list[str]] = [[] for _ in range(world)]

    def line(self, rank: int, beginning: str) -> str:
        """The next line of a rank that begins so."""
        for line in self.processes[rank].stdout:
            self.said[rank].append(line.rstrip("\n"))
            if line.startswith(beginning):
                return line.strip()
        pytest.fail(f"rank {rank} never said {beginning!r}:\n" + "\n".join(self.said[rank]))

    def go_on(self, rank: int) -> None:
        """Gives a rank the line for which it waits."""
        process = self.processes[rank]
        process.stdin.write("\n")
        process.stdin.flush()

    def ends(self, *but: int) -> list[str]:
        """Waits until all ranks (but some) have ended; all that each said.

        A rank that does not end fails the test.
        """
        for rank, process in enumerate(self.processes):
            if rank not in but:
                try:
                    rest, _ = process.communicate(timeout=PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    rest, _ = process.communicate()
                    pytest.fail(f"rank {rank} did not end:\n" + "\n".join(self.said[rank]) + rest)
                self.said[rank] += rest.splitlines()
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
            process.kill()
            process.wait()
            process.stdout.close()
            process.stdin.close()


@pytest.fixture
def ranks() -> Iterator[Any]:
    """Starts ranks, and ends what is left of them after the test."""
    started: list[Ranks] = []

    def start(world: int, program: str, *words: str, **environment: str) -> Ranks:
        started.append(Ranks(world, program, *words, **environment))
        return started[-1]
    yield start
    for one in started:
        one.close()

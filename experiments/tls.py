# SPDX-License-Identifier: Apache-2.0
"""Cost of security: round trips of bare Zenoh sessions through a plain router and through a secured one.

Blocks of both alternate, so that a noisy machine is as noisy for either. The secured one is what `brain keys` makes:
TLS with certificates on both sides, and access rules.
"""
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Iterator

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment
from brain_eval.bench.wire import READY, BarePing, by_turns, running, wait_for
from brain_runtime.run.workload import Workload
from brain_security.folder import fill
from brain_security.rights import Rights
from brain_wire import open_session
from brain_wire.router import free_port

SIZES = {"200 B": 200, "12 KiB": 12 * 1024, "1 MiB": 2**20}


def children(folder: Path, plain: str, secured: str) -> list[Workload]:
    """Two routers and an echo at each; makes the keys in ``folder``."""
    ping, pong = frozenset({"/bench/ping"}), frozenset({"/bench/pong"})
    fill(folder, [Rights("/echo", publishes=pong, hears=ping), Rights("/ping", publishes=ping, hears=pong)], domain=0,
         namespace="/", about={}, days=100.0)
    router = (sys.executable, "-m", "brain_wire.router", "--listen")
    echo = (sys.executable, "-m", "brain_eval.bench.wire")
    return [Workload("plain", (*router, plain), stop_order=2),
            Workload("secured", (*router, secured, "--config", str(folder / "router.json5")), stop_order=2),
            Workload("plain echo", (*echo, plain)),
            Workload("secured echo", (*echo, secured, str(folder / "echo.json5")))]


def compare(folder: Path, plain: str, secured: str, blocks: int) -> Iterator[dict[str, Any]]:
    """Measures what :func:`children` runs: of each size medians (s) without and with security, and their ratio.

    Raises:
        TimeoutError: one of the echoes does not answer, or nothing of one size came back.
        NoRouter: one of the routers is not there.
    """
    os.environ["BRAIN_SECURITY"] = ""
    with open_session(plain, patience=READY) as first:
        os.environ["BRAIN_SECURITY"] = str(folder / "ping.json5")
        with open_session(secured, patience=READY) as second:
            sides = {"plain": BarePing(first.zenoh), "secured": BarePing(second.zenoh)}
            for name, side in sides.items():
                wait_for(lambda side=side: len(side.block(64, 1)) == 1, f"the {name} echo")
            for name, size in SIZES.items():
                times: dict[Any, list[float]] = {side: [] for side in sides.values()}
                for _ in by_turns(times, name, size, blocks):
                    pass
                without, with_it = (float(np.median(taken)) for taken in times.values())
                yield {"size": name, "n": len(times[sides["secured"]]), "plain_p50": without, "secured_p50": with_it,
                       "ratio": with_it / without}


class Tls(Experiment):
    """Measures the cost of security: round trips through a secured router, beside those through a plain one."""

    cpu = True
    quick = {"blocks": 3}

    def measure(self, blocks: Annotated[int, typer.Option(min=1, help="Blocks of 200 round trips for each size.")] = 5
                ) -> dict[str, Any]:
        """Takes blocks of both by turns."""
        plain, secured = f"tcp/127.0.0.1:{free_port()}", f"tls/127.0.0.1:{free_port()}"
        with running(lambda folder: children(folder / "keys", plain, secured)) as folder:
            return {"round_trips": list(compare(folder / "keys", plain, secured, blocks))}

# SPDX-License-Identifier: Apache-2.0
"""``brain bench fleet-messages``: whether a fleet's messages arrive through cuts and kills, and how fast they drain."""
from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json


def fleet_messages(messages: Annotated[int, typer.Option(min=100, help="How many, both ways, in two streams each.")
                                       ] = 100_000,
                   cuts: Annotated[int, typer.Option(min=1, help="How often the link is cut.")] = 1000,
                   kills: Annotated[int, typer.Option(min=0, help="How often an end is killed, each in turn.")] = 50,
                   waiting: Annotated[int, typer.Option(min=100, max=50_000, help="Messages that wait behind the cut "
                                                        "whose drain is timed.")] = 20_000,
                   seed: Annotated[int, typer.Option(help="Of the moments of cuts and kills.")] = 0,
                   as_json: Json = False) -> None:
    """Sends messages between a cloud and a robot while their link is cut and both are killed; counts from outside.

    Exit status: 1 where one is lost, comes twice or out of order.
    """
    from brain_fleet.checks import ordeal

    with tempfile.TemporaryDirectory(prefix="brain-fleet-") as folder:
        try:
            done = ordeal.run(Path(folder) / "ordeal", ordeal.Ordeal(messages, cuts, kills, seed),
                              (lambda text: None) if as_json else lambda text: tell(text, err=True))
            rate = ordeal.drain(Path(folder) / "drain", waiting)
        except ordeal.NotArrived as problem:
            fail(str(problem))
    arrived = sum(sum(streams.values()) for streams in done.arrived.values())
    found = {"messages": messages, "arrived_once_and_in_order": arrived, "cuts": done.cut, "kills": done.killed,
             "seconds": done.took, "waiting": waiting, "drained_per_s": rate}
    if as_json:
        tell_json(found)
        return
    tell(f"{arrived} of {messages} messages arrived once and in order through {done.cut} cuts and "
         f"{sum(done.killed.values())} kills, in {done.took:.0f} s")
    tell(f"behind a cut {waiting} messages drained at {rate:.0f} a second")

# SPDX-License-Identifier: Apache-2.0
"""``brain bench fleet-messages``: whether a fleet's messages arrive through cuts and kills, and how fast they drain."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from brain_cloud.checks import ordeal
from brain_eval.bench.experiment import Experiment
from brain_wire.temporary_folder import TemporaryFolder


class FleetMessages(Experiment):
    """Sends messages between a cloud and a robot while their link is cut and both are killed; counts from outside.

    Exit status: 1 where one is lost, comes twice or out of order.
    """

    quick = {"messages": 100, "cuts": 1, "kills": 0, "waiting": 100}
    problems = (ordeal.NotArrived,)

    def measure(self, messages: Annotated[int, typer.Option(min=100, help="How many, both ways, in two streams each.")
                                          ] = 100_000,
                cuts: Annotated[int, typer.Option(min=1, help="How often the link is cut.")] = 1000,
                kills: Annotated[int, typer.Option(min=0, help="How often an end is killed, each in turn.")] = 50,
                waiting: Annotated[int, typer.Option(min=100, max=50_000, help="Messages that wait behind the cut "
                                                     "whose drain is timed.")] = 20_000,
                seed: Annotated[int, typer.Option(help="Of the moments of cuts and kills.")] = 0) -> dict[str, Any]:
        """Plays the ordeal, then a drain."""
        with TemporaryFolder("fleet") as folder:
            done = ordeal.run(Path(folder) / "ordeal", ordeal.Ordeal(messages, cuts, kills, seed), self.log)
            rate = ordeal.drain(Path(folder) / "drain", waiting)
        arrived = sum(sum(streams.values()) for streams in done.arrived.values())
        return {"messages": messages, "arrived_once_and_in_order": arrived, "cuts": done.cut, "kills": done.killed,
                "seconds": done.took, "waiting": waiting, "drained_per_s": rate}

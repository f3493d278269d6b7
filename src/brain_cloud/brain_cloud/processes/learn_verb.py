# SPDX-License-Identifier: Apache-2.0
"""``brain fleet learn``: a robot's part in what its fleet learns together."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from brain_edge.processes.options import FOLDER, CloudAt, FleetSecure
from brain_runtime.command.options import become


def learn(learner: Annotated[str, typer.Argument(help="What is learned, as vision: an entry point of the group "
                                                 "brain.learners.")],
          data: Annotated[list[str], typer.Option("--data", metavar="FOLDER", help="With this robot's recordings; may "
                                                  "be given again.")],
          name: Annotated[str, typer.Option("--name", metavar="NAME", help="The robot's name in its fleet.")],
          labels: Annotated[str, typer.Option(metavar="SOURCE", help="Where labels come from: self, outcomes, or a "
                                              "recorded topic of a teacher.")] = "self",
          seed: Annotated[int, typer.Option(min=0, help="Of which clips are taken.")] = 0,
          folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="For weights of the cloud, which "
                                               "what is learned begins with.")] = FOLDER / "learn",
          cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Trains on this robot's own recordings when the cloud asks for it, until Ctrl-C; only weights leave the robot.

    It runs beside `brain edge`, at a low priority, and needs what the learner needs: for vision the package
    brain_training.
    """
    become("brain_cloud.processes.run_learn", learner=learner, name=name, labels=labels, seed=seed,
           folder=folder / name / learner, data=[Path(one) for one in data], cloud=cloud, secure=secure)

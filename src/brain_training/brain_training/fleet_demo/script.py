# SPDX-License-Identifier: Apache-2.0
"""Settings of the demo: sizes, troubles and times."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brain_training.fleet_demo.robot_folder import Given
from brain_training.looks import fleet

CUT, DEATH = "cut", "death"
MORE = 80       # rounds beyond those that are asked for, in which robots that were away may come back


@dataclass(frozen=True)
class Script:
    """The course of a demo.

    Attributes:
        seed: of looks, rooms and goals.
        robots: how many, at least 4: two have trouble, and two update the weights meanwhile.
        rounds: of the fleet, at least. The last one examines what those before it made.
        cut_at, kill_at: rounds that are done when the link of the second robot is cut, and when the third is killed.
        deadline_s, gather_s: of a round.
        steps, batch, rate: of a robot's training in a round.
        eta: of FedAdam, in which the cloud puts their changes together.
        held, way: rooms that each robot is examined in, and pictures in each; as many others choose the threshold.
        goal_s: s that a goal may take.
        pace: simulated seconds in a second, at most.
        limit_s: s after which the demo ends, wherever it is.
    """

    seed: int = 0
    robots: int = 4
    rounds: int = 10
    cut_at: int = 2
    kill_at: int = 4
    deadline_s: float = 25.0
    gather_s: float = 5.0
    steps: int = 6
    batch: int = 8
    rate: float = 0.1
    eta: float = 0.001
    held: int = 20
    way: int = 3
    goal_s: float = 25.0
    pace: float = 1.0
    limit_s: float = 300.0

    @property
    def cut_robot(self) -> str:
        """Name of the robot whose link is cut."""
        return "robot2"

    @property
    def killed_robot(self) -> str:
        """Name of the robot that is killed."""
        return "robot3"

    def plan(self, start: Path) -> dict[str, Any]:
        """Returns the plan of learning for the cloud, as in ``brain cloud --learn``."""
        return {"name": "demo", "learner": "driving", "start": str(start), "strategy": "FedAdam",
                "settings": {"eta": self.eta, "tau": 1e-7}, "rounds": self.rounds + MORE,
                "deadline_s": self.deadline_s, "gather_s": self.gather_s, "least": 2,
                "late": 0,      # who was away takes part as soon as it is there again
                "config": {"steps": self.steps, "batch": self.batch, "rate": self.rate}}

    def given(self) -> list[Given]:
        """Returns what each robot is given."""
        return [Given(f"robot{number + 1}", number, self.seed, look, self.held, self.way, self.goal_s, self.pace)
                for number, look in enumerate(fleet(self.robots, self.seed))]

# SPDX-License-Identifier: Apache-2.0
"""The world of one robot of a fleet: the simulator's room, looking as this robot's world does.

It takes the place of the graph's world by its class, as an ablation does, so that the simulator knows nothing of looks.
The camera draws the room that the world tells of.
"""
from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from brain_training.fleet_demo.robot_folder import look_of
from brain_sim.judge import Judge
from brain_sim.physics import Simulation
from brain_sim.world import World
from brain_training.looks import PLAIN
from brain_wire.parameters import ParameterError, parameter


class DressedWorld(World):
    """A world with a look, in which nothing but the robot moves. What is judged is what stands there to be seen."""

    @dataclass(frozen=True)
    class Parameters(World.Parameters):
        """Look of the world, beside what a world has."""

        look: str = parameter("", "JSON of a brain_training.looks.Look; empty: as the simulator makes it.", live=False)

    def configure(self, parameters: Any) -> None:
        """Takes the parameters and builds the room.

        Raises:
            ParameterError: the look is none.
        """
        text = parameters.get("look", "")
        try:
            self._look = look_of(json.loads(text)) if text else PLAIN
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ParameterError(f"parameter look of {self.name} is no look: {error}") from error
        super().configure(parameters)

    def _reset(self, request: dict[str, Any]) -> None:
        super()._reset(request)
        self._judge = Judge(replace(self._judge.request, room=self._look.over(self._judge.room)))
        self.simulation = Simulation(self._judge.room, self._judge.observe)
        self._rolled_at = self.simulation.pose

# SPDX-License-Identifier: Apache-2.0
"""Bumper and Cliff: switches that are closed while something touches the robot, or while there is no floor."""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from brain_regions.sensors.plugin import PluginParameters, PluginSensor
from brain_runtime import FEATURE, In, parameter


@dataclass(frozen=True)
class SwitchParameters(PluginParameters):
    """Width of the switch; its direction is ``yaw``."""

    width: float = parameter(1.0, "angle that it covers of the robot's edge", unit="rad", low=0.0, high=6.2832)


class Bumper(PluginSensor):
    """A ``std_msgs/Bool`` on ``bumper``: true while it is pressed. It holds until false comes, however long that is."""

    modality = "bumper"
    Parameters = SwitchParameters
    fresh = float("inf")
    reading = In("bumper", "std_msgs/msg/Bool", FEATURE, device=True)
    features = replace(PluginSensor.features, stamp_from=None)      # a Bool has none

    def hazard(self, reading):
        """See the base class."""
        p = self.parameters
        return self.touching(p.yaw, p.width) if reading.data else np.zeros(36, np.float32)


class Cliff(Bumper):
    """A ``std_msgs/Bool`` on ``cliff``: true while there is no floor."""

    modality = "cliff"
    reading = In("cliff", "std_msgs/msg/Bool", FEATURE, device=True)

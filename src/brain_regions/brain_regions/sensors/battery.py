# SPDX-License-Identifier: Apache-2.0
"""Battery: its charge, as confidence on ``sensor/features``, and a word in ``brain status`` when it is low."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from brain_regions.sensors.plugin import PluginParameters, PluginSensor
from brain_runtime import SENSOR, In, parameter


@dataclass(frozen=True)
class BatteryParameters(PluginParameters):
    """Charge that is low."""

    least: float = parameter(0.15, "share of the charge below which it is told to be low", low=0.0, high=1.0)


class Battery(PluginSensor):
    """A ``sensor_msgs/BatteryState`` on ``battery_state``. It stops nothing: who charges the robot decides."""

    modality = "battery"
    fresh = 30.0
    Parameters = BatteryParameters
    reading = In("battery_state", "sensor_msgs/msg/BatteryState", SENSOR, device=True)

    def hazard(self, reading):
        """See the base class; drivers that tell percents instead of a share are understood."""
        charge = float(reading.percentage)
        charge = charge / 100.0 if 1.0 < charge <= 100.0 else charge
        if not 0.0 <= charge <= 1.0:
            raise ValueError(f"its percentage is {charge:g}, and must be 0 to 1")
        self.confidence = charge
        if charge < self.parameters.least:
            self.trouble = f"the battery is at {charge:.0%}: charge it"
        return np.zeros(36, np.float32)

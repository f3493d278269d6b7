# SPDX-License-Identifier: Apache-2.0
"""Range: one distance, of ultrasound or infrared: what is ahead of it; of one that looks down, whether floor is."""
from __future__ import annotations

import math

import numpy as np

from brain_regions.sensors.plugin import PluginSensor
from brain_runtime import SENSOR, In

DOWN = math.sin(math.radians(40.0))     # what looks down by more is there to see edges
DEEPER = 0.05, 1.3                      # m and times the way to the floor that is an edge
EDGE = math.radians(40.0)               # to the sides of it that are kept clear of


class Range(PluginSensor):
    """A ``sensor_msgs/Range`` on ``range``."""

    modality = "range"
    reading = In("range", "sensor_msgs/msg/Range", SENSOR, device=True)

    def hazard(self, reading):
        """See the base class; -inf is too near, +inf and what is beyond ``max_range`` is nothing within reach."""
        least, most, reach = float(reading.min_range), float(reading.max_range), float(reading.range)
        if math.isnan(reach) or not 0.0 <= least <= most < math.inf:
            raise ValueError(f"range {reach:g} of {least:g} to {most:g} m makes no sense")
        turned, at = self.place(reading.header.frame_id)
        if turned[2, 0] < -DOWN:
            floor = float(at[2]) / -float(turned[2, 0])
            edge = reach > max(floor + DEEPER[0], floor * DEEPER[1]) or reach < -1.0 and least == most
            where = math.atan2(at[1], at[0]) if math.hypot(at[0], at[1]) > 0.02 else math.atan2(*turned[1::-1, 0])
            return self.touching(where, EDGE) if edge else np.zeros(36, np.float32)
        if reach > most or reach == most > least:
            return np.zeros(36, np.float32)
        half = min(max(float(reading.field_of_view), 0.0), math.pi) / 2
        across = np.linspace(-half, half, 9)
        ends = at + max(reach, least, 0.0) * np.stack([np.cos(across), np.sin(across), 0 * across], -1) @ turned.T
        return self.around(ends)

# SPDX-License-Identifier: Apache-2.0
"""A region with parameters, and nothing else."""
from __future__ import annotations

from dataclasses import dataclass

from brain_runtime import Out, Region, parameter


@dataclass(frozen=True)
class GaugeParameters:
    gain: float = parameter(1.0, "How much.", low=0.0, high=10.0)
    label: str = parameter("plain", "What is written on it.")
    record: str = parameter("", "File that it would write to.", local=True)


class Gauge(Region):
    """Publishes nothing unless it is asked."""

    Parameters = GaugeParameters
    said = Out("gauge/said", "std_msgs/msg/String")

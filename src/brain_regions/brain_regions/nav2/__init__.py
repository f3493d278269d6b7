# SPDX-License-Identifier: Apache-2.0
"""Driving by Nav2: a motor that gives Nav2 poses to go to instead of commanding velocities."""
from brain_regions.nav2.region import Nav2Motor

__all__ = ["Nav2Motor"]

# SPDX-License-Identifier: Apache-2.0
"""Motor: turns what is wanted into a velocity that keeps clear of what is near, by a spiking network."""
from brain_regions.motor.body import MotorParameters
from brain_regions.motor.region import Motor

__all__ = ["Motor", "MotorParameters"]

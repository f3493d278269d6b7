# SPDX-License-Identifier: Apache-2.0
"""Motor: turns what is wanted into a velocity that keeps clear of what is near, by a spiking network.

``Motor`` is that network, ``AnnMotor`` its twin without spikes, ``WindowMotor`` the conventional alternative.
"""
from brain_regions.motor.body import MotorParameters
from brain_regions.motor.region import AnnMotor, Motor
from brain_regions.motor.window import WindowMotor

__all__ = ["AnnMotor", "Motor", "MotorParameters", "WindowMotor"]

# SPDX-License-Identifier: Apache-2.0
"""Sensors that join a running brain: distances, clouds of points, bumpers, cliffs, the battery.

Each hears one topic of the robot's and tells on ``sensor/features`` what is near in which direction::

    brain run brain_regions.sensors.ranges:Range --name sonar_left -r range:=sonar/left
"""

# SPDX-License-Identifier: Apache-2.0
"""Measures of the simulated robot: the one place for its dimensions, limits and sensors (SI units)."""

from __future__ import annotations

import math

BASE_RADIUS = 0.18
BASE_HEIGHT = 0.30
BASE_MASS = 8.0

MAX_SPEED = 0.5
MAX_TURN = 1.5
MAX_ACCELERATION = 1.0
MAX_TURN_ACCELERATION = 4.0
COMMAND_TIMEOUT = 0.5

PHYSICS_RATE = 500
PHYSICS_STEP = 1.0 / PHYSICS_RATE

CAMERA_FORWARD = 0.15
CAMERA_HEIGHT = 0.35
CAMERA_WIDTH = 96
CAMERA_ROWS = 64
CAMERA_HFOV = math.pi / 2
CAMERA_RATE = 20.0

LIDAR_HEIGHT = 0.20
LIDAR_BEAMS = 180
LIDAR_MIN = 0.1
LIDAR_MAX = 10.0
LIDAR_RATE = 10.0
LIDAR_NOISE = 0.01

IMU_RATE = 100.0
ODOM_RATE = 50.0

REACH = 0.5
"""An object counts as reached when the robot's front is within this of its surface."""
AVOID_DISTANCE = 0.4
"""An avoided object's surface is never to be nearer than this to the robot's edge."""

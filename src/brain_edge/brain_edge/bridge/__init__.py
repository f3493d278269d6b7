# SPDX-License-Identifier: Apache-2.0
"""Bridge between a robot's net and the cloud's, the robot's end: named topics go up, answers come down."""

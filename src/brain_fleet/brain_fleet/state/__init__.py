# SPDX-License-Identifier: Apache-2.0
"""Desired state of each robot, and what it reports: resources with versions, in the cloud and on the robot.

``kinds`` says what there can be, ``manifests`` reads what people write, ``desired`` is the cloud's side, ``held`` the
robot's, ``effects`` brings a running ``brain`` to what is wanted; ``goals`` is how a brain does, in the cloud.
"""

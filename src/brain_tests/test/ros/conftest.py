# SPDX-License-Identifier: Apache-2.0
"""Tests against a real ROS 2. They are collected where rclpy is: `make test` runs them under colcon."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("rclpy") else ["test_*.py"]

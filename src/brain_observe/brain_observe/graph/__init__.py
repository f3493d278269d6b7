# SPDX-License-Identifier: Apache-2.0
"""The graph from a terminal: topics, nodes and parameters, in the words of ros2cli, without ROS."""

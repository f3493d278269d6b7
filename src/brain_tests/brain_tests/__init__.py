# SPDX-License-Identifier: Apache-2.0
"""Tests that cross packages: conformance of the hosts, encodings against rclpy, end to end, faults."""

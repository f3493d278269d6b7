# SPDX-License-Identifier: Apache-2.0
"""A robot's side of a fleet seen from outside: its figures for Prometheus, and those of both ends of a link."""

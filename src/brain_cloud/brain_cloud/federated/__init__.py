# SPDX-License-Identifier: Apache-2.0
"""Federated learning: rounds in the cloud, and a robot's part in them; see docs/fleet-learning.md.

A robot learns from its own pictures, and what travels is weights. It needs this package only where it learns.
"""

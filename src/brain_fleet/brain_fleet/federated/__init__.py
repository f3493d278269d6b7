# SPDX-License-Identifier: Apache-2.0
"""Federated learning: robots learn from their own pictures, and what travels is weights; see docs/fleet-learning.md."""

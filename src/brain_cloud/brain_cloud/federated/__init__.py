# SPDX-License-Identifier: Apache-2.0
"""Federated learning in the cloud: rounds, and how updates become one; see docs/fleet-learning.md."""

# SPDX-License-Identifier: Apache-2.0
"""Incremental learning: hard examples found by rules, trained on in the cloud; see docs/fleet-learning.md."""

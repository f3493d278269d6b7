# SPDX-License-Identifier: Apache-2.0
"""Federated learning on a robot: it learns from its own pictures, and what travels is weights."""

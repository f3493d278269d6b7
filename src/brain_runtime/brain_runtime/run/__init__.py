# SPDX-License-Identifier: Apache-2.0
"""Processes of a brain: who keeps them, and how they end."""

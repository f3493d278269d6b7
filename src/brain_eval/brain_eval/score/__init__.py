# SPDX-License-Identifier: Apache-2.0
"""Scores of vision on pictures and recordings of real cameras, against labels that are kept without the pictures."""

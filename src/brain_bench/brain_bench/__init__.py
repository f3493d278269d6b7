# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: what a brain takes on this machine, and beside others."""

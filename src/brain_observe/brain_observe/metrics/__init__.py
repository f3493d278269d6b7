# SPDX-License-Identifier: Apache-2.0
"""A brain's figures for Prometheus, from what is on its wire: heartbeats, traces, tokens, ``/diagnostics``."""

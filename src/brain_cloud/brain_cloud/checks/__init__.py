# SPDX-License-Identifier: Apache-2.0
"""Delivery under faults: two ends as processes, a link that is cut, kills, and counters outside of all of it."""

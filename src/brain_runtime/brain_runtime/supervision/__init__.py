# SPDX-License-Identifier: Apache-2.0
"""Supervision of a running brain: its processes are kept, it is listened to, spoken to and reported on."""

# SPDX-License-Identifier: Apache-2.0
"""The cloud's side of a fleet: who belongs, orders, roll-outs, rounds, jobs with two executors, placement."""

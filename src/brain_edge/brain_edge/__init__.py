# SPDX-License-Identifier: Apache-2.0
"""A robot's side of a fleet: messages that arrive, what is wanted of it, devices, and robots that go on alone."""

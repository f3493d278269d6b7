# SPDX-License-Identifier: Apache-2.0
"""A fleet of brains: messages that arrive, what the cloud wants of each robot, and robots that go on alone."""

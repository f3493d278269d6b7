# SPDX-License-Identifier: Apache-2.0
"""Models in the cloud: a registry, and roll-outs that take a bad one back.

``signing`` says who vouches for a model, ``rollout_test`` is the test that a new model has to stand, ``rollouts`` the
way of a model through a fleet.
"""

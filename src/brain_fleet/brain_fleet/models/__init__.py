# SPDX-License-Identifier: Apache-2.0
"""Models: a registry in the cloud, files that reach robots whole or not at all, and roll-outs that take a bad one back.

``model_file`` and ``statement`` say what a model is and who vouches for it, ``parts`` puts a file together,
``registry`` and ``serving`` are the cloud's, ``shelf``, ``fetching``, ``goals`` and ``loading`` the robot's; ``trial``
is the test that a new model has to stand, ``rollouts`` the way of a model through a fleet.
"""

# SPDX-License-Identifier: Apache-2.0
"""A robot's membership in a fleet: tokens, certificates that are renewed, and what may leave it.

``client`` asks the cloud's server for a certificate, ``credentials`` keeps it and ``renewal`` renews it; ``consent``
holds what the robot's owner allows, and ``upload`` is the one way by which pictures leave.
"""

# SPDX-License-Identifier: Apache-2.0
"""Membership in a fleet: tokens, certificates that are renewed, revoked robots, and what may leave a robot.

The cloud's side is `authority` (who gets a certificate), `door` (where robots ask for one) and `gate` (the router that
lets them in); the robot's is `visit`, `credentials` and `renewal`. `consent` holds what the robot's owner allows.
"""

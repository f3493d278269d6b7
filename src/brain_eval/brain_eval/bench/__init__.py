# SPDX-License-Identifier: Apache-2.0
"""``brain bench``: measurements of a robot's own brain, and those in ``experiments/`` of a checkout."""

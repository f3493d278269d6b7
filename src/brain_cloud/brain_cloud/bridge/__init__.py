# SPDX-License-Identifier: Apache-2.0
"""The cloud's end of the bridge, and the tier of regions that answer there: see :mod:`brain_edge.bridge`."""

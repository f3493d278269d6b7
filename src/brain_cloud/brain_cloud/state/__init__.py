# SPDX-License-Identifier: Apache-2.0
"""State that is desired of each robot, and how their goals end, in the cloud: see :mod:`brain_edge.state`."""

# SPDX-License-Identifier: Apache-2.0
"""Contract of a region: its ports, its inbox and steps, its state, and the words of what it hears and says."""

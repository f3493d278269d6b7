# SPDX-License-Identifier: Apache-2.0
"""Data sets, losses and the training of the regions' weights in the simulator."""

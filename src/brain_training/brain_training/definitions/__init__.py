# SPDX-License-Identifier: Apache-2.0
"""Definitions of networks in torch, with gradients, from which what a region runs in NumPy is made."""

# SPDX-License-Identifier: Apache-2.0
"""Training with parameter servers over gRPC: servers hold and change the weights, workers compute gradients."""

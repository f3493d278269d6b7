# SPDX-License-Identifier: Apache-2.0
"""Schemas of Kubeflow Trainer's and Sedna's resources; see NOTICE.txt for whose they are and what was changed."""

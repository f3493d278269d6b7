# SPDX-License-Identifier: Apache-2.0
"""Blobs in the cloud: served to robots and taken in from them, and inputs of workers that lie elsewhere.

The store is :mod:`brain_edge.blobs`.
"""

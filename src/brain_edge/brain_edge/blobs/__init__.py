# SPDX-License-Identifier: Apache-2.0
"""Blobs: files known by the SHA-256 of their bytes, which come in pieces and are whole, or not there.

One store on the disk (:mod:`.store`), and one way over Zenoh (:mod:`.carry`), whose other end brain_cloud.blobs is.
"""

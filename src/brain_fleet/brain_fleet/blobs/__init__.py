# SPDX-License-Identifier: Apache-2.0
"""Blobs: files known by the SHA-256 of their bytes, which come in pieces and are whole, or not there.

One store on the disk (:mod:`.store`), one way over Zenoh (:mod:`.carry`, :mod:`.serving`), and inputs of workers that
lie elsewhere (:mod:`.inputs`).
"""

# SPDX-License-Identifier: Apache-2.0
"""Collectives between processes: the ``zenoh`` backend of ``torch.distributed``, and what measures every backend."""

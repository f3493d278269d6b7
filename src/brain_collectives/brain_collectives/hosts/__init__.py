# SPDX-License-Identifier: Apache-2.0
"""Hosts on ``torch.distributed``: a brain as a static group of ranks, and one region that is spread over processes."""

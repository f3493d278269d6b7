# SPDX-License-Identifier: Apache-2.0
"""Tells ``torch.distributed`` of the backend. Zenoh is loaded when the first group is made."""
from __future__ import annotations

from typing import Any

import torch.distributed as dist

from brain_collectives.settings import NAME


def register() -> None:
    """Registers the backend; a second time nothing."""
    if dist.is_available() and not hasattr(dist.Backend, NAME.upper()):
        dist.Backend.register_backend(NAME, _make, extended_api=True, devices=["cpu"])


def _make(options: Any, backend_options: Any) -> dist.ProcessGroup:
    from brain_collectives.backend import make

    return make(options, backend_options)

# SPDX-License-Identifier: Apache-2.0
"""Hosts: what connects a region's ports to a wire, and gives it steps and the time. Begin with :mod:`.host`.

A host's module is loaded when its name is first used, since each needs what another machine may not have.
"""
from __future__ import annotations

import importlib
from typing import Any

_MODULES = {"Host": "host", "HostedRegion": "hosted_region", "LocalHost": "local", "ProcessHost": "process",
            "RosHost": "ros", "ZenohHost": "zenoh"}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name == "TorchHost":
        raise AttributeError("TorchHost is now brain_collectives.hosts.torch.TorchHost; import that")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name!r}; it has {', '.join(_MODULES)}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

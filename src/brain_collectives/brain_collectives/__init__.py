# SPDX-License-Identifier: Apache-2.0
"""Collectives between processes: the ``zenoh`` backend of ``torch.distributed``, and what measures every backend.

Importing it registers the backend::

    import brain_collectives
    torch.distributed.init_process_group("zenoh")
"""
import importlib
from typing import TYPE_CHECKING, Any

from brain_collectives.registration import register

if TYPE_CHECKING:   # what a type checker sees; at run time it is __getattr__ that finds them
    from brain_collectives.barrier import monitored_barrier
    from brain_collectives.counting import Counters, counters
    from brain_collectives.errors import (CallsDiffer, Closed, CollectiveError, LinkLost, ObjectsRefused, RankDied,
                                          Refused, TooLate)
    from brain_collectives.shrinking import shrink

# Where each name is. Loaded when it is asked for: Zenoh is needed by who makes a group.
_PLACES = {"CallsDiffer": "errors", "Closed": "errors", "CollectiveError": "errors", "Counters": "counting",
           "LinkLost": "errors", "ObjectsRefused": "errors", "RankDied": "errors", "Refused": "errors",
           "TooLate": "errors", "counters": "counting", "monitored_barrier": "barrier", "shrink": "shrinking"}
__all__ = ["CallsDiffer", "Closed", "CollectiveError", "Counters", "LinkLost", "ObjectsRefused", "RankDied", "Refused",
           "TooLate", "counters", "monitored_barrier", "shrink"]

register()


def __getattr__(name: str) -> Any:
    """A name of the package, from the module that has it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    return found

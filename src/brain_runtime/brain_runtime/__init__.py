# SPDX-License-Identifier: Apache-2.0
"""The runtime of a brain: regions, ports, the graph, and the hosts that run them."""
import importlib
from typing import TYPE_CHECKING, Any

from brain_runtime import interfaces

if TYPE_CHECKING:
    from brain_runtime.contract.inbox import Inbox
    from brain_runtime.contract.ports import Gated, In, Out
    from brain_runtime.contract.region import Outbox, Region, State
    from brain_wire import messages
    from brain_wire.goals import Act, Ask, Goal, News
    from brain_wire.messages import SILENCE, clip_utf8
    from brain_wire.parameters import ParameterError, parameter
    from brain_wire.qos import FEATURE, LATCHED, SENSOR, STREAM, QoS

# Where each name is. Loaded when it is asked for: a command that only shows its help needs neither numpy nor Zenoh.
_PLACES = {"Act": "brain_wire.goals", "Ask": "brain_wire.goals", "News": "brain_wire.goals",
           "FEATURE": "brain_wire.qos", "Gated": "brain_runtime.contract.ports",
           "Goal": "brain_wire.goals", "In": "brain_runtime.contract.ports", "Inbox": "brain_runtime.contract.inbox",
           "LATCHED": "brain_wire.qos", "Out": "brain_runtime.contract.ports",
           "Outbox": "brain_runtime.contract.region", "ParameterError": "brain_wire.parameters",
           "QoS": "brain_wire.qos", "Region": "brain_runtime.contract.region", "SENSOR": "brain_wire.qos",
           "SILENCE": "brain_wire.messages", "STREAM": "brain_wire.qos", "State": "brain_runtime.contract.region",
           "clip_utf8": "brain_wire.messages", "messages": "brain_wire", "parameter": "brain_wire.parameters"}
__all__ = ["Act", "Ask", "FEATURE", "Gated", "Goal", "In", "Inbox", "LATCHED", "News", "Out", "Outbox",
           "ParameterError", "QoS", "Region", "SENSOR", "SILENCE", "STREAM", "State", "clip_utf8", "interfaces",
           "messages", "parameter"]


def __getattr__(name: str) -> Any:
    """A name of the package, from the module that has it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = importlib.import_module(_PLACES[name])
    # a module of another package is loaded; all else is looked up in its module
    found = importlib.import_module(f"{place.__name__}.{name}") if name == "messages" else getattr(place, name)
    globals()[name] = found
    return found

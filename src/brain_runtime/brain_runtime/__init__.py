# SPDX-License-Identifier: Apache-2.0
"""The runtime of a brain: regions, ports, the graph, and the hosts that run them."""
from brain_runtime import interfaces
from brain_runtime.ports import Gated, In, Out
from brain_runtime.region import Inbox, Outbox, Region, State
from brain_wire import messages
from brain_wire.goals import Act, Goal
from brain_wire.messages import SILENCE, clip_utf8
from brain_wire.parameters import ParameterError, parameter
from brain_wire.qos import FEATURE, LATCHED, SENSOR, STREAM, QoS

__all__ = ["Act", "FEATURE", "Gated", "Goal", "In", "Inbox", "LATCHED", "Out", "Outbox", "ParameterError", "QoS",
           "Region", "SENSOR", "SILENCE", "STREAM", "State", "clip_utf8", "interfaces", "messages", "parameter"]

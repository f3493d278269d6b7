# SPDX-License-Identifier: Apache-2.0
"""The runtime of a brain: regions, ports, the graph, and the hosts that run them."""
from brain_runtime.actions import Act, Goal
from brain_runtime.messages import SILENCE, clip_utf8
from brain_runtime.parameters import ParameterError, parameter
from brain_runtime.ports import Gated, In, Out
from brain_runtime.qos import FEATURE, LATCHED, SENSOR, STREAM, QoS
from brain_runtime.region import Inbox, Outbox, Region, State

__all__ = ["Act", "FEATURE", "Gated", "Goal", "In", "Inbox", "LATCHED", "Out", "Outbox", "ParameterError", "QoS",
           "Region", "SENSOR", "SILENCE", "STREAM", "State", "clip_utf8", "parameter"]

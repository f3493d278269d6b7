# SPDX-License-Identifier: Apache-2.0
"""Diagnostics for rqt_robot_monitor: a region's heartbeat as a ``diagnostic_msgs/msg/DiagnosticArray``."""
from __future__ import annotations

import math
from typing import Any, Iterable

from brain_runtime.hosts import edges as hops
from brain_runtime.contract import heartbeat as beat
from brain_runtime.contract.constants import heartbeat_state
from brain_runtime.contract.energy import Gate
from brain_wire.messages import make, message_class
from brain_wire.qos import QoS

TOPIC = "/diagnostics"  # the one that all of a robot's parts share, outside every namespace
TYPE = "diagnostic_msgs/msg/DiagnosticArray"
QUALITY = QoS(reliable=True, latched=False, depth=10)
PERIOD = 1.0            # s
# Of a region's figures, those that only grow while its process lives.
COUNTED = ("messages dropped", "messages sent", "bytes sent", "messages gated", "messages cut", "bytes saved")
_STATUS: Any = message_class("diagnostic_msgs/msg/DiagnosticStatus")
OK, WARN, ERROR = _STATUS.OK, _STATUS.WARN, _STATUS.ERROR


def diagnostics(heartbeat: Any, broken: int = 0, gate: Gate | None = None,
                edges: Iterable[hops.Edge] = ()) -> Any:
    """One status: level, a sentence, and the figures.

    Args:
        heartbeat: ``brain_interfaces/msg/Heartbeat``.
        broken: messages that were dropped so far since they could not be read.
        gate: of what the region publishes; what it saved is told where there is an energy budget.
        edges: how messages come to the region.
    """
    state = heartbeat_state(heartbeat.state)
    if heartbeat.state == beat.ERROR:
        level, says = ERROR, heartbeat.reason
    elif heartbeat.reason or broken or heartbeat.state != beat.ACTIVE:
        level, says = WARN, heartbeat.reason or (f"{broken} messages dropped" if broken else state)
    else:
        level, says = OK, state
    values = {
        "state": state, "rate (Hz)": _figure(heartbeat.rate), "step p50 (ms)": _figure(1e3 * heartbeat.step_p50),
        "step p99 (ms)": _figure(1e3 * heartbeat.step_p99), "steps": str(heartbeat.step),
        "spikes/s": _figure(heartbeat.spikes_per_second), "synaptic operations/s": _figure(heartbeat.synops_per_second),
        "messages dropped": str(broken), **_energy(gate), "restarts": str(heartbeat.restarts),
        "pid": str(heartbeat.pid),
        **{f"age of {topic} (s)": _figure(age) for topic, age in zip(heartbeat.inputs, heartbeat.input_ages)},
        **hops.tell(edges)}
    message = make(TYPE, status=[make(
        "diagnostic_msgs/msg/DiagnosticStatus", level=level, name=f"brain: {heartbeat.name}", message=says,
        hardware_id=heartbeat.hostname,
        values=[make("diagnostic_msgs/msg/KeyValue", key=key, value=value) for key, value in values.items()])])
    message.header.stamp = heartbeat.header.stamp
    return message


def _energy(gate: Gate | None) -> dict[str, str]:
    if gate is None or not gate.budget:
        return {}
    total = gate.total()
    return {"energy budget (B/s)": _figure(gate.budget), "messages sent": str(total.messages),
            "bytes sent": str(total.bytes), "messages gated": str(total.gated), "messages cut": str(total.cut),
            "bytes saved": str(total.saved)}


def counts(values: Iterable[Any]) -> dict[str, int]:
    """Reads a region's counters from a status's ``values``, which may be anybody's; by the keys of :data:`COUNTED`."""
    return {pair.key: int(pair.value) for pair in values
            if pair.key in COUNTED and pair.value.isascii() and pair.value.isdigit() and len(pair.value) <= 18}


def _figure(value: float) -> str:
    return "none yet" if math.isnan(value) else f"{value:.4g}"

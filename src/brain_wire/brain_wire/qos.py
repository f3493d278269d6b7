# SPDX-License-Identifier: Apache-2.0
"""Quality of service, decided once for each kind of topic."""
from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class QoS:
    """Quality of service of a topic: how its messages are delivered.

    Attributes:
        reliable: lost messages are sent again (RELIABLE), or not (BEST_EFFORT).
        latched: the newest ``depth`` messages are kept for late joiners (TRANSIENT_LOCAL), or not (VOLATILE).
        depth: messages that are kept for a slow reader (KEEP_LAST), at least 1.
    """

    reliable: bool
    latched: bool
    depth: int

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"QoS depth is {self.depth}; it must be at least 1")

    def with_depth(self, depth: int) -> QoS:
        """The same with another depth."""
        return replace(self, depth=depth)


def incompatibility(publisher: QoS, subscription: QoS) -> str | None:
    """Returns the reason why DDS would not connect the two, or None where it would.

    Zenoh connects anything; a DDS middleware stays silent about what it does not connect, so every edge is checked
    by its rules: a subscription may not ask for more than the publisher offers.
    """
    if subscription.reliable and not publisher.reliable:
        return "the subscription is reliable, the publisher best effort"
    if subscription.latched and not publisher.latched:
        return "the subscription is transient local, the publisher volatile"
    return None


SENSOR = QoS(reliable=False, latched=False, depth=1)    # images, scans, odometry: the newest counts
FEATURE = QoS(reliable=True, latched=False, depth=1)    # features, control, commands, cmd_vel
LATCHED = QoS(reliable=True, latched=True, depth=1)     # goals, goal status, emergency stop, static data
STREAM = QoS(reliable=False, latched=False, depth=10)   # heartbeats, spikes, traces

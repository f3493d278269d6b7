# SPDX-License-Identifier: Apache-2.0
"""Counters of the deliveries of one end since its process began: plain counts, for who shows them.

Each is written by one thread and may be read by any, without a lock.
"""
from __future__ import annotations

from brain_runtime.metrics.families import Histogram

# s; a delivery within a machine takes milliseconds, one over a bad link up to the sender's patience
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class DeliveryCounters:
    """Counts of one end.

    Attributes:
        took: of deliveries that were answered, from the query to the reply (s).
        unanswered: deliveries without an answer: the link is cut, or nobody is there.
        refused: deliveries that the peer refused, or whose answer could not be read.
        sent: messages that a peer has acknowledged.
        sent_bytes: of deliveries.
        put_aside: messages that a peer could not apply.
        taken: deliveries of peers that were taken.
        held_back: those that are to come again later, since there were too many, or the disk is full.
        turned_away: those that were refused.
        received: messages of peers that were applied.
        received_bytes: of deliveries.
        refused_here: messages of peers that could not be applied, and were put aside.
        apart: times that a peer was set apart.
    """

    def __init__(self) -> None:
        self.took = Histogram(BOUNDS)
        self.unanswered = self.refused = self.sent = self.sent_bytes = self.put_aside = 0
        self.taken = self.held_back = self.turned_away = self.received = self.received_bytes = self.refused_here = 0
        self.apart = 0

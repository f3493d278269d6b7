# SPDX-License-Identifier: Apache-2.0
"""Rivals: who else publishes a topic that is to have one publisher, as an actuator's has."""
from __future__ import annotations

import logging
import math
from typing import Callable, Iterable, Mapping

PERIOD = 1.0    # s between two looks

log = logging.getLogger(__name__)


class DuplicatePublishers:
    """Looks for other publishers of the topics that are a region's alone, and warns when there are others than before.

    One counts that is there at two looks in a row: by DDS a node of our own has no name for a moment, and what was
    there before us may be about to leave.

    Args:
        ports: gives full topics by the names of ports with :attr:`brain_runtime.contract.ports.Out.alone`.
        others: from a port's name to the nodes beside this one that publish its topic now.
    """

    def __init__(self, ports: Callable[[], Mapping[str, str]], others: Callable[[str], Iterable[str]]) -> None:
        self._ports, self._others = ports, others
        self._next = -math.inf
        self._seen: set[tuple[str, str]] = set()    # at the last look: topic and node
        self.text = ""
        """What is wrong, for the heartbeat; empty where nobody else publishes."""

    def look(self, now: float) -> None:
        """Looks, if it is time to; ``now`` is the steady clock (s)."""
        if now < self._next:
            return
        self._next = now + PERIOD
        there = [(topic, sorted(self._others(name))) for name, topic in self._ports().items()]
        found = [(topic, [node for node in nodes if (topic, node) in self._seen]) for topic, nodes in there]
        self._seen = {(topic, node) for topic, nodes in there for node in nodes}
        text = "; ".join(f"{', '.join(nodes)} also {'publish' if len(nodes) > 1 else 'publishes'} {topic}: whatever "
                         f"listens gets both; end it, or remap one of them" for topic, nodes in found if nodes)
        if text and text != self.text:
            log.error(text)
        self.text = text

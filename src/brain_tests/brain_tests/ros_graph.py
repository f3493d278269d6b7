# SPDX-License-Identifier: Apache-2.0
"""View of the ROS graph, and a node that is announced piece by piece, as rmw_zenoh_cpp's are.

A node's token comes before those of its endpoints: who has seen all nodes has not seen all that they have.
"""
from __future__ import annotations

import threading
from typing import Any, Mapping, Protocol

import zenoh

from brain_wire import Watch, names
from brain_wire.qos import FEATURE


class Sight(Protocol):
    """As rclpy's nodes have it."""

    def get_node_names(self) -> list[str]:
        """Names of all nodes."""

    def count_publishers(self, topic: str) -> int:
        """Counts the publishers of a topic."""

    def count_subscribers(self, topic: str) -> int:
        """Counts the subscriptions of a topic."""


class WatchSight:
    """The same of a :class:`brain_wire.Watch`, in the namespace ``/``."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def get_node_names(self) -> list[str]:
        """Names of all nodes."""
        self._watch.poll()
        return [name.rsplit("/", 1)[-1] for name in self._watch.nodes()]

    def count_publishers(self, topic: str) -> int:
        """Counts the publishers of a topic."""
        return len(self._watch.endpoints(f"/{topic}", names.PUBLISHER))

    def count_subscribers(self, topic: str) -> int:
        """Counts the subscriptions of a topic."""
        return len(self._watch.endpoints(f"/{topic}", names.SUBSCRIPTION))


def all_there(sight: Sight, nodes: set[str], publishers: Mapping[str, int], subscribers: Mapping[str, int]) -> bool:
    """Tells whether nodes and what they have are seen: so many publishers and subscriptions of each topic."""
    return (nodes <= set(sight.get_node_names())
            and all(sight.count_publishers(topic) == count for topic, count in publishers.items())
            and all(sight.count_subscribers(topic) == count for topic, count in subscribers.items()))


class SlowNode:
    """A node whose own token is there at once, and those of its endpoints only after a while.

    Args:
        session: Zenoh's own, open.
        domain: ROS domain.
        name: of the node, in the namespace ``/``.
        publishes, hears: topics.
        late: s from the node's token to the others.
    """

    def __init__(self, session: zenoh.Session, domain: int, name: str, *, publishes: tuple[str, ...] = (),
                 hears: tuple[str, ...] = (), late: float) -> None:
        self._session, self._tokens = session, []
        about: dict[str, Any] = {"domain": domain, "zid": str(session.info.zid()), "nid": 0, "namespace": "/",
                                 "node": name}
        self._declare(names.Endpoint(id=0, kind=names.NODE, **about))
        more = [(names.PUBLISHER, topic) for topic in publishes] + [(names.SUBSCRIPTION, topic) for topic in hears]
        later = [names.Endpoint(id=number, kind=kind, topic=f"/{topic}", dds_type="std_msgs::msg::dds_::String_",
                                type_hash="RIHS01_" + "0" * 64, qos=FEATURE, **about)
                 for number, (kind, topic) in enumerate(more, 1)]
        self._timer = threading.Timer(late, lambda: [self._declare(endpoint) for endpoint in later])
        self._timer.start()

    def _declare(self, endpoint: names.Endpoint) -> None:
        self._tokens.append(self._session.liveliness().declare_token(endpoint.token()))

    def close(self) -> None:
        """Takes all tokens back."""
        self._timer.cancel()
        self._timer.join()
        for token in self._tokens:
            token.undeclare()

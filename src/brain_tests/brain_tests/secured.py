# SPDX-License-Identifier: Apache-2.0
"""A secured brain without regions: a router with keys, and sessions of whoever has credentials."""
from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import pytest

from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_security.folder import fill
from brain_security.rights import rights_of
from brain_wire import messages
from brain_wire import Node, Session, names, open_session
from brain_wire.router import Router, free_port

STRING = "std_msgs/msg/String"
PATIENCE = 120.0     # s; only against waiting for ever
REGIONS = (
    ResolvedRegion("world", "m:W", device=True, publishes=("camera/image_raw",), hears=("cmd_vel",)),
    ResolvedRegion("vision", "m:V", publishes=("vision/objects",), hears=("camera/image_raw",)),
    ResolvedRegion("language", "m:L", publishes=("lang/features",),
                   hears=("goal/text", "vision/objects", "sensor/features"), actions=("seek",)),
    ResolvedRegion("brainstem", "m:B", publishes=("cmd_vel", "estop/status"),
                   hears=("vision/objects", "estop", "brain/heartbeat")))


@dataclass
class Secured:
    """A router with its folder of keys; ``session`` opens one with somebody's credentials."""

    folder: Path
    domain: int
    port: int
    namespace: str
    monkeypatch: pytest.MonkeyPatch

    @property
    def endpoint(self) -> str:
        return f"tls/localhost:{self.port}"

    def session(self, identity: str, folder: Path | None = None, endpoint: str | None = None) -> Session:
        self.monkeypatch.setenv("BRAIN_SECURITY", str(folder or self.folder))
        session = open_session(endpoint or self.endpoint, identity=identity, patience=0.0)
        self.sessions.append(session)
        return session

    def node(self, identity: str, name: str | None = None) -> Node:
        return Node(self.session(identity), name or identity, self.namespace, self.domain)

    def key(self, topic: str) -> str:
        return names.data_key(self.domain, names.expand(topic, self.namespace, ""), STRING)

    def __post_init__(self) -> None:
        self.sessions: list[Session] = []

    def close(self) -> None:
        while self.sessions:
            self.sessions.pop().close()


@contextlib.contextmanager
def make_keys(folder: Path) -> Iterator[tuple[Path, int, int, str]]:
    """Makes keys, and runs a router with them: their folder, its domain and port, and the namespace.

    The namespace makes sure that it is nowhere forgotten.
    """
    namespace, port = "/r1", free_port()
    domain = port % 200
    rights = rights_of(Resolved("g", REGIONS, namespace=namespace), maintainers=["ann"], devices=["battery"])
    fill(folder, rights, domain=domain, namespace=namespace, about={}, days=30.0)
    with Router(port=port, config_file=folder / "router.json5"):
        yield folder, domain, port, namespace


def text(value: str):
    return messages.make(STRING, data=value)


def first(subscription) -> str:
    """The first text that arrives."""
    arrivals = subscription.wait(PATIENCE)
    assert arrivals, f"nothing on {subscription.endpoint.topic}"
    return messages.decode(arrivals[0].data, STRING).data


def heard_until(publisher, subscription, value: str) -> None:
    """Publishes until it is heard: a subscription takes a moment to be known."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        publisher.publish(text(value))
        for arrival in subscription.wait(0.05):
            if messages.decode(arrival.data, STRING).data == value:
                return
    raise AssertionError(f"{value} was not heard on {subscription.endpoint.topic}")

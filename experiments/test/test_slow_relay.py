# SPDX-License-Identifier: Apache-2.0
"""Links between tiers: real Zenoh sessions and routers on both sides of a slow relay."""
from __future__ import annotations

import time
from typing import Iterator

import pytest
import zenoh

from brain_cloud.placement.channel import Way
from brain_wire import open_session
from brain_wire.router import Router, free_port
from brain_wire.session import Elsewhere
from brain_wire.shared_memory import UNSHARED
from experiments.slow_relay import SlowRelay

PATIENCE = 240.0     # s; only ends a hang


@pytest.fixture
def linked() -> Iterator[tuple[zenoh.Session, zenoh.Session, SlowRelay]]:
    """Sessions at two routers, which are linked by a relay that is slow, uneven and lossy."""
    near, far = free_port(), free_port()
    with Router([f"tcp/127.0.0.1:{near}"], more=UNSHARED):
        relay = SlowRelay(near, Way(0.030, 0.060, 0.010, 0.02, 1e8))
        try:
            with Router([f"tcp/127.0.0.1:{far}"], connect=[f"tcp/127.0.0.1:{relay.port}"], more=UNSHARED):
                one, other = (open_session(f"tcp/127.0.0.1:{port}", more=UNSHARED, elsewhere=Elsewhere())
                              for port in (near, far))
                yield one.zenoh, other.zenoh, relay
                one.close()
                other.close()
        finally:
            relay.close()


def test_zenoh_crosses_a_slow_relay_in_order_and_never_sooner_than_the_link(
        linked: tuple[zenoh.Session, zenoh.Session, SlowRelay]) -> None:
    near, far, relay = linked
    heard = far.declare_subscriber("placement/test", zenoh.handlers.FifoChannel(500))
    publisher = near.declare_publisher("placement/test", reliability=zenoh.Reliability.RELIABLE,
                                       congestion_control=zenoh.CongestionControl.BLOCK)
    end = time.monotonic() + PATIENCE
    while not publisher.matching_status.matching:
        assert time.monotonic() < end, "the routers never linked"
        time.sleep(0.05)
    sent = []
    for number in range(100):
        sent.append(time.monotonic())
        publisher.put(number.to_bytes(2, "big") + bytes(3000))
        time.sleep(0.002)
    came = []
    while len(came) < 100:
        sample = heard.recv()
        came.append((int.from_bytes(sample.payload.to_bytes()[:2], "big"), time.monotonic()))
    assert [number for number, _ in came] == list(range(100))       # nothing is lost above TCP, and nothing overtakes
    assert all(at - sent[number] >= 0.020 for number, at in came)
    assert sum(relay.carried) > 300_000
    heard.undeclare()


def test_who_is_behind_a_closed_relay_is_cut_off() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        relay = SlowRelay(server.getsockname()[1], Way(0.0, 0.0, 0.0, 0.0, 1e9))
        with socket.create_connection(("127.0.0.1", relay.port)) as near:
            far, _ = server.accept()
            with far:
                near.sendall(b"there")
                assert far.recv(10) == b"there"
                relay.close()
                assert far.recv(10) == b""
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", relay.port), timeout=5.0)

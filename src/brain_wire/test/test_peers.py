# SPDX-License-Identifier: Apache-2.0
"""Our nodes and router among peers: sessions set up as rmw_zenoh_cpp sets up its own, which are peers of each other."""
import json
import socket
import time

import pytest
import zenoh

from brain_wire import messages
from brain_wire import Node, names, open_session
from brain_wire.attachment import pack, unpack
from brain_wire.qos import FEATURE, LATCHED
from brain_wire.router import Router

STRING = "std_msgs/msg/String"
PATIENCE = 120.0     # s


def peer(endpoint):
    """A session as a process with rmw_zenoh_cpp has it (its session file's settings that matter to others)."""
    config = zenoh.Config()
    for key, value in {
            "mode": "peer", "connect/endpoints": [endpoint], "connect/timeout_ms": 0,
            "listen/endpoints": ["tcp/localhost:0"],
            "scouting/multicast/enabled": False, "scouting/gossip/enabled": True,
            "scouting/gossip/target": {"router": ["router", "peer"], "peer": ["router"]},
            "scouting/gossip/autoconnect": {"router": [], "peer": ["router", "peer"]},
            "timestamping/enabled": {"router": True, "peer": True, "client": True},
            "queries_default_timeout": 600000, "transport/link/tx/lease": 60000, "transport/link/tx/keep_alive": 2,
            "transport/shared_memory/enabled": False}.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


@pytest.fixture
def wire():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    with Router([endpoint]), open_session(endpoint, patience=PATIENCE) as ours, \
            peer(endpoint) as one, peer(endpoint) as other:
        yield ours, one, other


def key(domain, topic):
    return names.data_key(domain, topic, STRING)


def cdr(text):
    return messages.encode(messages.make(STRING, data=text))


def until(condition):
    """Whether it came true in time."""
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def put_until(publisher, text, condition):
    """Publishes as rmw_zenoh_cpp does, again and again, until it is heard."""
    number = iter(range(1, 10**6))

    def once():
        publisher.put(cdr(text), attachment=pack(next(number), time.time_ns(), bytes(16)))
        return condition()
    return until(once)


def test_volatile_messages_both_ways_and_between_the_peers(wire):
    ours, one, other = wire
    with Node(ours, "ours", domain=61) as node:
        heard = node.subscription("/to_us", STRING, FEATURE)
        said = node.publisher("/from_us", STRING, FEATURE)
        received, between = [], []
        one.declare_subscriber(key(61, "/from_us"), received.append)
        other.declare_subscriber(key(61, "/between"), between.append)
        publisher = one.declare_publisher(key(61, "/to_us"), congestion_control=zenoh.CongestionControl.DROP)
        assert put_until(publisher, "from a peer", lambda: heard.last_received > 0)
        assert messages.decode(heard.take()[-1].data, STRING).data == "from a peer"

        def say():
            said.publish(messages.make(STRING, data="from us"))
            return bool(received)
        assert until(say)
        assert messages.decode(received[0].payload.to_bytes(), STRING).data == "from us"
        assert unpack(received[0].attachment.to_bytes()).gid == said.gid
        assert put_until(one.declare_publisher(key(61, "/between")), "among peers", lambda: bool(between))


def test_latched_messages_reach_who_comes_late_both_ways(wire):
    ours, one, _ = wire
    settings = dict(cache=zenoh.ext.CacheConfig(max_samples=1), publisher_detection=True,
                    sample_miss_detection=zenoh.ext.MissDetectionConfig(heartbeat=None, sporadic_heartbeat=0.5))
    theirs = zenoh.ext.declare_advanced_publisher(one, key(61, "/map"), **settings)
    theirs.put(cdr("an old map"), attachment=pack(1, time.time_ns(), bytes(16)))
    with Node(ours, "ours", domain=61) as node:
        node.publisher("/status", STRING, LATCHED).publish(messages.make(STRING, data="an old status"))
        late = node.subscription("/map", STRING, LATCHED)
        assert until(lambda: late.last_received > 0)
        assert messages.decode(late.take()[-1].data, STRING).data == "an old map"
        received = []
        zenoh.ext.declare_advanced_subscriber(
            one, key(61, "/status"), received.append, subscriber_detection=True,
            history=zenoh.ext.HistoryConfig(detect_late_publishers=True, max_samples=1),
            recovery=zenoh.ext.RecoveryConfig(periodic_queries=None, heartbeat=True))
        assert until(lambda: bool(received))
        assert messages.decode(received[0].payload.to_bytes(), STRING).data == "an old status"


def test_each_sees_the_others_in_the_graph_and_sees_them_go(wire):
    ours, one, other = wire
    seen = set()

    def change(sample):
        endpoint = names.parse_token(str(sample.key_expr))
        note = seen.add if sample.kind == zenoh.SampleKind.PUT else seen.discard
        note((endpoint.kind, endpoint.name, endpoint.topic))

    other.liveliness().declare_subscriber("@ros2_lv/61/**", change, history=True)
    theirs = names.Endpoint(61, str(one.info.zid()), 0, 0, names.NODE, "/", "their_node")
    token = one.liveliness().declare_token(theirs.token())
    with Node(ours, "ours", "/brain", domain=61) as node:
        node.publisher("chatter", STRING, FEATURE)
        assert until(lambda: seen == {(names.NODE, "/their_node", ""), (names.NODE, "/brain/ours", ""),
                                      (names.PUBLISHER, "/brain/ours", "/brain/chatter")})
        found = [names.parse_token(str(reply.ok.key_expr)).name
                 for reply in ours.zenoh.liveliness().get("@ros2_lv/61/**")]
        assert "/their_node" in found
    assert until(lambda: seen == {(names.NODE, "/their_node", "")})
    token.undeclare()
    assert until(lambda: not seen)

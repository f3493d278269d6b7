# SPDX-License-Identifier: Apache-2.0
"""Our nodes and router among peers: sessions set up as rmw_zenoh_cpp sets up its own, which are peers of each other."""
import json
import time

import pytest
import zenoh

from brain_wire import messages
from brain_wire import Node, SessionProblem, names, open_session
from brain_wire.attachment import pack, unpack
from brain_wire.qos import FEATURE, LATCHED
from brain_wire.relinking import shut
from brain_wire.router import Router, free_port
from brain_wire.session import session_config

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


@pytest.fixture(params=["client", "peer"])
def wire(request):
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]), open_session(endpoint, patience=PATIENCE, direct=request.param == "peer") as ours, \
            peer(endpoint) as one, peer(endpoint) as other:
        assert until(lambda: bool(ours.zenoh.info.peers_zid()) == (request.param == "peer"))
        yield ours, one, other


def key(domain, topic):
    return names.data_key(domain, topic, STRING)


def cdr(text):
    return messages.encode(messages.make(STRING, data=text))


def until(condition):
    """Whether it came true in time."""
    # asked once more it may not be: what a peer tells can be away for a moment, while it is linked with the next one
    end = time.monotonic() + PATIENCE
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


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
        # of the peers one may be linked with ours before the other is
        assert until(lambda: "/their_node" in [names.parse_token(str(reply.ok.key_expr)).name for reply in
                                               ours.zenoh.liveliness().get("@ros2_lv/61/**")])
    assert until(lambda: seen == {(names.NODE, "/their_node", "")})
    token.undeclare()
    assert until(lambda: not seen)


# -- the regions of a brain --------------------------------------------------------------------------------------------


def test_regions_hear_each_other_straight_and_after_the_router_has_died_too():
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    router = Router([endpoint])
    with open_session(endpoint, patience=PATIENCE, direct=True) as one, \
            open_session(endpoint, patience=PATIENCE, direct=True) as other, \
            open_session(endpoint, patience=PATIENCE) as tool:
        with Node(one, "one", domain=61) as says, Node(other, "other", domain=61) as hears, \
                Node(tool, "tool", domain=61) as looks:
            assert until(lambda: one.zid in map(str, other.zenoh.info.peers_zid()))
            assert not tool.zenoh.info.peers_zid()
            publisher = says.publisher("said", STRING, FEATURE)
            ears = [node.subscription("said", STRING, FEATURE) for node in (hears, looks)]

            def heard(text, ear):
                def come():
                    publisher.publish(messages.make(STRING, data=text))
                    return any(messages.decode(a.data, STRING).data == text for a in ear.wait(0.1))
                return until(come)
            assert all(heard("with a router", ear) for ear in ears)
            router.close()
            assert until(lambda: not one.zenoh.info.routers_zid())
            assert heard("without", ears[0])
            with Router([endpoint]):    # who needs it is back with it, and who comes new finds all
                assert heard("with another", ears[1])
                with open_session(endpoint, patience=PATIENCE, direct=True) as late, \
                        Node(late, "late", domain=61) as newcomer:
                    assert heard("to a newcomer", newcomer.subscription("said", STRING, FEATURE))


def test_a_link_that_broke_is_made_again():
    """Zenoh itself does not, and a router hands nothing on between peers."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]), open_session(endpoint, patience=PATIENCE, direct=True) as one, \
            open_session(endpoint, patience=PATIENCE, direct=True) as other:
        with Node(one, "one", domain=61) as says, Node(other, "other", domain=61) as hears:
            publisher, ear = says.publisher("said", STRING, FEATURE), hears.subscription("said", STRING, FEATURE)

            def heard(text):
                publisher.publish(messages.make(STRING, data=text))
                return any(messages.decode(a.data, STRING).data == text for a in ear.wait(0.1))
            for text in ("at first", "again"):
                assert until(lambda: heard(text))
                (link,) = [link for link in one.zenoh.info.links() if str(link.zid) == other.zid]
                assert shut(str(link.src))
                assert until(lambda: str(link.src) not in [str(each.src) for each in one.zenoh.info.links()])
            assert until(lambda: heard("and again"))
            routers = one.zenoh.info.routers_zid()
            assert len(routers) == 1 and routers == other.zenoh.info.routers_zid()


LOOPBACK = "tcp/localhost:7447"


@pytest.mark.parametrize("direct, endpoint, variables, mode", [
    (True, LOOPBACK, {}, "peer"),
    (True, None, {}, "peer"),
    (False, LOOPBACK, {}, "client"),
    (True, "tcp/10.0.0.1:7447", {}, "client"),      # a peer here could not be reached from there
    (True, "tls/localhost:7447", {}, "client"),
    (True, LOOPBACK, {"BRAIN_LINKS": "router"}, "client"),
    (True, LOOPBACK, {"ZENOH_CONFIG_OVERRIDE": 'mode="client"'}, "client"),
    (True, None, {"ZENOH_CONFIG_OVERRIDE": 'connect/endpoints=["tcp/127.0.0.1:1","tcp/127.0.0.1:2"]'}, "client"),
])
def test_who_is_a_peer(monkeypatch, direct, endpoint, variables, mode):
    for name in ("BRAIN_LINKS", "BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_CONFIG_OVERRIDE", "ZENOH_SESSION_CONFIG_URI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert json.loads(session_config(endpoint, direct=direct)[0].get_json("mode")) == mode


def test_links_that_there_are_not_are_refused_by_name(monkeypatch):
    monkeypatch.setenv("BRAIN_LINKS", "all")
    with pytest.raises(SessionProblem, match="BRAIN_LINKS is 'all'; it must be peers or router"):
        session_config(LOOPBACK, direct=True)

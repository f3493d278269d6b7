# SPDX-License-Identifier: Apache-2.0
"""The wire to the byte: keys, tokens, QoS fields, attachments and payloads as rmw_zenoh_cpp writes them; our hashes."""
import struct
import time

import pytest
import zenoh

from brain_runtime import FEATURE, LATCHED, QoS, SENSOR, STREAM
from brain_wire import messages
from brain_wire import Node, Watch, names, open_session
from brain_wire.attachment import AttachmentProblem, pack, unpack
from brain_wire.router import Router

PATIENCE = 240.0     # s; only ends a hang
STRING = "std_msgs/msg/String"
STRING_HASH = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"


def test_data_key():
    assert names.data_key(61, "/r1/chatter", STRING) == f"61/r1/chatter/std_msgs::msg::dds_::String_/{STRING_HASH}"


# the first three as seen from rmw_zenoh_cpp, the others by its rules
@pytest.mark.parametrize("qos, field", [
    (QoS(True, False, 10), "::,10:,:,:,,"), (QoS(True, True, 1), ":1:,1:,:,:,,"),
    (QoS(False, False, 5), "2::,5:,:,:,,"), (QoS(True, False, 42), "::,:,:,:,,"), (FEATURE, "::,1:,:,:,,"),
    (LATCHED, ":1:,1:,:,:,,"), (SENSOR, "2::,1:,:,:,,"), (STREAM, "2::,10:,:,:,,")])
def test_qos_fields_both_ways(qos, field):
    assert names.encode_qos(qos) == field
    assert names.decode_qos(field) == qos


def test_tokens_both_ways():
    node = names.Endpoint(61, "ab12", 0, 0, names.NODE, "/", "talker")
    assert node.token() == "@ros2_lv/61/ab12/0/0/NN/%/%/talker"
    topic = names.Endpoint(61, "ab12", 0, 3, names.PUBLISHER, "/r1", "talker", "/r1/chatter",
                           "std_msgs::msg::dds_::String_", STRING_HASH, QoS(True, False, 10))
    assert topic.token() == (f"@ros2_lv/61/ab12/0/3/MP/%/%r1/talker/%r1%chatter/std_msgs::msg::dds_::String_/"
                             f"{STRING_HASH}/::,10:,:,:,,")
    for endpoint in (node, topic):
        assert names.parse_token(endpoint.token()) == endpoint
    assert names.parse_token(topic.token() + "/backends:cpu:") == topic    # as newer versions append


@pytest.mark.parametrize("token", ["", "@ros2_lv", "@ros2_lv/0/ab/0/0/NN/%/%", "@ros2_lv/0/ab/0/0/XX/%/%/n",
                                   "@ros2_lv/0/ab/0/1/MP/%/%/n/%t", "@ros2_lv/0/ab/0/1/MP/%/%/n//x/y/::,1:,:,:,,",
                                   "@ros2_lv/zero/ab/0/0/NN/%/%/n"])
def test_what_is_no_token_is_refused(token):
    with pytest.raises(names.NameProblem):
        names.parse_token(token)


def test_attachment_bytes():
    gid = bytes(range(16))
    data = pack(7, 1_700_000_000_123_456_789, gid)
    assert data == struct.pack("<qq", 7, 1_700_000_000_123_456_789) + b"\x10" + gid and len(data) == 33
    assert unpack(data) == (7, 1_700_000_000_123_456_789, gid)
    for broken in (b"", data[:-1], data + b"x", data[:16] + b"\x0f" + gid):
        with pytest.raises(AttachmentProblem):
            unpack(broken)


def test_payloads():
    text = bytes(messages.encode(messages.make(STRING, data="hello 15")))
    assert text.hex() == "00010000" + "09000000" + "68656c6c6f20313500"
    assert bytes(messages.encode(messages.make("std_msgs/msg/Bool", data=True))).hex() == "0001000001"
    assert bytes(messages.encode(messages.make("std_msgs/msg/Empty"))).hex() == "0001000000"
    origin = messages.make("brain_interfaces/msg/Origin", source="scan", stamp=messages.time_message(1.5))
    told = "00010000" + "05000000" + "7363616e00" + "000000" + "01000000" + "0065cd1d"
    assert bytes(messages.encode(origin)).hex() == told


def test_gid_is_the_hash_of_the_token_low_half_first():
    import xxhash
    token = "@ros2_lv/61/ab12/0/0/NN/%/%/talker"
    digest = xxhash.xxh3_128(token.encode()).digest()      # canonical: high half first, big endian
    assert names.gid(token) == digest[8:][::-1] + digest[:8][::-1]


@pytest.mark.parametrize("topic, full", [("a/b", "/ns/a/b"), ("/a", "/a"), ("~/a", "/ns/node/a")])
def test_names_expand(topic, full):
    assert names.expand(topic, "/ns", "node") == full


# -- a real session, looked at from outside by plain Zenoh ---------------------------------------------------------


@pytest.fixture
def wire():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"tcp/127.0.0.1:{port}"
    router = Router([endpoint])
    session = open_session(endpoint, patience=10)
    other = open_session(endpoint, patience=10)
    yield session, other, port % 200
    other.close()
    session.close()
    router.close()


def eventually(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_plain_subscriber_gets_payload_attachment_and_sequence(wire):
    session, other, domain = wire
    got = []
    key = names.data_key(domain, "/r1/chatter", STRING)
    subscriber = other.zenoh.declare_subscriber(key, zenoh.handlers.FifoChannel(10))
    with Node(session, "talker", "/r1", domain) as node:
        publisher = node.publisher("chatter", STRING)
        time.sleep(0.3)
        for _ in range(3):
            publisher.publish(messages.make(STRING, data="hello 15"))
        got = [subscriber.recv() for _ in range(3)]
    assert [unpack(s.attachment.to_bytes()).sequence for s in got] == [1, 2, 3]
    assert all(unpack(s.attachment.to_bytes()).gid == publisher.gid for s in got)
    assert got[0].payload.to_bytes().hex() == "000100000900000068656c6c6f20313500"


@pytest.mark.parametrize("qos", [FEATURE, STREAM, LATCHED])
def test_messages_said_in_a_row_may_share_a_batch(wire, qos):
    """Each express one takes one of the two that a link has: of 12 in a row, a busy machine lost every fifth."""
    session, other, domain = wire
    got = zenoh.handlers.FifoChannel(10)
    subscriber = other.zenoh.declare_subscriber(names.data_key(domain, "/chatter", STRING), got)
    with Node(session, "talker", "/", domain) as node:
        publisher = node.publisher("chatter", STRING, qos)
        received = []

        def said():
            publisher.publish(messages.make(STRING, data="hello"))
            received.append(subscriber.try_recv())
            return received[-1] is not None
        eventually(said)
    sample = received[-1]
    assert (sample.express, sample.priority, sample.congestion_control) == (
        False, zenoh.Priority.DATA, zenoh.CongestionControl.DROP)


def test_tokens_come_and_go_with_the_node(wire):
    session, other, domain = wire

    def tokens():
        replies = other.zenoh.liveliness().get(f"@ros2_lv/{domain}/**", timeout=2.0)
        return sorted(str(r.ok.key_expr) for r in replies if r.ok is not None)
    node = Node(session, "n", "/", domain)
    node.publisher("a", STRING, LATCHED)
    node.subscription("b", STRING, SENSOR)
    eventually(lambda: len(tokens()) == 3)
    found = [names.parse_token(t) for t in tokens()]
    assert {(e.kind, e.topic, e.qos) for e in found} == {
        (names.NODE, "", None), (names.PUBLISHER, "/a", LATCHED), (names.SUBSCRIPTION, "/b", SENSOR)}
    assert len({e.id for e in found}) == 3 and len({e.nid for e in found}) == 1
    node.close()
    eventually(lambda: tokens() == [])


def test_a_peer_with_another_hash_is_warned_about(wire):
    session, other, domain = wire
    warned = []
    with Node(session, "ours", "/", domain) as node:
        node.subscription("t", STRING)
        outside = names.Endpoint(domain, other.zid, 0, 1, names.PUBLISHER, "/", "outside", "/t",
                                 messages.dds_type(STRING), "RIHS01_" + "0" * 64, FEATURE)
        token = other.zenoh.liveliness().declare_token(outside.token())
        watch = Watch(session, domain, own=lambda: node.endpoints, warn=warned.append)
        eventually(lambda: watch.poll() or warned)
        token.undeclare()
        watch.close()
    assert "/outside" in warned[0] and "/t" in warned[0] and "RIHS01_" + "0" * 8 in warned[0]

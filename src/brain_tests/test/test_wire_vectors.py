# SPDX-License-Identifier: Apache-2.0
"""Each type on the wire to the byte, against vectors that ROS 2 itself made: keys, tokens, attachments, payloads.

A definition or topic type that is new or changed needs new vectors: `python -m brain_tests.ros_wire_vectors`.
"""
from brain_runtime import QoS
from brain_tests import wire_vectors
from brain_tests.cases import of_all
from brain_wire import messages
from brain_wire import names
from brain_wire.attachment import pack, unpack

VECTORS = wire_vectors.read()
TYPES, PARTS = VECTORS["types"], VECTORS["parts"]
ALL = {**TYPES, **PARTS}


def quality(words):
    reliability, durability, depth = words
    return QoS(reliability == "RELIABLE", durability == "TRANSIENT_LOCAL", depth)


def test_every_type_has_a_vector():
    assert (sorted(TYPES), list(PARTS)) == (wire_vectors.types(), wire_vectors.parts()), wire_vectors.AGAIN
    assert {name: vector["values"] for name, vector in ALL.items()} == {
        name: wire_vectors.filled(name) for name in ALL}, wire_vectors.AGAIN


@of_all(TYPES)
def test_key_tokens_and_attachment(name):
    vector = TYPES[name]
    assert names.data_key(61, "/r1/the/topic", name) == vector["key"]
    publisher = names.parse_token(vector["token"])
    assert publisher == names.Endpoint(
        61, publisher.zid, 0, publisher.id, names.PUBLISHER, "/r1", "talker", "/r1/the/topic", messages.dds_type(name),
        vector["hash"], quality(vector["qos"]))
    assert (publisher.token(), publisher.type) == (vector["token"], name)
    assert names.parse_token(vector["subscription"]).token() == vector["subscription"]
    assert names.gid(vector["token"]).hex() == vector["gid"]
    attachment = unpack(bytes.fromhex(vector["attachment"]))
    assert attachment == (publisher.id, 1_700_000_000_123_456_789, bytes.fromhex(vector["gid"]))
    assert pack(*attachment).hex() == vector["attachment"]


@of_all(ALL)
def test_payload_both_ways(name):
    vector = ALL[name]
    assert messages.type_hash(name) == vector["hash"]
    assert messages.encode(wire_vectors.build(name, vector["values"])).hex() == vector["cdr"]
    assert wire_vectors.plain(messages.decode(bytes.fromhex(vector["cdr"]), name)) == vector["values"]


def test_the_node():
    node = names.parse_token(VECTORS["node"])
    assert (node.kind, node.name, node.nid, node.id, node.token()) == (names.NODE, "/r1/talker", 0, 0, VECTORS["node"])


def test_what_was_seen_of_rmw_zenoh():
    seen = VECTORS["seen"]
    assert [names.data_key(61, "/r1/chatter", "std_msgs/msg/String")] == seen["key"]
    for name, vector in seen["cdr"].items():
        assert messages.encode(wire_vectors.build(name, vector["values"])).hex() == vector["cdr"]
    assert {field: names.decode_qos(field) for field in seen["qos"]} == {
        field: quality(words) for field, words in seen["qos"].items()}

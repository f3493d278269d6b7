# SPDX-License-Identifier: Apache-2.0
"""Services on the wire as rmw_zenoh_cpp asks for them and answers, and the types that they are made of."""
import socket
import struct
import threading
import time

import pytest
import zenoh

from brain_wire import messages, services
from brain_wire import NoAnswer, Node, names, open_session
from brain_wire.attachment import pack, unpack
from brain_wire.messages import make
from brain_wire.router import Router

GET_STATE = "lifecycle_msgs/srv/GetState"
# As rosidl generated them for ROS 2 Kilted.
HASHES = {
    "lifecycle_msgs/srv/GetState": "800a0a5aae599782",
    "lifecycle_msgs/srv/GetState_Event": "4ac077d336db3372",
    "service_msgs/msg/ServiceEventInfo": "41bcbbe07a75c9b5",
}


@pytest.fixture
def sessions():
    """Two sessions of one router."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    router = Router([endpoint])
    with open_session(endpoint, patience=10) as one, open_session(endpoint, patience=10) as two:
        yield one, two
    router.close()


@pytest.fixture
def served(sessions):
    """A service /r1/lamp/get_state that says what it was asked as, and a raw session."""
    one, two = sessions
    came, stop = threading.Event(), threading.Event()
    with Node(one, "lamp", "/r1", domain=7) as node:
        service = node.service("~/get_state", GET_STATE, came.set)

        def serve():
            while not stop.is_set():
                came.wait(0.05)
                came.clear()
                service.answer(lambda _: make(f"{GET_STATE}_Response", current_state=make(
                    "lifecycle_msgs/msg/State", id=3, label="active")))
        thread = threading.Thread(target=serve)
        thread.start()
        yield service, two
        stop.set()
        thread.join()


def ask(session, key, payload, attachment):
    """Asks as rmw_zenoh_cpp does."""
    return list(session.zenoh.get(
        key, target=zenoh.QueryTarget.ALL_COMPLETE, consolidation=zenoh.ConsolidationMode.NONE, payload=payload,
        attachment=attachment, timeout=5.0))


@pytest.mark.parametrize("name", HASHES)
def test_hashes_are_those_of_ros(name):
    services.service_type(GET_STATE)
    assert messages.type_hash(name)[7:23] == HASHES[name]


def test_parts_are_known_by_their_names_alone():
    assert make("rcl_interfaces/srv/ListParameters_Request", prefixes=["a"], depth=2).prefixes == ["a"]
    assert make("brain_interfaces/action/Seek_SendGoal_Request").goal.text == ""


def test_unknown_types_are_told_with_the_known_ones():
    with pytest.raises(messages.MessageError, match="unknown service type 'a/srv/B'.*GetState"):
        services.service_type("a/srv/B")
    with pytest.raises(messages.MessageError, match="unknown action type.*brain_interfaces/action/Seek"):
        services.action_type("brain_interfaces/action/../../x")


def test_the_wire_of_a_service_to_the_byte(served):
    service, raw = served
    key = f"7/r1/lamp/get_state/lifecycle_msgs::srv::dds_::GetState_/{messages.type_hash(GET_STATE)}"
    gid = bytes(range(16))
    time.sleep(0.2)
    reply, = ask(raw, key, bytes.fromhex("00010000 00"), pack(41, time.time_ns(), gid))
    assert str(reply.ok.key_expr) == key
    assert reply.ok.payload.to_bytes() == bytes.fromhex("00010000 03 000000 07000000") + b"active\0"
    attachment = unpack(reply.ok.attachment.to_bytes())
    assert (attachment.sequence, attachment.gid) == (41, gid)
    token = f"@ros2_lv/7/{service.endpoint.zid}/{service.endpoint.nid}/{service.endpoint.id}/SS/%/%r1/lamp/" \
            f"%r1%lamp%get_state/lifecycle_msgs::srv::dds_::GetState_/{messages.type_hash(GET_STATE)}/::,10:,:,:,,"
    assert token in [str(r.ok.key_expr) for r in raw.zenoh.liveliness().get("@ros2_lv/7/**")]
    assert names.parse_token(token).type == GET_STATE


@pytest.mark.parametrize("payload, attachment, said", [
    (b"", pack(1, 1, bytes(16)), "not a"), (b"rubbish", pack(1, 1, bytes(16)), "not a"),
    (None, pack(1, 1, bytes(16)), "at most"), (bytes.fromhex("0001000000"), None, "no attachment"),
    (bytes.fromhex("0001000000"), struct.pack("<q", 1), "attachment of 8 bytes")])
def test_requests_that_cannot_be_read_are_refused_and_the_next_is_answered(served, payload, attachment, said):
    _, raw = served
    key = f"7/r1/lamp/get_state/lifecycle_msgs::srv::dds_::GetState_/{messages.type_hash(GET_STATE)}"
    time.sleep(0.2)
    reply, = ask(raw, key, payload, attachment)
    assert reply.ok is None and said in reply.err.payload.to_string()
    assert ask(raw, key, bytes.fromhex("0001000000"), pack(2, 1, bytes(16)))[0].ok is not None


def test_a_client_asks_and_is_told_when_nobody_serves(served):
    _, raw = served
    with Node(raw, "asker", domain=7) as node:
        client = node.client("/r1/lamp/get_state", GET_STATE)
        for _ in range(3):
            assert client.call(make(f"{GET_STATE}_Request")).current_state.label == "active"
        with pytest.raises(NoAnswer, match="nobody serves /r1/lamp/other"):
            node.client("/r1/lamp/other", GET_STATE).call(make(f"{GET_STATE}_Request"), timeout=0.2)


def test_who_does_not_answer_is_named(sessions):
    one, two = sessions
    with Node(one, "mute", domain=7) as server, Node(two, "asker", domain=7) as asker:
        server.service("~/get_state", GET_STATE, lambda: None)
        with pytest.raises(NoAnswer, match="no answer of /mute/get_state within 0.5 s"):
            asker.client("/mute/get_state", GET_STATE).call(make(f"{GET_STATE}_Request"), timeout=0.5)

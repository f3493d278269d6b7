# SPDX-License-Identifier: Apache-2.0
"""A peer that asks and answers what it likes, on a real router: who serves and who asks goes on all the same."""
import logging
import threading
import time

import pytest
import zenoh

from brain_runtime.hosts.zenoh import ZenohHost
from brain_tests import hostile
from brain_tests.fuzzing import fuzz
from brain_tests.regions import Mirror
from brain_wire import messages
from brain_wire import NoAnswer, Node, Watch, names
from brain_wire import service as wire_service
from brain_wire.attachment import pack
from brain_wire.messages import make
from brain_wire.services import action_type, service_type
from brain_wire.type_descriptions import SERVICE

PATIENCE = 120.0     # s; only against waiting for ever
DOMAIN = 7
GET_STATE = "lifecycle_msgs/srv/GetState"


# -- services ---------------------------------------------------------------------------------------------------------

class Served:
    """A service that answers in a thread."""

    def __init__(self, node, handler):
        self.came, self._stop = threading.Event(), threading.Event()
        self.service = node.service("~/get_state", GET_STATE, self.came.set)
        self.thread = threading.Thread(target=self._run, args=(handler,))
        self.thread.start()

    def _run(self, handler):
        while not self._stop.is_set():
            self.came.wait(0.02)
            self.came.clear()
            self.service.answer(handler)

    def end(self):
        self._stop.set()
        self.thread.join()


def test_a_request_that_cannot_be_answered_is_refused_at_once_and_the_next_one_served(sessions, caplog):
    ours, theirs = sessions
    broken = [True]

    def handler(_):
        if broken.pop() if broken else False:
            raise KeyError("[/etc/map.yaml]")
        return make(f"{GET_STATE}_Response")

    with Node(ours, "lamp", domain=DOMAIN) as node, Node(theirs, "cli", domain=DOMAIN) as cli:
        served = Served(node, handler)
        client = cli.client("/lamp/get_state", GET_STATE)
        begin = time.monotonic()
        with pytest.raises(NoAnswer, match="/lamp/get_state refused: it could not be answered: KeyError"):
            client.call(make(client.type.request), PATIENCE)
        assert time.monotonic() - begin < PATIENCE / 2
        assert client.call(make(client.type.request), PATIENCE).current_state.id == 0
        served.end()
    assert "KeyError" in caplog.text


def test_what_others_answer_in_a_servers_place_is_not_believed(sessions):
    ours, theirs = sessions
    key = names.data_key(DOMAIN, "/lamp/get_state", GET_STATE)
    forged = messages.encode(make(f"{GET_STATE}_Response", current_state=make("lifecycle_msgs/msg/State", id=9)))
    for data, attachment in ((b"", None), (b"\xff" * 40, b"x"), (forged, None), (forged, pack(77, 1, bytes(16))),
                             (forged, bytes(10**5))):
        theirs.zenoh.declare_queryable(key, lambda q, d=data, a=attachment: q.reply(q.key_expr, d, attachment=a),
                                       complete=True)
    theirs.zenoh.declare_queryable(key, lambda q: q.reply_err(b"\xff\x00\x1b[2J"), complete=True)
    with Node(ours, "asking", domain=DOMAIN) as asking:
        client = asking.client("/lamp/get_state", GET_STATE)
        with pytest.raises((NoAnswer, messages.MessageError)) as error:
            client.call(make(client.type.request), PATIENCE)
        assert str(error.value).isprintable()
        with Node(theirs, "lamp", domain=DOMAIN) as node:
            served = Served(node, lambda _: make(f"{GET_STATE}_Response", current_state=make(
                "lifecycle_msgs/msg/State", id=3)))
            end = time.monotonic() + PATIENCE
            answer = None
            while answer is None and time.monotonic() < end:
                try:
                    answer = client.call(make(client.type.request), 1.0)
                except (NoAnswer, messages.MessageError):
                    time.sleep(0.05)    # the router does not know the server yet
            served.end()
        assert answer.current_state.id == 3


def test_a_flood_of_requests_is_refused_and_not_kept(sessions):
    ours, theirs = sessions
    with Node(ours, "lamp", domain=DOMAIN) as node:
        service = node.service("~/get_state", GET_STATE, lambda: None)
        key = names.data_key(DOMAIN, "/lamp/get_state", GET_STATE)
        answers = []
        ask = theirs.zenoh.declare_querier(key, target=zenoh.QueryTarget.ALL_COMPLETE, timeout=PATIENCE)
        end = time.monotonic() + PATIENCE
        while not ask.matching_status.matching and time.monotonic() < end:
            time.sleep(0.02)
        for _ in range(3 * wire_service.WAITING):
            ask.get(zenoh.handlers.Callback(answers.append, indirect=False), payload=bytes(200))
        while len(answers) < 2 * wire_service.WAITING and time.monotonic() < end:
            time.sleep(0.02)
        assert len(service._queries) <= wire_service.WAITING
        assert all("more than" in reply.err.payload.to_string() for reply in answers)
        assert service.take() == []     # none had an attachment
        while len(answers) < 3 * wire_service.WAITING and time.monotonic() < end:
            time.sleep(0.02)
        assert len(answers) == 3 * wire_service.WAITING


# -- a region's node --------------------------------------------------------------------------------------------------

@pytest.fixture
def host(sessions):
    """A region on ZenohHost in a thread, and the hostile peer's session."""
    ours, theirs = sessions
    host = ZenohHost(Mirror("mirror"), ours, domain=DOMAIN)
    thread = threading.Thread(target=host.run)
    thread.start()
    yield host, theirs
    assert thread.is_alive() and host.failure is None
    host.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_requests_of_every_service_and_action_of_a_region(host, caplog):
    """Through the real handlers, over the wire: each is answered or refused, and the region goes on."""
    caplog.set_level(logging.CRITICAL)
    _, theirs = host
    with Watch(theirs, DOMAIN) as watch:
        assert watch.wait_for(lambda w: len(w.endpoints(kind=names.SERVER)) >= 15, PATIENCE)
        served = {e.topic: e for e in watch.endpoints(kind=names.SERVER)}
    action_type("brain_interfaces/action/Seek")
    lock, open_ones, answers = threading.Semaphore(32), [0], [0, 0]
    numbers = iter(range(10**9))

    def one(draw):
        endpoint = draw.choice(list(served.values()))
        request = f"{endpoint.type}_Request"
        sound = messages.encode(hostile.any_message(draw, request, draw.choice((0.0, 0.3))))
        data = sound if draw.random() < 0.4 else hostile.changed_bytes(draw, sound)
        attachment = pack(next(numbers), 1, bytes(16)) if draw.random() < 0.9 else draw.randbytes(draw.randrange(40))
        try:
            message = messages.decode(data, request)
            past = True
        except messages.MessageError:
            past = False
        if past and ("change_state" in endpoint.topic and (message.transition.label or message.transition.id)):
            return past     # a sound command to end it, say
        if past and "send_goal" in endpoint.topic and len(message.goal.text) > 60:
            return past     # more than this toy can say back
        if past and "get_result" in endpoint.topic:
            return past     # which waits for the goal's end
        lock.acquire()
        open_ones[0] += 1

        def receive(reply):
            answers[reply.ok is None] += 1

        def end():
            open_ones[0] -= 1
            lock.release()

        theirs.zenoh.get(f"{DOMAIN}/{endpoint.topic.strip('/')}/{endpoint.dds_type}/{endpoint.type_hash}",
                         zenoh.handlers.Callback(receive, end, indirect=False), payload=data, attachment=attachment,
                         timeout=PATIENCE, target=zenoh.QueryTarget.ALL_COMPLETE)
        return past

    fuzz(one, few=300, seeds=True)
    end = time.monotonic() + PATIENCE
    while open_ones[0] and time.monotonic() < end:
        time.sleep(0.05)
    assert not open_ones[0] and min(answers) > 20, answers
    with Node(theirs, "cli", domain=DOMAIN) as cli:
        client = cli.client("/mirror/get_state", GET_STATE)
        assert client.call(make(client.type.request), PATIENCE).current_state.label == "active"


def test_a_type_is_described_by_its_hash(host):
    _, theirs = host
    with Node(theirs, "cli", domain=DOMAIN) as cli:
        client = cli.client("/mirror/get_type_description", SERVICE)

        def ask(wanted, sources=False):
            return client.call(make(client.type.request, type_hash=wanted, include_type_sources=sources), PATIENCE)

        beat = "brain_interfaces/msg/Heartbeat"
        found = ask(messages.type_hash(beat), True)
        assert found.successful and not found.failure_reason
        assert found.type_description.type_description.type_name == beat
        assert [d.type_name for d in found.type_description.referenced_type_descriptions] == [
            "builtin_interfaces/msg/Time", "std_msgs/msg/Header"]
        assert [(s.type_name, s.encoding) for s in found.type_sources] == [(beat, "msg")]
        assert found.type_sources[0].raw_file_contents.startswith("# A region's sign of life")
        state = ask(messages.type_hash(service_type(GET_STATE).name))
        assert state.successful and not state.type_sources
        assert state.type_description.type_description.type_name == GET_STATE
        unused = ask(messages.type_hash("sensor_msgs/msg/PointCloud2"))
        assert not unused.successful and "in use by this node" in unused.failure_reason
        assert "no hash" in ask("RIHS01_ab").failure_reason


def test_a_goal_of_endless_questions_is_not_kept_for_ever(host):
    """Requests for the result of a goal that goes on: so many wait, and the others are refused."""
    running, theirs = host
    with Node(theirs, "cli", domain=DOMAIN) as cli:
        send = cli.client("/seek/_action/send_goal", action_type("brain_interfaces/action/Seek").send_goal)
        number = make("unique_identifier_msgs/msg/UUID", uuid=[7] * 16)
        goal = make("brain_interfaces/action/Seek_Goal", text="for ever")
        assert send.call(make(send.type.request, goal_id=number, goal=goal), PATIENCE).accepted
        result = action_type("brain_interfaces/action/Seek").get_result
        key = names.data_key(DOMAIN, "/seek/_action/get_result", result.name)
        refused = []
        for n in range(40):
            theirs.zenoh.get(key, zenoh.handlers.Callback(lambda r: refused.append(r.err is not None), indirect=False),
                             payload=messages.encode(make(result.request, goal_id=number)),
                             attachment=pack(n + 1, 1, bytes(16)), timeout=PATIENCE,
                             target=zenoh.QueryTarget.ALL_COMPLETE)
        end = time.monotonic() + PATIENCE
        while len(refused) < 24 and time.monotonic() < end:
            time.sleep(0.02)
        assert refused == [True] * 24
        assert len(next(iter(running.connections.served["seek"]._book.values())).waiting) == 16

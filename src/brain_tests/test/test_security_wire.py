# SPDX-License-Identifier: Apache-2.0
"""A secured router and real sessions: what is allowed arrives, what is not does not, and who is refused is told why.

What must not arrive is fenced in: the same session then says something that it may say, and what comes before that on
its link has been dealt with when that has arrived.
"""
import itertools
import json
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import zenoh

from brain_wire.router import free_port
from brain_runtime import LATCHED
from brain_runtime.resolved import Resolved, ResolvedRegion
from brain_security.certificates import Pair, make_authority, make_pair
from brain_security.folder import fill
from brain_security.rights import rights_of
from brain_wire import messages
from brain_wire import NoAnswer, Node, NoRouter, Session, SessionProblem, Watch, names, open_session
from brain_wire.router import Router
from brain_wire.session import session_config

STRING = "std_msgs/msg/String"
PATIENCE = 20.0     # s; only against waiting for ever
REGIONS = (
    ResolvedRegion("world", "m:W", device=True, publishes=("camera/image_raw",), hears=("cmd_vel",)),
    ResolvedRegion("vision", "m:V", publishes=("vision/objects",), hears=("camera/image_raw",)),
    ResolvedRegion("language", "m:L", publishes=("lang/features",), hears=("goal/text", "vision/objects"),
                   actions=("seek",)),
    ResolvedRegion("brainstem", "m:B", publishes=("cmd_vel", "estop/status"),
                   hears=("vision/objects", "estop", "brain/heartbeat")))
numbers = itertools.count()


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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Keys, and a router that runs with them. The namespace makes sure that it is nowhere forgotten."""
    folder, namespace, port = tmp_path_factory.mktemp("keys") / "k", "/r1", free_port()
    domain = port % 200
    rights = rights_of(Resolved("g", REGIONS, namespace=namespace), maintainers=["ann"])
    fill(folder, rights, domain=domain, namespace=namespace, about={}, days=30.0)
    with Router(port=port, config_file=folder / "router.json5"):
        yield folder, domain, port, namespace


@pytest.fixture
def brain(made, monkeypatch):
    """The secured brain; what a test opened is closed after it."""
    for variable in ("ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE", "BRAIN_ROUTER"):
        monkeypatch.delenv(variable, raising=False)
    secured = Secured(*made, monkeypatch)
    yield secured
    secured.close()


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


# -- what is allowed --------------------------------------------------------------------------------------------------

def test_messages_latched_goals_and_the_graph_are_there(brain):
    vision, language, operator = brain.node("vision"), brain.node("language"), brain.node("operator", "brain_say")
    out = vision.publisher("vision/objects", STRING)
    heard_until(out, language.subscription("vision/objects", STRING), "seen")
    heard_until(out, operator.subscription("vision/objects", STRING), "seen by the operator")
    operator.publisher("goal/text", STRING, LATCHED).publish(text("go"))
    assert first(language.subscription("goal/text", STRING, LATCHED)) == "go"      # it was said before
    status = operator.subscription("estop/status", STRING, LATCHED)
    brainstem = brain.node("brainstem")
    brainstem.publisher("estop/status", STRING, LATCHED).publish(text("stopped"))  # a late publisher
    assert first(status) == "stopped"
    beat = brainstem.subscription("brain/heartbeat", STRING)
    heard_until(language.publisher("brain/heartbeat", STRING), beat, "beat")
    with Watch(brain.session("vision"), brain.domain) as watch:
        expected = {"/r1/vision", "/r1/language", "/r1/brainstem", "/r1/brain_say"}
        assert watch.wait_for(lambda w: expected <= set(w.nodes()), PATIENCE), watch.nodes()
        brainstem.close()
        assert watch.wait_for(lambda w: "/r1/brainstem" not in w.nodes(), PATIENCE)


def test_services_are_called_by_those_who_may(brain):
    service = lambda node, what: names.data_key(  # noqa: E731
        brain.domain, f"/r1/{node}/{what}", STRING)
    vision = brain.session("vision").zenoh
    servers = [vision.declare_queryable(service("vision", what), lambda q: q.reply(q.key_expr, b"yes"), complete=True)
               for what in ("get_parameters", "set_parameters")]
    ask = lambda who, what: [r.ok.payload.to_bytes() for r in brain.session(who).zenoh.get(  # noqa: E731
        service("vision", what), target=zenoh.QueryTarget.ALL_COMPLETE, timeout=PATIENCE)]
    assert ask("operator", "get_parameters") == [b"yes"]
    assert ask("ann", "set_parameters") == [b"yes"]
    for who, what in (("operator", "set_parameters"), ("language", "get_parameters"), ("vision", "get_parameters")):
        assert ask(who, what) == []     # at once: it was never told of a server
    # Nobody answers in vision's place either.
    servers[0].undeclare()
    language = brain.node("language")
    language.session.zenoh.declare_queryable(
        service("vision", "get_parameters"), lambda q: q.reply(q.key_expr, b"forged"), complete=True)
    heard_until(language.publisher("lang/features", STRING),
                brain.node("operator").subscription("lang/features", STRING), "fence")
    assert ask("operator", "get_parameters") == []


def test_an_action_is_executed_by_its_server_and_asked_for_by_operators(brain):
    part = lambda name: names.data_key(brain.domain, f"/r1/seek/_action/{name}", STRING)  # noqa: E731
    for who, answer in (("vision", b"forged"), ("language", b"accepted")):
        brain.session(who).zenoh.declare_queryable(part("send_goal"), lambda q, a=answer: q.reply(q.key_expr, a),
                                                   complete=True)
    language, operator = brain.node("language"), brain.node("operator")
    feedback = operator.subscription("seek/_action/feedback", STRING)
    heard_until(language.publisher("seek/_action/feedback", STRING), feedback, "on its way")
    language.publisher("seek/_action/status", STRING, LATCHED).publish(text("executing"))
    assert first(operator.subscription("seek/_action/status", STRING, LATCHED)) == "executing"
    asked = operator.session.zenoh.declare_querier(part("send_goal"), target=zenoh.QueryTarget.ALL_COMPLETE)
    end = time.monotonic() + PATIENCE
    while not asked.matching_status.matching and time.monotonic() < end:
        time.sleep(0.02)
    assert [r.ok.payload.to_bytes() for r in asked.get()] == [b"accepted"]


# -- what is not ------------------------------------------------------------------------------------------------------

def test_a_spoofed_command_does_not_arrive_however_it_is_sent(brain):
    world, brainstem = brain.node("world"), brain.node("brainstem")
    commands = world.subscription("cmd_vel", STRING)
    everything = brain.session("world").zenoh.declare_subscriber(brain.key("cmd_vel"), zenoh.handlers.FifoChannel(100))
    drive = brainstem.publisher("cmd_vel", STRING)
    heard_until(drive, commands, "known")
    end = time.monotonic() + PATIENCE
    while everything.try_recv() is None:    # it is another subscriber, which may become known later
        assert time.monotonic() < end, "the raw subscriber hears nothing"
        drive.publish(text("known"))
        time.sleep(0.05)
    fence = brainstem.subscription("vision/objects", STRING)
    for spoofer in ("vision", "operator"):
        node = brain.node(spoofer)
        node.publisher("cmd_vel", STRING).publish(text("spoofed"))
        raw = node.session.zenoh
        for key in (brain.key("cmd_vel"), f"{brain.domain}/r1/cmd_vel/**", f"{brain.domain}/**", "**",
                    f"{brain.domain}/r1/*/*/*"):
            raw.put(key, b"spoofed")
        raw.declare_publisher(brain.key("cmd_vel")).put(b"spoofed")
        if spoofer == "vision":
            heard_until(node.publisher("vision/objects", STRING), fence, "fence")
        else:
            heard_until(node.publisher("estop", STRING), brainstem.subscription("estop", STRING), "fence")
    heard_until(drive, commands, "the end")
    seen = {"known"}
    while "the end" not in seen:
        cdr = everything.recv().payload.to_bytes()
        seen.add("spoofed" if cdr == b"spoofed" else messages.decode(cdr, STRING).data)
    assert seen <= {"", "known", "the end"}


def test_a_goal_is_neither_forged_from_a_cache_nor_overheard(brain):
    """zenoh-ext's own keys: a cache that answers for a latched topic, and the query that asks it."""
    vision = brain.session("vision").zenoh
    key = brain.key("goal/text")
    vision.declare_queryable(f"{key}/@adv/pub/{vision.info.zid()}/7/_", lambda q: q.reply(key, b"forged"))
    token = vision.liveliness().declare_token(f"{key}/@adv/pub/{vision.info.zid()}/7/_")
    forged = zenoh.ext.declare_advanced_publisher(vision, key, cache=zenoh.ext.CacheConfig(max_samples=1),
                                                  publisher_detection=True)
    forged.put(b"forged")
    language, operator = brain.node("language"), brain.node("operator")
    other = brain.node("vision")
    overheard = other.session.zenoh.declare_subscriber(key, zenoh.handlers.FifoChannel(10))
    operator.publisher("goal/text", STRING, LATCHED).publish(text("go"))
    goals = language.subscription("goal/text", STRING, LATCHED)
    assert first(goals) == "go" and not goals.take()
    assert [r for r in other.session.zenoh.get(f"{key}/@adv/**", timeout=0.5) if r.ok] == []
    heard_until(brain.node("world").publisher("camera/image_raw", STRING),
                other.subscription("camera/image_raw", STRING), "fence")
    assert overheard.try_recv() is None
    token.undeclare()


def test_a_token_in_anothers_name_is_refused(brain):
    """A node announces itself alone, and people's tools nobody of the graph, in whatever spelling."""
    zid = "abc"
    made_up = []
    for liar in ("vision", "operator"):
        with Watch(brain.session("ann"), brain.domain) as watch:
            assert watch.wait_for(lambda w: not w.nodes(), PATIENCE)    # those of before have left
        session = brain.session(liar)
        made_up += [session.zenoh.liveliness().declare_token(f"@ros2_lv/{brain.domain}/{zid}/{n}/{n}/NN/{rest}")
                    for n, rest in enumerate(("%/%r1/brainstem", "%enclave/%r1/brainstem", "%/%/r1%brainstem",
                                              "%/%%r1/brainstem", "%/%r1%/brainstem"))]
        made_up.append(Node(session, "brainstem", "/r1", brain.domain))
        if liar == "vision":    # nor a publisher that it must not have, under its own name
            made_up.append(Node(session, liar, "/r1", brain.domain).publisher("cmd_vel", STRING))
        fence = Node(session, "vision" if liar == "vision" else "rviz2", "/r1", brain.domain)
        made_up += [fence, fence.publisher("estop", STRING) if liar == "operator" else fence.publisher(
            "vision/objects", STRING)]
        with Watch(brain.session("ann"), brain.domain) as watch:
            assert watch.wait_for(lambda w: fence.fqn in [e.name for e in w.endpoints(kind=names.PUBLISHER)], PATIENCE)
            assert watch.nodes() == [fence.fqn]
            assert not watch.endpoints("/r1/cmd_vel")
        brain.close()


def test_what_will_be_refused_is_said_beforehand(brain, caplog):
    vision = brain.node("vision")
    with caplog.at_level(logging.WARNING, "brain_security"):
        vision.publisher("vision/objects", STRING)
        assert caplog.messages == []
        vision.publisher("motor/command", STRING)
        vision.subscription("goal/text", STRING)
        Node(vision.session, "motor", "/r1", brain.domain)
        Node(vision.session, "vision", "/r1", brain.domain + 1)
    said = "\n".join(caplog.messages)
    assert "the certificate of /r1/vision does not allow /r1/vision to publish /r1/motor/command; the router" in said
    assert "to hear /r1/goal/text" in said and "does not allow a node /r1/motor" in said
    assert f"is for domain {brain.domain}, not {brain.domain + 1}" in said


def test_a_call_without_the_right_ends_at_once_and_says_so(brain):
    kind = "rcl_interfaces/srv/SetParameters"
    vision, came, stop = brain.node("vision"), threading.Event(), threading.Event()
    service = vision.service("~/set_parameters", kind, came.set)

    def serve():
        while not stop.wait(0.02):
            service.answer(lambda request: messages.make(service.type.response, results=[]))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        request = messages.make(service.type.request)
        allowed = brain.node("ann", "cli").client("vision/set_parameters", kind)
        assert list(allowed.call(request, PATIENCE).results) == []
        refused = brain.node("operator", "cli").client("vision/set_parameters", kind)
        begin = time.monotonic()
        with pytest.raises(NoAnswer, match="/r1/operator does not allow /r1/cli to call /r1/vision/set_p"):
            refused.call(request, PATIENCE)
        assert time.monotonic() - begin < PATIENCE / 4
        refused.forbidden = None    # one that does not know its rights, as of a configuration that others wrote
        with pytest.raises(NoAnswer, match="nobody serves .*, or the router does not let this session call it"):
            refused.call(request, 0.5)
    finally:
        stop.set()
        thread.join()


# -- who is not let in ------------------------------------------------------------------------------------------------

def rewritten(brain, tmp_path, authority: Pair, pair: Pair) -> Path:
    """The credentials of vision with another key and certificate, and another authority to trust."""
    import base64

    lines = (brain.folder / "vision.json5").read_text().splitlines()
    config = json.loads("\n".join(line for line in lines if not line.startswith("//")))
    config["transport"]["link"]["tls"] |= {
        f"{what}_base64": base64.b64encode(pem).decode() for what, pem in (
            ("root_ca_certificate", authority.certificate), ("connect_certificate", pair.certificate),
            ("connect_private_key", pair.key))}
    path = tmp_path / f"vision{next(numbers)}.json5"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


def authority_of(brain) -> Pair:
    return Pair((brain.folder / "ca.key").read_bytes(), (brain.folder / "ca.crt").read_bytes())


def test_an_ended_certificate_is_refused_and_says_so(brain, tmp_path):
    ended = rewritten(brain, tmp_path, authority_of(brain), make_pair(authority_of(brain), "/r1/vision", -0.01))
    with pytest.raises(NoRouter, match=r"refuses /r1/vision .*the certificate has ended, or is not valid yet by the"):
        brain.session("vision", ended)
    fresh = rewritten(brain, tmp_path, authority_of(brain), make_pair(authority_of(brain), "/r1/vision", 1.0))
    assert brain.session("vision", fresh).linked


def test_a_certificate_of_another_authority_is_refused(brain, tmp_path):
    other = make_authority("other", 10.0)
    pair = make_pair(other, "/r1/vision", 1.0)
    with pytest.raises(NoRouter, match="the certificate is of another authority; take the folder"):
        brain.session("vision", rewritten(brain, tmp_path, authority_of(brain), pair))
    with pytest.raises(NoRouter, match="is not one that the credentials of /r1/vision .* trust"):
        brain.session("vision", rewritten(brain, tmp_path, other, pair))


def test_without_a_certificate_nobody_gets_in(brain, monkeypatch):
    monkeypatch.setenv("BRAIN_SECURITY", "")
    with pytest.raises(NoRouter, match="belongs to a secured brain, which is reached by TLS only; give --secure"):
        open_session(f"tcp/localhost:{brain.port}", patience=0.0)
    with pytest.raises(NoRouter, match="does not let this session in; give --secure"):
        open_session(brain.endpoint, patience=0.0)


def test_a_regions_certificate_does_not_make_a_router(brain, tmp_path):
    config = json.loads("\n".join((brain.folder / "router.json5").read_text().splitlines()[1:]))
    vision = json.loads("\n".join((brain.folder / "vision.json5").read_text().splitlines()[1:]))
    for what in ("private_key", "certificate"):
        config["transport"]["link"]["tls"][f"listen_{what}_base64"] = \
            vision["transport"]["link"]["tls"][f"connect_{what}_base64"]
    (tmp_path / "router.json5").write_text(json.dumps(config))
    port = free_port()
    with Router(port=port, config_file=tmp_path / "router.json5"), \
            pytest.raises(NoRouter, match="is not one that the credentials of /r1/operator"):
        brain.session("operator", endpoint=f"tls/localhost:{port}")


def test_a_router_that_is_not_secured_is_not_taken_for_ours(brain):
    port = free_port()
    with Router(port=port):
        with pytest.raises(NoRouter, match="does not speak TLS .* so it is not secured"):
            brain.session("operator", endpoint=f"tls/localhost:{port}")
        with pytest.raises(SessionProblem, match="reached by TLS only, .* but the router is given as"):
            brain.session("operator", endpoint=f"tcp/localhost:{port}")


def test_a_second_router_links_with_the_same_keys(brain):
    """A client of one is heard by a client of the other, and has no more rights there."""
    port = free_port()
    with Router(port=port, config_file=brain.folder / "router.json5", connect=[brain.endpoint]):
        language = Node(brain.session("language", endpoint=f"tls/localhost:{port}"), "language", "/r1", brain.domain)
        heard = language.subscription("vision/objects", STRING)
        vision = brain.node("vision")
        heard_until(vision.publisher("vision/objects", STRING), heard, "from afar")
        goals = language.subscription("goal/text", STRING, LATCHED)
        vision.publisher("goal/text", STRING, LATCHED).publish(text("forged"))
        heard_until(vision.publisher("vision/objects", STRING), heard, "fence")
        brain.node("operator").publisher("goal/text", STRING, LATCHED).publish(text("go"))
        assert first(goals) == "go"


# -- what is not secured ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("endpoint", "warns"), [
    ("tcp/192.0.2.1:7447", True), ("udp/[2001:db8::1]:7447", True), ("tcp/robot.local:7448", True),
    ("tcp/localhost:7447", False), ("tcp/127.0.0.1:7447", False), ("tcp/[::1]:7447", False),
    ("tls/192.0.2.2:7447", False)])
def test_an_open_network_is_warned_of_once(monkeypatch, caplog, endpoint, warns):
    for variable in ("BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(variable, raising=False)
    with caplog.at_level(logging.WARNING, "brain_security"):
        session_config(endpoint)
        session_config(endpoint)
    assert len(caplog.messages) == warns
    if warns:
        assert f"{endpoint} is not secured" in caplog.messages[0] and "brain keys" in caplog.messages[0]


def test_a_router_that_is_opened_to_a_network_is_warned_of(caplog):
    with caplog.at_level(logging.WARNING, "brain_security"):
        with Router([f"tcp/127.0.0.1:{free_port()}"]):
            assert caplog.messages == []
        port = free_port()
        with Router([f"tcp/0.0.0.0:{port}"]):
            assert f"open to a network at tcp/0.0.0.0:{port} and not secured" in caplog.messages[0]

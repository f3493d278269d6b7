# SPDX-License-Identifier: Apache-2.0
"""A secured router and real sessions: what is allowed arrives, what is not does not, and who is refused is told why.

What must not arrive is fenced in: the same session then says something that it may say, and what comes before that on
its link has been dealt with when that has arrived.
"""
import logging
import threading
import time

import pytest
import zenoh

from brain_runtime import LATCHED
from brain_tests.secured import PATIENCE, STRING, first, heard_until, text
from brain_wire import messages
from brain_wire import NoAnswer, Node, Watch, names


# -- what is allowed --------------------------------------------------------------------------------------------------

def test_messages_latched_goals_and_the_graph_are_there(secured):
    vision, language, operator = secured.node("vision"), secured.node("language"), secured.node("operator", "brain_say")
    out = vision.publisher("vision/objects", STRING)
    heard_until(out, language.subscription("vision/objects", STRING), "seen")
    heard_until(out, operator.subscription("vision/objects", STRING), "seen by the operator")
    operator.publisher("goal/text", STRING, LATCHED).publish(text("go"))
    assert first(language.subscription("goal/text", STRING, LATCHED)) == "go"      # it was said before
    status = operator.subscription("estop/status", STRING, LATCHED)
    brainstem = secured.node("brainstem")
    brainstem.publisher("estop/status", STRING, LATCHED).publish(text("stopped"))  # a late publisher
    assert first(status) == "stopped"
    beat = brainstem.subscription("brain/heartbeat", STRING)
    heard_until(language.publisher("brain/heartbeat", STRING), beat, "beat")
    with Watch(secured.session("vision"), secured.domain) as watch:
        expected = {"/r1/vision", "/r1/language", "/r1/brainstem", "/r1/brain_say"}
        assert watch.wait_for(lambda w: expected <= set(w.nodes()), PATIENCE), watch.nodes()
        brainstem.close()
        assert watch.wait_for(lambda w: "/r1/brainstem" not in w.nodes(), PATIENCE)


def test_what_a_robots_devices_say_arrives_and_moves_nothing(secured, caplog):
    edge, language, operator = secured.node("edge", "brain_devices"), secured.node("language"), secured.node("operator")
    heard_until(edge.publisher("sensor/features", STRING), language.subscription("sensor/features", STRING), "near")
    caplog.clear()
    for topic in ("devices/bumper/front", "battery"):
        heard_until(edge.publisher(topic, STRING), operator.subscription(topic, STRING), "full")
    assert "does not allow" not in caplog.text
    commands, fence = operator.subscription("cmd_vel", STRING), operator.subscription("devices/a/b", STRING)
    edge.session.zenoh.put(secured.key("cmd_vel"), messages.encode(text("forged")))
    heard_until(edge.publisher("devices/a/b", STRING), fence, "fence")
    assert not commands.wait(0.0)
    # nobody else speaks for a device
    language.session.zenoh.put(secured.key("devices/a/b"), messages.encode(text("forged")))
    heard_until(language.publisher("lang/features", STRING), operator.subscription("lang/features", STRING), "fence")
    assert not [one for one in fence.wait(0.0) if messages.decode(one.data, STRING).data == "forged"]


def test_services_are_called_by_those_who_may(secured):
    service = lambda node, what: names.data_key(  # noqa: E731
        secured.domain, f"/r1/{node}/{what}", STRING)
    vision = secured.session("vision").zenoh
    servers = [vision.declare_queryable(service("vision", what), lambda q: q.reply(q.key_expr, b"yes"), complete=True)
               for what in ("get_parameters", "set_parameters")]
    ask = lambda who, what: [r.ok.payload.to_bytes() for r in secured.session(who).zenoh.get(  # noqa: E731
        service("vision", what), target=zenoh.QueryTarget.ALL_COMPLETE, timeout=PATIENCE)]
    assert ask("operator", "get_parameters") == [b"yes"]
    assert ask("ann", "set_parameters") == [b"yes"]
    for who, what in (("operator", "set_parameters"), ("language", "get_parameters"), ("vision", "get_parameters")):
        assert ask(who, what) == []     # at once: it was never told of a server
    # Nobody answers in vision's place either.
    servers[0].undeclare()
    language = secured.node("language")
    language.session.zenoh.declare_queryable(
        service("vision", "get_parameters"), lambda q: q.reply(q.key_expr, b"forged"), complete=True)
    heard_until(language.publisher("lang/features", STRING),
                secured.node("operator").subscription("lang/features", STRING), "fence")
    assert ask("operator", "get_parameters") == []


def test_an_action_is_executed_by_its_server_and_asked_for_by_operators(secured):
    part = lambda name: names.data_key(secured.domain, f"/r1/seek/_action/{name}", STRING)  # noqa: E731
    for who, answer in (("vision", b"forged"), ("language", b"accepted")):
        secured.session(who).zenoh.declare_queryable(part("send_goal"), lambda q, a=answer: q.reply(q.key_expr, a),
                                                     complete=True)
    language, operator = secured.node("language"), secured.node("operator")
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

def test_a_spoofed_command_does_not_arrive_however_it_is_sent(secured):
    world, brainstem = secured.node("world"), secured.node("brainstem")
    commands = world.subscription("cmd_vel", STRING)
    everything = secured.session("world").zenoh.declare_subscriber(secured.key("cmd_vel"),
                                                                   zenoh.handlers.FifoChannel(100))
    drive = brainstem.publisher("cmd_vel", STRING)
    heard_until(drive, commands, "known")
    end = time.monotonic() + PATIENCE
    while everything.try_recv() is None:    # it is another subscriber, which may become known later
        assert time.monotonic() < end, "the raw subscriber hears nothing"
        drive.publish(text("known"))
        time.sleep(0.05)
    fence = brainstem.subscription("vision/objects", STRING)
    for spoofer in ("vision", "operator"):
        node = secured.node(spoofer)
        node.publisher("cmd_vel", STRING).publish(text("spoofed"))
        raw = node.session.zenoh
        for key in (secured.key("cmd_vel"), f"{secured.domain}/r1/cmd_vel/**", f"{secured.domain}/**", "**",
                    f"{secured.domain}/r1/*/*/*"):
            raw.put(key, b"spoofed")
        raw.declare_publisher(secured.key("cmd_vel")).put(b"spoofed")
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


def test_a_goal_is_neither_forged_from_a_cache_nor_overheard(secured):
    """zenoh-ext's own keys: a cache that answers for a latched topic, and the query that asks it."""
    vision = secured.session("vision").zenoh
    key = secured.key("goal/text")
    vision.declare_queryable(f"{key}/@adv/pub/{vision.info.zid()}/7/_", lambda q: q.reply(key, b"forged"))
    token = vision.liveliness().declare_token(f"{key}/@adv/pub/{vision.info.zid()}/7/_")
    forged = zenoh.ext.declare_advanced_publisher(vision, key, cache=zenoh.ext.CacheConfig(max_samples=1),
                                                  publisher_detection=True)
    forged.put(b"forged")
    language, operator = secured.node("language"), secured.node("operator")
    other = secured.node("vision")
    overheard = other.session.zenoh.declare_subscriber(key, zenoh.handlers.FifoChannel(10))
    operator.publisher("goal/text", STRING, LATCHED).publish(text("go"))
    goals = language.subscription("goal/text", STRING, LATCHED)
    assert first(goals) == "go" and not goals.take()
    assert [r for r in other.session.zenoh.get(f"{key}/@adv/**", timeout=0.5) if r.ok] == []
    heard_until(secured.node("world").publisher("camera/image_raw", STRING),
                other.subscription("camera/image_raw", STRING), "fence")
    assert overheard.try_recv() is None
    token.undeclare()


def test_a_token_in_anothers_name_is_refused(secured):
    """A node announces itself alone, people's tools nobody of the graph, and none what it must not do."""
    zid = "abc"
    made_up = []
    for liar in ("vision", "operator", "ann", "edge"):
        with Watch(secured.session("ann"), secured.domain) as watch:
            assert watch.wait_for(lambda w: not w.nodes(), PATIENCE)    # those of before have left
        session = secured.session(liar)
        made_up += [session.zenoh.liveliness().declare_token(f"@ros2_lv/{secured.domain}/{zid}/{n}/{n}/NN/{rest}")
                    for n, rest in enumerate(("%/%r1/brainstem", "%enclave/%r1/brainstem", "%/%/r1%brainstem",
                                              "%/%%r1/brainstem", "%/%r1%/brainstem"))]
        made_up.append(Node(session, "brainstem", "/r1", secured.domain))
        fence = Node(session, "vision" if liar == "vision" else "rviz2", "/r1", secured.domain)
        # nor a publisher, or a service, that it must not have under the name that it may have
        made_up += [fence, *(fence.publisher(topic, STRING) for topic in ("cmd_vel", "/cmd_vel", "pfc/control")),
                    fence.service("~/get_state_of_it", "lifecycle_msgs/srv/GetState", lambda: None),
                    *(session.zenoh.liveliness().declare_token(
                        f"@ros2_lv/{secured.domain}/{zid}/8/{n}/{kind}/%/%r1/{fence.name}/{topic}/"
                        f"{messages.dds_type(STRING)}/RIHS01_0/::,10:,:,:,,")
                      for n, (kind, topic) in enumerate((("MP", "%r1%cmd_vel"), ("SS", "%r1%pfc%set_parameters"),
                                                         ("SC", "%r1%brainstem%x"))))]
        made_up.append(fence.publisher("vision/objects" if liar == "vision" else "estop", STRING))
        with Watch(secured.session("ann"), secured.domain) as watch:
            assert watch.wait_for(lambda w: fence.fqn in [e.name for e in w.endpoints(kind=names.PUBLISHER)], PATIENCE)
            assert watch.nodes() == [fence.fqn]
            assert {(one.kind, one.topic) for one in watch.endpoints()} == {
                (names.PUBLISHER, "/r1/vision/objects" if liar == "vision" else "/r1/estop")}
        secured.close()


def test_what_will_be_refused_is_said_beforehand(secured, caplog):
    vision = secured.node("vision")
    with caplog.at_level(logging.WARNING, "brain_security"):
        vision.publisher("vision/objects", STRING)
        assert caplog.messages == []
        vision.publisher("motor/command", STRING)
        vision.subscription("goal/text", STRING)
        Node(vision.session, "motor", "/r1", secured.domain)
        Node(vision.session, "vision", "/r1", secured.domain + 1)
    said = "\n".join(caplog.messages)
    assert "the certificate of /r1/vision does not allow /r1/vision to publish /r1/motor/command; the router" in said
    assert "to hear /r1/goal/text" in said and "does not allow a node /r1/motor" in said
    assert f"is for domain {secured.domain}, not {secured.domain + 1}" in said


def test_a_call_without_the_right_ends_at_once_and_says_so(secured):
    kind = "rcl_interfaces/srv/SetParameters"
    vision, came, stop = secured.node("vision"), threading.Event(), threading.Event()
    service = vision.service("~/set_parameters", kind, came.set)

    def serve():
        while not stop.wait(0.02):
            service.answer(lambda request: messages.make(service.type.response, results=[]))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        request = messages.make(service.type.request)
        allowed = secured.node("ann", "cli").client("vision/set_parameters", kind)
        assert list(allowed.call(request, PATIENCE).results) == []
        refused = secured.node("operator", "cli").client("vision/set_parameters", kind)
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

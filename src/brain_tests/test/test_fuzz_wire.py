# SPDX-License-Identifier: Apache-2.0
"""Whatever is on the wire: each parser gives a value or raises the one exception that it says it raises."""
import dataclasses
import itertools
import math
import re
import time

import pytest

from brain_runtime.graph import load_graph
from brain_runtime.contract.inbox import MAX_KEPT
from brain_runtime.hosts.ros_args import fits, parse
from brain_runtime.share import share_directory
from brain_runtime.contract.stepper import Stepper
from brain_tests import hostile, wire_vectors
from brain_tests.fuzzing import fuzz
from brain_wire import messages
from brain_wire import names
from brain_wire.attachment import SIZE, AttachmentProblem, pack, unpack
from brain_wire.goals import Goal
from brain_wire.messages import MessageError
from brain_wire.names import NameProblem

VECTORS = wire_vectors.read()
ALL = {**VECTORS["types"], **VECTORS["parts"]}
TOKENS = [VECTORS["node"], *(v[kind] for v in VECTORS["types"].values() for kind in ("token", "subscription"))]
SERVICES = ("rcl_interfaces/srv/SetParameters", "rcl_interfaces/srv/GetParameters", "rcl_interfaces/srv/ListParameters",
            "lifecycle_msgs/srv/ChangeState", "action_msgs/srv/CancelGoal")


def test_tokens():
    def one(draw):
        token = hostile.changed_text(draw, draw.choice(TOKENS), "///%,:")
        chunks = token.split("/")
        past = chunks[0] == names.TOKEN_SPACE and len(chunks) > 8 and chunks[5] in names._KINDS
        try:
            found = names.parse_token(token)
        except NameProblem as problem:
            assert len(str(problem)) < 400 and str(problem).isprintable()
            return past
        assert found.name.isascii() and found.name.isprintable() and len(token) <= names.MAX_TOKEN
        assert max(found.nid, found.id, found.domain) < 10**names.MAX_DIGITS
        assert found.qos is None or 1 <= found.qos.depth <= names.MOST_DEPTH
        assert len(names.gid(token)) == 16 and len(names.gid(found.token())) == 16 and isinstance(found.type, str)
        return past

    fuzz(one, few=1000)


@pytest.mark.parametrize("token, why", [
    ("@ros2_lv/0/ab/{n}/0/NN/%/%/talker", "numbers"), ("@ros2_lv/{n}/ab/0/0/NN/%/%/talker", "numbers"),
    ("@ros2_lv/0/ab/0/{n}/NN/%/%/talker", "numbers"),
    ("@ros2_lv/0/ab/0/1/MP/%/%/talker/%x/std_msgs::msg::dds_::String_/RIHS01_0/::,{n}:,:,:,,", "unknown value"),
    ("@ros2_lv/0/ab/\u0663/0/NN/%/%/talker", "plain text"), ("@ros2_lv/0/ab/0/0/NN/%/%/ta\x1b[2Jlker", "plain text"),
    ("@ros2_lv/0/ab/0/0/NN/%/%/ta\ud800lker", "plain text"), ("@ros2_lv/0/ab/0/0/NN/%/%/" + "a" * 10**6, "plain text"),
    ("@ros2_lv/0/ab/0/0/NN/%/%%r1/talker", "as ROS 2 allows"), ("@ros2_lv/0/ab/0/0/NN/%/%/%r1%talker", "as ROS 2"),
    ("@ros2_lv/0/ab/0/1/MS/%/%/talker/%[x]/t/h/::,1:,:,:,,", "topic as ROS 2")])
def test_tokens_that_have_ended_a_brain(token, why):
    with pytest.raises(NameProblem, match=why):
        names.parse_token(token.replace("{n}", "9" * 1000))


def test_an_absurd_depth_is_cut():
    assert names.decode_qos("::,99999999999999999999:,:,:,,").depth == names.MOST_DEPTH


def test_names_and_domains(monkeypatch):
    def one(draw):
        name = hostile.changed_text(draw, draw.choice(("/r1/vision/objects", "~/get_state", "vision", "/a/b/c/d")), "/")
        past = bool(name) and "//" not in name
        for look in (lambda: names.expand(name, "/r1", "node"), lambda: names.absolute(name),
                     lambda: names.check_name(name, "name")):
            try:
                found = look()
            except NameProblem as problem:
                assert len(str(problem)) < 400 and str(problem).isprintable()
            else:
                assert found.isascii() and len(found) <= len(name) + 20
        if "\0" not in name:
            given = draw.choice((name, "7", "9" * 5000, "\u0663"))
            monkeypatch.setenv("ROS_DOMAIN_ID", messages.clip_utf8(given, 9999))
            try:
                assert names.domain_id() >= 0
            except NameProblem as problem:
                assert len(str(problem)) < 400
        return past

    fuzz(one)


def test_attachments():
    def one(draw):
        data = pack(draw.randrange(-2**63, 2**63), draw.randrange(-2**63, 2**63), draw.randbytes(16))
        if draw.random() < 0.9:
            data = hostile.changed_bytes(draw, data, resize=draw.random() < 0.5)
        try:
            assert len(bytes(unpack(data))) == SIZE
        except AttachmentProblem:
            return len(data) == SIZE
        return True

    fuzz(one, few=1000)


def test_payloads():
    """Every type of ours and the standard ones in use, from real vectors and from messages with odd numbers."""
    kinds = [*ALL, *(f"{service}{end}" for service in SERVICES for end in ("_Request", "_Response"))]
    turn = itertools.cycle(kinds)

    def one(draw):
        name = next(turn)
        sound = bytes.fromhex(ALL[name]["cdr"]) if name in ALL and draw.random() < 0.5 else messages.encode(
            hostile.any_message(draw, name))
        data = hostile.changed_bytes(draw, sound)
        past = len(data) >= 4 and not data[0] and data[1] <= 1
        try:
            message = messages.decode(data, name)
        except MessageError as error:
            assert name in str(error) and len(str(error)) < 1000
            return past
        again = messages.decode(messages.encode(message), name)     # what was read can be said
        assert messages.encode(again) == messages.encode(message)
        return past

    fuzz(one, few=1000, seeds=True)


@pytest.mark.parametrize("name", ["vision", "language", "place", "pfc", "goals", "motor", "brainstem", "introspection",
                                  "world", "camera"])
def test_regions_outlive_any_message(name):
    """Each region of the graph steps on messages of the right types that say anything, and what it says can be sent."""
    path = share_directory("brain") / "config" / "brain.graph.yaml"
    spec = next(s for s in load_graph(path, "arena").regions if s.name == name)
    region = spec.load()(name)
    region.configure({})
    stepper = Stepper(region)
    region.activate()
    region.wanted = frozenset(n for n, port in region.publishes().items() if port.on_demand)
    now = [1000.0]

    def one(draw):
        now[0] += draw.choice((0.001, 0.02, 0.05, 0.5))
        for port_name, port in stepper.inputs.items():
            if draw.random() < 0.5:
                message = hostile.picture(draw) if port.type.endswith("/Image") and draw.random() < 0.7 else \
                    hostile.any_message(draw, port.type, draw.choice((0.0, 0.05, 0.3)))
                stepper.offer(port_name, messages.decode(messages.encode(message), port.type), now[0])
        for action, slot in stepper.goals.items():
            if draw.random() < 0.2 and len(slot.goals) < 8:
                request = hostile.any_message(draw, region.actions()[action].types.goal)
                slot.offer(Goal(draw.randbytes(16), request), now[0])
            for goal in list(slot.goals.values()):
                if draw.random() < 0.1:
                    slot.offer(dataclasses.replace(goal, canceling=True), now[0])
        for port, message in stepper.step(now[0], now[0]):
            if hasattr(message, "__msgtype__"):
                messages.encode(message)
        assert all(len(slot.each(now[0], math.inf)) <= MAX_KEPT for slot in stepper.slots.values())
        return True

    fuzz(one, few=150, seeds=True)


def test_what_does_not_fit_is_named_by_the_encoder():
    trace = messages.make("brain_interfaces/msg/Trace", wanted_linear=1e308)
    with pytest.raises(MessageError, match="Trace: wanted_linear is '1e.308', which does not fit float32"):
        messages.encode(trace)
    seen = messages.make("brain_interfaces/msg/DetectedObjects", objects=[
        messages.make("brain_interfaces/msg/DetectedObject"), messages.make("brain_interfaces/msg/DetectedObject",
                                                                            color=300)])
    with pytest.raises(MessageError, match=r"objects\[1\].color is '300', which does not fit uint8"):
        messages.encode(seen)
    with pytest.raises(MessageError, match="hazard: .*too large for float32"):
        messages.make("brain_interfaces/msg/Control", hazard=[1e308] * 36)


def test_time_of_a_hostile_regular_expression():
    """A pattern of many wildcards in a parameter file, which a regular expression compares for ever."""
    begin = time.monotonic()
    found, _ = parse(["--ros-args", "-p", "/" + "*a" * 30 + ":rate:=1.0"])
    assert found.parameters("a" * 200 + "b", "/") == {} and found.parameters("a" * 200, "/") == {"rate": 1.0}
    assert time.monotonic() - begin < 20.0


def test_patterns_of_names():
    def by_expression(pattern, fqn):
        expression = re.escape("/" + pattern.strip("/")).replace(r"/\*\*", r"(/\w+)*").replace(r"\*", r"\w+")
        return re.fullmatch(expression, fqn) is not None

    def one(draw):
        fqn = "".join(f"/{draw.choice(('a', 'ab', 'b1', 'a_b'))}" for _ in range(draw.randint(1, 3)))
        pattern = "/".join(draw.choice(("*", "**", "a", "a*", "*b", "ab", "a*b", "**a"))
                           for _ in range(draw.randint(1, 3)))
        assert fits(pattern, fqn) == by_expression(pattern, fqn), (pattern, fqn)
        return by_expression(pattern, fqn)

    fuzz(one, share=0.05)

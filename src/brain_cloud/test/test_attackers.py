# SPDX-License-Identifier: Apache-2.0
"""Who asks much, or what takes long to read: bounded before it is read, and no other robot waits for it."""
from __future__ import annotations

import json
import threading

import pytest
import zenoh
from zenoh.handlers import Callback

from brain_edge.messages import answering, envelope
from brain_edge.models.model_file import ModelProblem, check_model
from brain_edge.processes.settings import ZENOH
from brain_edge.schema import FormProblem, read_json, values_in
from brain_security.fleet_keys import blobs, models, orders, up
from brain_wire import open_session
from brain_wire.session import Elsewhere


from model_stage import with_length

HEAD = {"format": 1, "from": "mallory", "to": "cloud", "incarnation": "0" * 16, "epoch": None, "streams": []}


def test_values_are_counted_as_json_has_them():
    texts = ["1", '"a,[{"', "[]", "{}", "[[]]", "[{}]", '[""]', '["\\"", ","]', '["\\\\", 1]', '["\\\\\\",", 1]',
             '{"a": {"b,": [1, 2.5, {"c": null}]}, "d\\\\": "[,]"}', '{"a": [], "b": {}, "c": [[], [{}]]}']
    count = lambda value: 1 + sum(map(count, value.values() if isinstance(value, dict) else value  # noqa: E731
                                      if isinstance(value, list) else ()))
    assert [values_in(text) for text in texts] == [count(json.loads(text)) for text in texts]


def test_text_that_takes_long_to_read_is_refused_before_it_is_read(monkeypatch):
    """Nothing is made of it: what reads is not even called."""
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was read"))
    many = 300_000
    texts = {"objects": b"[" + b"{}," * many + b"{}]", "numbers": b"[" + b"1," * many + b"1]",
             "hidden behind a text": b'["\\\\",' + b"[]," * many + b"1]", "keys": b'{"a":1' + b',"a":1' * many + b"}",
             "in wide letters": ("[" + "{},[" * many).encode("utf-16"), "quotes": b'"",' * many,
             "not closed": b"[{}" + b",{}" * many + b'"' * 2}
    told = {}
    for name, text in texts.items():
        try:
            read_json(text, len(text), 100_000)
        except FormProblem as problem:
            told[name] = str(problem)
    assert told == {**dict.fromkeys(texts, "it holds more than 100000 values"), "in wide letters": told.get(
        "in wide letters", "")} and "no JSON" in told["in wide letters"]


@pytest.mark.parametrize("case", [
    ("F32", [2**62] * 100_000, "overflow"), ("F32", [2**62] * 64, "overflow"), ("F32", [0] + [2**62] * 64, "invalid"),
    (["F32"], [2], "invalid"), ("F32", {}, "invalid"), ("F32", "", "invalid"), ("F32", [2.0], "invalid"),
    ("F32", [True, 2], "invalid"), ("F32", [2, *[1] * 300_000], "has 300001 dimensions, and at most 64 are taken")],
                         ids=range(9))
def test_a_header_s_shape_is_bounded_before_it_is_multiplied(case, tmp_path):
    dtype, shape, why = case
    path = tmp_path / "w.safetensors"
    path.write_bytes(with_length(json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, 8]}}).encode())
                     + b"x" * 8)
    with pytest.raises(ModelProblem, match=why):
        check_model(path)


def test_each_key_has_its_turn_and_a_flood_gives_way_to_others():
    class Query:
        def __init__(self, name):
            self.name = name

        def drop(self):
            gone.append(self.name)

    gone: list[str] = []
    turns = answering.Turns(most=20)
    for number in range(100):
        turns.put("flood", Query(f"f{number}"), 100)
    for robot in range(17):
        turns.put(f"robot{robot}", Query(f"r{robot}"), 10)
    order = []
    while (query := turns.get(0.0)) is not None:
        order.append(query.name)
    assert order == ["f97"] + [f"r{robot}" for robot in range(17)] + ["f98", "f99"]
    assert gone == [f"f{number}" for number in range(97)] and not turns._sizes and turns._bytes == turns._count == 0
    for name in range(10_000):      # names without end
        turns.put(f"name{name}", Query("n"), 2**20)
    assert turns._count == 20


@pytest.mark.slow
def test_nobody_waits_for_who_floods_a_cloud(fleet, until):
    """One robot hands in what takes long to read, again and again; another one is served after one of these at most.

    Counted, not timed: how many of the flood were answered between the other's question and its answer.
    """
    fleet.cloud()
    within = b"{}," * ((envelope.REQUEST - 300) // 3)
    heavy = json.dumps(HEAD).encode().replace(b"[]", b"[" + within + b"{}]")
    large = b"[" + b"{}," * 500_000 + b"{}]"
    floods = {up("mallory"): heavy, orders("mallory"): heavy, models("mallory"): large, blobs("mallory"): large}
    served: list[str] = []

    def ask(session, name, key, payload, done=lambda: None):
        def answered(reply):
            if reply.ok is not None or reply.err.payload.to_bytes() != b"Timeout":
                served.append(name)

        session.zenoh.get(key, Callback(answered, done, indirect=False), payload=payload, timeout=60.0,
                          target=zenoh.QueryTarget.ALL, consolidation=zenoh.ConsolidationMode.NONE)

    def session(name):
        return open_session(f"tcp/127.0.0.1:{fleet.port}", identity=name, patience=60.0, more=ZENOH,
                            elsewhere=Elsewhere())

    def asks(session, name, key=up("robot2")):
        """Has a session ask once; whether it was answered."""
        done = threading.Event()
        ask(session, name, key, json.dumps({**HEAD, "from": "robot2"}).encode(), done.set)
        return done.wait(60.0) and name in served

    with session("mallory") as bad, session("robot2") as good:
        # so that their way to the cloud is known: that takes time of its own, in which nobody answers
        until(lambda: asks(good, "before"))
        for key in floods:
            until(lambda key=key: asks(bad, key, key))
        served.clear()
        for _ in range(80):
            for key, payload in floods.items():
                ask(bad, "bad", key, payload)
        until(lambda: served)
        before = len(served)
        assert asks(good, "good"), fleet.said("cloud")
        between = served[before:].index("good")
        print(before, between, len(served))
        assert between <= 10, served
    assert fleet.robot("robot2")["state"] != "never came"

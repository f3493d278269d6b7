# SPDX-License-Identifier: Apache-2.0
"""The ZENOH_* variables, and what they are for.

Our regions as peers of each other under rmw_zenoh's own settings, and as clients of two routers of which one dies.
"""
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from brain_runtime import FEATURE, LATCHED
from brain_runtime.supervision.supervised_brain import router_child
from brain_wire import messages
from brain_wire import NoRouter, SessionProblem, open_node, open_session
from brain_wire.router import Router, is_router
from brain_wire.session import session_config

FEATURES, STRING = "brain_interfaces/msg/SensorFeatures", "std_msgs/msg/String"
PATIENCE = 120.0     # s
REGIONS = '''
from brain_runtime import FEATURE, LATCHED, In, Out, Region

FEATURES = "brain_interfaces/msg/SensorFeatures"

class First(Region):
    rate = 10.0
    heard = In("in", FEATURES, FEATURE, trigger=True, device=True)
    said = Out("between", FEATURES, FEATURE)

    def step(self, inbox, state, dt, rng):
        return ({"said": inbox.get("heard")} if inbox.new("heard") else {}), state

class Second(Region):
    rate = 10.0
    heard = In("between", FEATURES, FEATURE, trigger=True)
    goal = In("goal/text", "std_msgs/msg/String", LATCHED, device=True)
    said = Out("out", FEATURES, FEATURE)

    def step(self, inbox, state, dt, rng):
        if not inbox.new("heard"):
            return {}, state
        goal = inbox.get("goal")
        return {"said": self.said(source="" if goal is None else goal.data, hazard=inbox.get("heard").hazard)}, state
'''


def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def session_file(folder, endpoint):
    """A session's settings as rmw_zenoh_cpp has them, but for the router's port."""
    file = folder / "session.json5"
    file.write_text("// as rmw_zenoh_cpp\n" + json.dumps({
        "mode": "peer", "connect": {"endpoints": [endpoint]}, "listen": {"endpoints": ["tcp/localhost:0"]},
        "scouting": {"multicast": {"enabled": False}, "gossip": {
            "enabled": True, "multihop": False, "target": {"router": ["router", "peer"], "peer": ["router"]},
            "autoconnect": {"router": [], "peer": ["router", "peer"]}}},
        "timestamping": {"enabled": {"router": True, "peer": True, "client": True}},
        "queries_default_timeout": 600000}))
    return file


def router_file(folder, endpoint):
    """A router's settings as rmw_zenohd has them, but for the address."""
    file = folder / "router.json5"
    file.write_text(json.dumps({
        "mode": "router", "listen": {"endpoints": [endpoint]}, "scouting": {
            "multicast": {"enabled": False}, "gossip": {
                "enabled": True, "target": {"router": ["router", "peer"], "peer": ["router"]},
                "autoconnect": {"router": [], "peer": ["router", "peer"]}}},
        "timestamping": {"enabled": {"router": True, "peer": True, "client": True}},
        "routing": {"router": {"peers_failover_brokering": False}}, "queries_default_timeout": 600000}))
    return file


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in list(os.environ):
        if name.startswith("ZENOH_") or name == "BRAIN_ROUTER":
            monkeypatch.delenv(name)


@pytest.fixture
def spawn(tmp_path):
    """Starts ``python -m ...`` with more variables; what it writes lies in ``log``."""
    (tmp_path / "regions.py").write_text(REGIONS)
    children = []

    def start(*argv, **variables):
        log = tmp_path / f"{len(children)}.log"
        child = subprocess.Popen([sys.executable, "-m", *argv], stdout=log.open("wb"), stderr=subprocess.STDOUT, env={
            **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), *sys.path])), **variables})
        child.log = log
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)


# -- settings --------------------------------------------------------------------------------------------------------


def test_a_file_replaces_our_settings_and_the_override_comes_last(tmp_path, monkeypatch):
    assert json.loads(session_config()[0].get_json("mode")) == "client"
    monkeypatch.setenv("ZENOH_SESSION_CONFIG_URI", str(session_file(tmp_path, "tcp/10.0.0.1:7447")))
    config, where, _ = session_config()
    assert json.loads(config.get_json("mode")) == "peer" and where == "tcp/10.0.0.1:7447"
    assert json.loads(config.get_json("connect/endpoints")) == ["tcp/10.0.0.1:7447"]
    assert json.loads(config.get_json("transport/link/tx/lease")) != 2000    # nothing of ours is left
    monkeypatch.setenv("BRAIN_ROUTER", "tcp/10.0.0.2:7447")
    config, where, _ = session_config()
    assert json.loads(config.get_json("connect/endpoints")) == ["tcp/10.0.0.2:7447"] and where == "tcp/10.0.0.2:7447"
    assert json.loads(session_config("tcp/10.0.0.3:7447")[0].get_json("connect/endpoints")) == ["tcp/10.0.0.3:7447"]
    monkeypatch.setenv("ZENOH_CONFIG_OVERRIDE", 'mode="client"; connect/endpoints=["tcp/10.0.0.4:7447"]')
    config, *_ = session_config("tcp/10.0.0.3:7447")
    assert json.loads(config.get_json("mode")) == "client"
    assert json.loads(config.get_json("connect/endpoints")) == ["tcp/10.0.0.4:7447"]


@pytest.mark.parametrize("name, value, says", [
    ("ZENOH_CONFIG_OVERRIDE", "mode", "'mode' must read key=value"),
    ("ZENOH_CONFIG_OVERRIDE", "no/such/key=1", "Zenoh does not take no/such/key=1"),
    ("ZENOH_SESSION_CONFIG_URI", "/nowhere.json5", "cannot use /nowhere.json5"),
    ("ZENOH_ROUTER_CHECK_ATTEMPTS", "often", "is 'often'; it must be a whole number")])
def test_what_cannot_be_used_is_named(monkeypatch, name, value, says):
    monkeypatch.setenv(name, value)
    with pytest.raises(SessionProblem) as problem:
        open_session("tcp/127.0.0.1:9", patience=0)
    assert name in str(problem.value) and says in str(problem.value)


def test_the_routers_file_and_the_override_of_both(tmp_path, monkeypatch):
    one, other = (f"tcp/127.0.0.1:{port()}" for _ in range(2))
    monkeypatch.setenv("ZENOH_ROUTER_CONFIG_URI", str(router_file(tmp_path, one)))
    with Router():
        assert is_router(one)
    monkeypatch.setenv("ZENOH_CONFIG_OVERRIDE", f'listen/endpoints=["{other}"]')
    with Router():
        assert not is_router(one) and is_router(other)


# -- a router that is not there --------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempts, looks", [(None, 1), ("2", 2), ("-1", 0)])
def test_a_peer_looks_for_a_router_and_goes_on_without(tmp_path, monkeypatch, caplog, attempts, looks):
    monkeypatch.setenv("ZENOH_SESSION_CONFIG_URI", str(session_file(tmp_path, f"tcp/127.0.0.1:{port()}")))
    if attempts:
        monkeypatch.setenv("ZENOH_ROUTER_CHECK_ATTEMPTS", attempts)
    with caplog.at_level(logging.WARNING), open_session() as session:
        assert not session.linked
    said = [record.getMessage() for record in caplog.records if "no Zenoh router after" in record.getMessage()]
    assert len(said) == bool(looks) and all(f"after {looks} looks" in text for text in said)


def test_a_peer_waits_for_ever_where_it_is_told_so(tmp_path, monkeypatch):
    endpoint = f"tcp/127.0.0.1:{port()}"
    monkeypatch.setenv("ZENOH_SESSION_CONFIG_URI", str(session_file(tmp_path, endpoint)))
    monkeypatch.setenv("ZENOH_ROUTER_CHECK_ATTEMPTS", "0")
    stop = threading.Event()
    stop.set()
    with pytest.raises(NoRouter, match="stopped while looking"):
        open_session(stop=stop)
    later = threading.Timer(1.0, lambda: routers.append(Router([endpoint])))
    routers: list = []
    later.start()
    try:
        with open_session() as session:
            assert session.zenoh.info.routers_zid()
    finally:
        later.join()
        routers[0].close()


# -- whole brains, small -----------------------------------------------------------------------------------------------


class Chain:
    """A message that goes in at the first region and comes out at the second."""

    def __init__(self, node):
        self._in = node.publisher("in", FEATURES, FEATURE)
        self._out = node.subscription("out", FEATURES, FEATURE)
        self._number = 0

    def comes_through(self):
        """The answer to a message of its own, or None."""
        self._number += 1
        self._in.publish(messages.make(FEATURES, hazard=np.full(36, self._number, np.float32)))
        for answer in self._out.messages(timeout=0.3):
            if answer.hazard[0] == self._number:
                return answer
        return None


def test_regions_as_peers_under_rmw_zenohs_settings_outlive_its_router(tmp_path, monkeypatch, spawn):
    endpoint, domain = f"tcp/127.0.0.1:{port()}", str(port() % 200)
    router = spawn("brain_wire.router", ZENOH_ROUTER_CONFIG_URI=str(router_file(tmp_path, endpoint)))
    until(lambda: is_router(endpoint), "the router")
    peers = dict(ZENOH_SESSION_CONFIG_URI=str(session_file(tmp_path, endpoint)), ROS_DOMAIN_ID=domain)
    for name in ("First", "Second"):
        spawn("brain_runtime.process", "--class", f"regions:{name}", **peers)
    for name, value in peers.items():
        monkeypatch.setenv(name, value)
    with open_node("tester", patience=PATIENCE) as node:
        node.publisher("goal/text", STRING, LATCHED).publish(messages.make(STRING, data="a goal"))
        chain = Chain(node)
        until(lambda: (answer := chain.comes_through()) is not None and answer.source == "a goal", "the regions")
        router.kill()
        router.wait()
        until(lambda: not node.session.zenoh.info.routers_zid(), "the router's end")
        assert sum(chain.comes_through() is not None for _ in range(5)) >= 4


@pytest.mark.parametrize("host, others", [("0.0.0.0", True), ("127.0.0.1", True), ("0.0.0.0", False)])
def test_a_router_that_is_opened_to_a_network_is_reached_where_the_regions_look_for_it(spawn, host, others):
    own = port()
    opened = port() if others else own
    child = router_child(f"tcp/localhost:{own}", [f"tcp/{host}:{opened}"])
    spawn(*child.argv[2:])
    for number in (own, opened):
        until(lambda at=number: is_router(f"tcp/localhost:{at}"), f"the router at {number}")


def test_clients_of_two_linked_routers_go_on_with_the_other(monkeypatch, spawn):
    one, other = (f"tcp/127.0.0.1:{port()}" for _ in range(2))
    first = spawn("brain_wire.router", "--listen", one)
    until(lambda: is_router(one), "the first router")
    spawn("brain_wire.router", "--listen", other, "--connect", one)
    until(lambda: is_router(other), "the second router")
    domain = str(port() % 200)

    def either(*endpoints):
        return dict(ZENOH_CONFIG_OVERRIDE=f"connect/endpoints={json.dumps(endpoints)}", ROS_DOMAIN_ID=domain)

    spawn("brain_runtime.process", "--class", "regions:First", **either(one, other))
    spawn("brain_runtime.process", "--class", "regions:Second", **either(other, one))
    for name, value in either(one, other).items():
        monkeypatch.setenv(name, value)
    with open_node("tester", patience=PATIENCE) as node:
        chain = Chain(node)
        until(chain.comes_through, "the regions")
        first.kill()
        first.wait()
        until(chain.comes_through, "the regions, through the other router")
        assert all(chain.comes_through() is not None for _ in range(3))

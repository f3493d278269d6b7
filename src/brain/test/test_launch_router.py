# SPDX-License-Identifier: Apache-2.0
"""Which router launch starts, without launch: real routers and ports, and settings as the environment has them."""
import json
import os
import socket
import stat
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
import zenoh

from brain import launch_router, zenoh_probe
from brain.launch_router import plan
from brain.preflight import LaunchProblem
from brain.zenoh_probe import who
from brain.zenoh_settings import ZenohSettingsProblem, json5, read
from brain_wire.router import Router, is_router

PATIENCE = 240.0     # s; only ends a hang
ZENOH = {"RMW_IMPLEMENTATION": "rmw_zenoh_cpp"}
# As rmw_zenoh_cpp writes its own, with all that JSON5 allows.
SETTINGS = r"""
/// A configuration // of a kind
{
  /* the mode: "peer" */
  mode: "%(mode)s",
  connect: { endpoints: ["tcp/localhost:%(connect)d", ], timeout_ms: { router: -1, peer: -1, client: 0 }, },
  'listen': { endpoints: {router: ['tcp/[::1]:%(listen)d'], peer: ["tcp/localhost:0"]} },
  scouting: { multicast: { enabled: false, interface: "a // \" b" } },
  queries_default_timeout: 600000,
}
"""


def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def override(*ports):
    return {"ZENOH_CONFIG_OVERRIDE": "connect/endpoints=" + json.dumps([f"tcp/localhost:{p}" for p in ports])}


@pytest.fixture
def rmw_zenohd(tmp_path, monkeypatch):
    """A package rmw_zenoh_cpp whose rmw_zenohd says how it was started."""
    index = tmp_path / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    (index / "rmw_zenoh_cpp").touch()
    program = tmp_path / "lib" / "rmw_zenoh_cpp" / "rmw_zenohd"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    return program


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setenv("AMENT_PREFIX_PATH", "")


# -- who is there -----------------------------------------------------------------------------------------------------

def test_routers_peers_and_others_are_told_apart(monkeypatch):
    with ExitStack() as stack:
        number = port()
        assert who("tcp", "localhost", number) == zenoh_probe.NOBODY
        with Router([f"tcp/127.0.0.1:{number}"]):
            assert who("tcp", "localhost", number) == zenoh_probe.ROUTER
            for _ in range(50):     # and does not mind being asked
                assert who("tcp", "127.0.0.1", number) == zenoh_probe.ROUTER
            assert is_router(f"tcp/127.0.0.1:{number}")
        config = zenoh.Config()
        number = port()
        for key, value in {"mode": '"peer"', "listen/endpoints": f'["tcp/127.0.0.1:{number}"]',
                           "scouting/multicast/enabled": "false"}.items():
            config.insert_json5(key, value)
        stack.enter_context(zenoh.open(config))
        assert who("tcp", "127.0.0.1", number) == zenoh_probe.PEER
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        monkeypatch.setattr(zenoh_probe, "PATIENCE", 0.2)
        assert who("tcp", "127.0.0.1", silent.getsockname()[1]) == zenoh_probe.OTHER
        assert who("tls", "127.0.0.1", silent.getsockname()[1]) == zenoh_probe.OTHER


@pytest.mark.parametrize("answer", [b"", b"\x00", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x05\x00\x07\x09\xf0",
                                    b"\xff" * 900])
def test_a_program_that_answers_otherwise(answer):
    code = ("import socket, sys; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
            f"c, _ = s.accept(); c.recv(1024); c.sendall({answer!r}); c.close()")
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert who("tcp", "127.0.0.1", int(server.stdout.readline())) == zenoh_probe.OTHER
    assert server.wait(120) == 0


# -- what the environment says ----------------------------------------------------------------------------------------

def test_a_file_of_zenoh_is_read_as_zenoh_reads_it(tmp_path):
    text = SETTINGS % {"mode": "peer", "connect": 17601, "listen": 17602}
    file = tmp_path / "session.json5"
    file.write_text(text)
    config = zenoh.Config.from_file(str(file))
    ours = json5(text)
    assert ours["connect"]["endpoints"] == json.loads(config.get_json("connect/endpoints"))
    assert ours["scouting"]["multicast"]["interface"] == 'a // " b'
    found = read({"ZENOH_SESSION_CONFIG_URI": f"file://{file}", "ZENOH_ROUTER_CONFIG_URI": str(file),
                  "ZENOH_ROUTER_CHECK_ATTEMPTS": "0"})
    assert found.sessions == ("tcp/localhost:17601",) and found.listen == ("tcp/[::1]:17602",) and found.attempts == 0
    found = read({"ZENOH_SESSION_CONFIG_URI": str(file), **override(17603)})
    assert found.sessions == ("tcp/localhost:17603",) and found.listen == ()
    assert read({}).sessions == ("tcp/localhost:7447",) and read({}).attempts == 1


@pytest.mark.parametrize("text, value", [
    ("{a:1,b:[2,],}", {"a": 1, "b": [2]}), ("'it\\'s \"x\"'", 'it\'s "x"'), ('"it\'s \\"x\\""', 'it\'s "x"'),
    ("[+1, -2, .5, 0xff, true, null, 1e3]", [1, -2, 0.5, 255, True, None, 1000.0]), ("'a\\\nb'", "ab"),
    ('{"a//b": "/*c*/"}', {"a//b": "/*c*/"})])
def test_json5(text, value):
    assert json5(text) == value


@pytest.mark.parametrize("text", ["{", "[1 2]", "{a}", "#", "'a", "", "[" * 100000, "9" * 5000, "{a: 'b' 'c'}"])
def test_what_is_no_json5_is_one_error(text):
    with pytest.raises((ValueError, RecursionError)):
        json5(text)


@pytest.mark.parametrize("environment, says", [
    ({"ZENOH_CONFIG_OVERRIDE": "connect"}, "'connect' must read key=value"),
    ({"ZENOH_CONFIG_OVERRIDE": "connect/endpoints=["}, "with a value in JSON5"),
    ({"ZENOH_CONFIG_OVERRIDE": f"a={'[' * 100000}"}, "ZENOH_CONFIG_OVERRIDE"),
    ({"ZENOH_ROUTER_CHECK_ATTEMPTS": "often"}, "is 'often'; it must be a whole number"),
    ({"ZENOH_SESSION_CONFIG_URI": "/nowhere.json5"}, "cannot read /nowhere.json5"),
    ({"ZENOH_ROUTER_CONFIG_URI": "FILE"}, "is not a configuration of Zenoh")])
def test_settings_that_zenoh_would_not_take(tmp_path, environment, says):
    file = tmp_path / "bad.json5"
    file.write_text("{mode:")
    environment = {name: value.replace("FILE", str(file)) for name, value in environment.items()}
    with pytest.raises(ZenohSettingsProblem, match=says.replace("[", r"\[")):
        plan("auto", {**ZENOH, **environment})


# -- what is done about it --------------------------------------------------------------------------------------------

def test_none_is_started_where_none_is_wanted_or_needed(rmw_zenohd):
    number = port()
    nothing = launch_router.RouterPlan()
    assert plan("false", {**ZENOH, **override(number)}) == nothing == plan("auto", override(number))
    skipped = plan("auto", {**ZENOH, **override(number), "ZENOH_ROUTER_CHECK_ATTEMPTS": "-1"})
    assert skipped.command == () and "ZENOH_ROUTER_CHECK_ATTEMPTS" in skipped.says
    with Router([f"tcp/127.0.0.1:{number}"]):
        for wanted in ("auto", "true"):     # the second of two endpoints has one
            found = plan(wanted, {**ZENOH, **override(port(), number)})
            assert found.command == () and found.says == f"a Zenoh router answers at tcp/localhost:{number} already"


def test_one_that_is_started_listens_where_the_sessions_look_and_on_loopback(rmw_zenohd, tmp_path):
    number = port()
    found = plan("auto", {**ZENOH, **override(number)})
    assert found.command == (str(rmw_zenohd),)
    ((name, value),) = found.environment
    assert name == "ZENOH_CONFIG_OVERRIDE" and read({name: value}).listen[0] == f"tcp/127.0.0.1:{number}"
    assert all("127.0.0.1" in e or "[::1]" in e for e in read({name: value}).listen)
    assert read({name: value}).sessions == (), "a router that connects to itself"
    more = {"ZENOH_CONFIG_OVERRIDE": 'mode="client";' + override(number)["ZENOH_CONFIG_OVERRIDE"]}
    assert plan("auto", {**ZENOH, **more}).environment[0][1].endswith('mode="router"')
    # a file of the sessions alone
    file = tmp_path / "session.json5"
    file.write_text(SETTINGS % {"mode": "client", "connect": number, "listen": 1})
    ((_, value),) = plan("auto", {**ZENOH, "ZENOH_SESSION_CONFIG_URI": str(file)}).environment
    assert value.startswith(f'listen/endpoints=["tcp/127.0.0.1:{number}"')


def test_one_listens_as_its_user_said(rmw_zenohd, tmp_path):
    number = port()
    file = tmp_path / "router.json5"
    file.write_text('{mode: "router", listen: {endpoints: ["tcp/0.0.0.0:%d"]}}' % number)
    told = {**ZENOH, "ZENOH_ROUTER_CONFIG_URI": str(file)}
    found = plan("auto", {**told, **override(number)})
    assert found.command and "listen" not in dict(found.environment)["ZENOH_CONFIG_OVERRIDE"]
    with pytest.raises(LaunchProblem, match="would listen at .*but sessions look for it at tcp/localhost:1;.*agree"):
        plan("auto", {**told, **override(1)})


def test_ours_takes_its_place_where_rmw_zenohd_is_missing(no_package):
    number = port()
    environment = {**ZENOH, **override(number)}
    found = plan("true", environment)
    assert found.command[1:3] == ("-m", "brain_wire.router")
    router = subprocess.Popen(found.command, env={**os.environ, **environment, **dict(found.environment)})
    try:
        until = time.monotonic() + PATIENCE
        while not is_router(f"tcp/127.0.0.1:{number}"):
            assert router.poll() is None and time.monotonic() < until
        listens = {line.split()[1] for line in open(f"/proc/{router.pid}/net/tcp") if line.split()[3] == "0A"}
        assert f"0100007F:{number:04X}" in listens and f"00000000:{number:04X}" not in listens
        assert plan("auto", environment).says.startswith("a Zenoh router answers")
    finally:
        router.terminate()
        router.wait(120)


def test_no_program_for_one(no_package, monkeypatch):
    monkeypatch.setattr(launch_router, "find_spec", lambda name: None)
    with pytest.raises(LaunchProblem, match="no program for a Zenoh router: apt install .*router:=false"):
        plan("auto", {**ZENOH, **override(port())})


def test_a_port_that_something_else_has(rmw_zenohd):
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        with pytest.raises(LaunchProblem, match=f"port {number} is taken by .* no Zenoh router.*ZENOH_CONFIG_OVERRIDE"):
            plan("auto", {**ZENOH, **override(number)})
    code = ("import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
            "c, _ = s.accept(); c.recv(1024)")      # it takes one link, and ends
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    number = int(server.stdout.readline())
    with pytest.raises(LaunchProblem, match=f"port {number} is taken"):
        plan("auto", {**ZENOH, **override(number)})
    server.wait(120)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen(0)
        number = bound.getsockname()[1]
        with socket.create_connection(("127.0.0.1", number)), pytest.raises(LaunchProblem, match=f"{number}"):
            plan("auto", {**ZENOH, **override(number)})     # its queue is full: it does not answer at all


def test_one_elsewhere_cannot_be_started_from_here(rmw_zenohd):
    elsewhere = {**ZENOH, "ZENOH_CONFIG_OVERRIDE": 'connect/endpoints=["tcp/192.0.2.1:7447"]'}
    with pytest.raises(LaunchProblem, match="no Zenoh router answers at tcp/192.0.2.1:7447.*router:=false"):
        plan("auto", elsewhere)
    everywhere = rmw_zenohd.with_name("router.json5")
    everywhere.write_text('{listen: {endpoints: ["tcp/[::]:7447"]}}')
    with pytest.raises(LaunchProblem, match="would listen at|cannot be started from here"):
        plan("auto", {**elsewhere, "ZENOH_ROUTER_CONFIG_URI": str(everywhere)})
    waiting = plan("auto", {**elsewhere, "ZENOH_ROUTER_CHECK_ATTEMPTS": "0"})
    assert waiting.command == () and "wait for it" in waiting.says


def test_one_of_a_secured_brain_needs_its_credentials(rmw_zenohd):
    secured = {**ZENOH, "ZENOH_CONFIG_OVERRIDE": f'connect/endpoints=["tls/localhost:{port()}"]'}
    with pytest.raises(LaunchProblem, match="router.json5"):
        plan("auto", secured)

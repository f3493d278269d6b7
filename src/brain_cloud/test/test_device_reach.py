# SPDX-License-Identifier: Apache-2.0
"""What a device's order cannot reach: goals and pictures under whatever name they are opened, and the owner's files."""
from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ovens import Manager

from brain_edge.devices.models import read_device, read_model
from brain_edge.devices.reserved import Topics
from brain_edge.owners_file import OwnersFileProblem, read_files
from brain_wire import open_node, open_session
from brain_wire.router import Router, free_port

GOAL = "go to the red ball"
TEXT, FLAG = "std_msgs/msg/String", "std_msgs/msg/Bool"


@pytest.fixture
def port(monkeypatch):
    """A port and a domain of its own."""
    found = free_port()
    monkeypatch.setenv("ROS_DOMAIN_ID", str(found % 200))
    for name in ("BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def run():
    """Runs ordered devices, which are ended at the end."""
    made = []

    def begin(devices, desired, files, router=None, namespace=""):
        made.append(Manager(router, namespace, files=files))
        made[-1].want({one.name: one for one in devices}, desired)
        return made[-1]

    yield begin
    for one in made:
        one.stop()


def ordered(name, protocol, settings, visitor, kind="string"):
    return read_device(name, {"model": "m", "protocol": protocol, "settings": settings, "properties": {
        "say": {"visitor": visitor, "period": 0.1}}}, read_model({"properties": {
            "say": {"type": kind, "access": "ReadWrite"}}}))


def test_before_the_first_word_it_is_known_who_takes_commands(port):
    """However busy the machine is: what the router tells of others comes some time after it was asked for."""
    router = f"tcp/127.0.0.1:{port}"
    with Router([router]), open_node("language", "/r1", router=router, patience=30.0) as region:
        region.publisher("brain/heartbeat", "brain_interfaces/msg/Heartbeat")
        region.subscription("/voice", TEXT)
        with open_node("device_new", "/r1/goal", router=router, patience=30.0) as node:
            topics = Topics(node)
            topics.publisher("/voice", TEXT)
            topics.publisher("b", TEXT)
            assert list(topics.look()) == ["/voice"]


@pytest.mark.slow
def test_goals_are_neither_spoken_nor_heard_under_any_name(port, run, until):
    router, space = f"tcp/127.0.0.1:{port}", "/r1/goal"

    def talker(name, settings, topic, heard="nothing", kind=TEXT):
        return ordered(name, "ros-topic", settings, {"topic": heard, "type": kind, "command": {
            "topic": topic, "type": kind}}, "string" if kind == TEXT else "boolean")

    refused = [talker("in-the-brains", {}, "text"),                             # which has the namespace /r1/goal
               talker("in-its-own", {"namespace": "goal"}, "text"), talker("private", {}, "~/goal/text"),
               talker("absolute", {"namespace": "/x"}, "/goal/text"), talker("renamed", {}, "/voice"),
               talker("heard", {}, "b", heard="text"), talker("renamed-and-heard", {}, "c", heard="/voice"),
               talker("released", {}, "/button", kind=FLAG, heard="d")]
    well = talker("lamp", {}, "/lamp/set", heard="/lamp/is")
    process = subprocess.Popen([sys.executable, "-m", "brain_wire.router", "--listen", router])
    try:
        with (open_session(router, patience=30.0) as session,
              open_node("language", "/r1", router=router, patience=30.0) as region):
            region.publisher("brain/heartbeat", "brain_interfaces/msg/Heartbeat")
            region.subscription("/voice", TEXT)     # as a robot's profile names goal/text
            region.subscription("/button", FLAG)    # and estop/release
            said, topics = [], []
            session.zenoh.declare_subscriber("**", lambda sample: said.append(str(sample.key_expr)))
            session.zenoh.liveliness().declare_subscriber(
                "@ros2_lv/**", lambda sample: topics.append(str(sample.key_expr)), history=True)
            manager = run([*refused, well], {one.name: {"say": GOAL if one.name != "released" else True}
                                             for one in [*refused, well]}, {}, router, space)
            told, why = {}, lambda name: manager.status(name).get("why")
            until(lambda: manager.twins() and told.update({
                one.name: why(one.name) for one in refused if why(one.name)})
                    or len(told) == len(refused), lambda: told)
            until(lambda: manager.twins() and any("/lamp/set/" in key for key in said), lambda: manager.twins())
            heard = [key for key in said if "String_" in key or "Bool_" in key]
            assert {key.split("/")[1] for key in heard} == {"lamp"}, heard
            # nor is a publisher or a subscription of it there, where the name alone says whose topic it is
            assert not [key for key in topics if "device_" in key and "goal%text" in key]
            assert {name: why for name, why in told.items()
                    if "brain's own" not in why and "told what to do" not in why} == {}
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_an_order_uses_the_files_that_the_owner_named_and_sends_them_where_they_belong(tmp_path, run, until):
    pytest.importorskip("paho.mqtt.client")
    secret, other, about = tmp_path / "secret.txt", tmp_path / "other.key", tmp_path / "files.yaml"
    secret.write_text("opensesame")
    other.write_text("a private key")
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        about.write_text(f"broker: {{path: {secret}, hosts: ['127.0.0.1:{port}']}}\n"
                         f"by-port: {{path: {other}, hosts: [127.0.0.1]}}\n"
                         f"by-tls: {{path: {other}, hosts: ['127.0.0.1:{port}'], tls: true}}\n"
                         f"elsewhere: {{path: {other}, hosts: [b.local]}}\n")

        def serve():
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                with link:
                    heard.append(link.recv(4096))

        threading.Thread(target=serve, daemon=True).start()
        where = {"host": "127.0.0.1", "port": port, "username": "u"}

        def client(name, **settings):
            return ordered(name, "mqtt", {**where, **settings}, {"topic": "a", "command": "b"})

        refused = {"a-path": ({"password_file": str(other)}, "an order says the name that the robot's owner gave"),
                   "home": ({"password_file": "~/.ssh/id_rsa"}, "an order says the name"),
                   "a-ca": ({"tls": True, "ca": str(other)}, "ca is"),
                   "unknown": ({"password_file": "none"}, "there are broker, by-port, by-tls, elsewhere: see "),
                   "another-host": ({"password_file": "elsewhere"}, f"is for b.local, not for '127.0.0.1:{port}'"),
                   "another-port": ({"password_file": "by-port"}, f"is for 127.0.0.1, not for '127.0.0.1:{port}'"),
                   "in-the-clear": ({"password_file": "by-tls"}, "by TLS only")}
        manager = run([client("well", password_file="broker"), *(client(n, **s) for n, (s, _) in refused.items())], {},
                      read_files(about))
        told, why = {}, lambda name: manager.status(name).get("why")
        until(lambda: manager.twins() and told.update({
            name: why(name) for name in refused if why(name)}) or len(told) == len(refused),
              lambda: (told, manager.twins()))
        assert {name: why for name, why in told.items() if refused[name][1] not in why} == {}
        until(lambda: manager.twins() and any(b"opensesame" in one for one in heard), lambda: (heard, manager.twins()))
        server.shutdown(socket.SHUT_RDWR)
    assert not any(b"private key" in one for one in heard)


def test_a_list_of_files_that_cannot_be_meant_so_is_refused_in_a_line(tmp_path):
    path = Path(tmp_path / "files.yaml")
    for text, why in [("- a\n", "must be an object"), ("a: /etc/x\n", "a must be an object"),
                      ("a: {path: etc/x, hosts: [b]}\n", "must begin with / or ~"), ("A!: {path: /x}\n", "must read"),
                      ("a: {hosts: [b]}\n", "path is missing")]:
        path.write_text(text)
        with pytest.raises(OwnersFileProblem, match="name each file with its path and hosts") as told:
            read_files(path)
        assert why in str(told.value) and "\n" not in str(told.value), text

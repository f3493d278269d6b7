# SPDX-License-Identifier: Apache-2.0
"""Who belongs: enrolment, renewal and revocation, with real certificates, routers and processes."""
from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest
import zenoh
from typer.testing import CliRunner

from brain.cli import app
from brain_cloud.enrolment.authority import LATE, Authority, Refusal
from brain_cloud.enrolment.server import TRIES, EnrolmentServer
from brain_cloud.router_reload import RouterReload
from brain_edge.enrolment import tokens
from brain_edge.enrolment.client import EnrolmentClient, NoDoor, Refused, door_of
from brain_edge.enrolment.credentials import enroll, read_pair
from brain_edge.enrolment.names import FILE
from brain_edge.enrolment.renewal import Renewal
from brain_edge.processes.settings import ZENOH
from brain_security.certificates import Pair, make_pair, make_request
from brain_security.fleet_keys import up
from brain_security.folder import read_router, robot_file
from brain_security.members import read_register, robots_of
from brain_wire import open_session
from brain_wire.router import RouterProblem, free_port
from brain_wire.session import Elsewhere


def keys(folder: Path, *words: str) -> str:
    done = CliRunner().invoke(app, ["keys", str(folder), *words])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Keys of a fleet with robot1."""
    keys(tmp_path / "keys", "--node", "robot1", "--operator", "ann")
    return tmp_path / "keys"


class Clock:
    """The cloud's, which is put wherever a test wants it."""

    def __init__(self) -> None:
        self.off = 0.0

    def __call__(self) -> float:
        return time.time() + self.off


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def door(folder, clock):
    told: list[str] = []
    authority = Authority(folder, days=3.0, told=lambda robot, person, text: told.append(text), clock=clock)
    opened = EnrolmentServer(authority, [("127.0.0.1", 0)])
    opened.told = told
    opened.authority = authority
    opened.where = ("localhost", opened.ports[0])
    yield opened
    opened.close()


def at_once(seconds: float) -> bool:
    return True


def test_a_token_is_for_one_robot_and_one_key(door, folder, tmp_path):
    text = door.authority.token("robot3", "ann")
    token = tokens.parse(text)
    key, request = make_request("robot3")
    asked = json.dumps({"token": tokens.kept(token.secret), "key": key.decode(), "request": request.decode()})
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "enrolling.json").write_text(asked)       # it was killed before the answer came
    file = enroll(tmp_path / "a", token, door.where, at_once)
    pair = read_pair(file)[0]
    assert pair.name == "/robot3" and pair.key == key and os.stat(file).st_mode & 0o077 == 0
    assert robots_of(folder) == {"robot1": "/robot1", "robot3": "/robot3"}
    assert token.secret in text and token.secret not in (folder / "members.json").read_text()
    # The answer was lost: the same key gets the same certificate, and another one nothing.
    file.unlink()
    (tmp_path / "a" / "enrolled").unlink()
    (tmp_path / "a" / "enrolling.json").write_text(asked)
    assert read_pair(enroll(tmp_path / "a", token, door.where, at_once))[0].certificate == pair.certificate
    with pytest.raises(Refused, match="was used up with another key"):
        enroll(tmp_path / "b", token, door.where, at_once)
    # With the same token again, as after a restart of the robot, nothing is asked.
    door.close()
    assert enroll(tmp_path / "a", token, door.where, at_once) == file
    assert door.told == ["gave a token with which robot3 can enrol within 24 h", "robot3 has enrolled"]
    # What has enrolled stays when keys are made again.
    assert "a fleet of robot1, robot3, robot4" in keys(folder, "--node", "robot4")


def test_who_does_not_belong_gets_nothing(door, folder, clock, tmp_path):
    authority, wrong = door.authority, {}
    good = tokens.parse(authority.token("robot3", "ann"))

    def refused(name: str, why: str, work) -> None:
        try:
            work()
            wrong[name] = "nothing is refused"
        except (Refused, Refusal, NoDoor, tokens.TokenProblem) as problem:
            if why not in str(problem):
                wrong[name] = str(problem)

    fresh = iter(range(100))
    go = lambda token, where=door.where: enroll(tmp_path / f"x{next(fresh)}", token, where, at_once)  # noqa: E731
    keys(tmp_path / "other", "--node", "robot1")
    other = EnrolmentServer(Authority(tmp_path / "other"), [("127.0.0.1", 0)])
    refused("another cloud", "is not the cloud that gave this token", lambda: go(good, ("localhost", other.ports[0])))
    other.close()
    refused("another robot", "the token is wrong", lambda: go(good._replace(robot="robot4")))
    refused("another secret", "the token is wrong", lambda: go(good._replace(secret="A" * 22)))
    refused("no token", "this is no token", lambda: tokens.parse("robot3"))
    refused("a name that is kept", "this is no token", lambda: tokens.parse(str(good._replace(robot="cloud"))))
    refused("who is there", "robot1 belongs to this fleet already", lambda: authority.token("robot1", "ann"))
    refused("no robot's name", "cannot be called", lambda: authority.token("Robot 3", "ann"))
    refused("for ever", "at most 720 hours", lambda: authority.token("robot4", "ann", float("inf")))
    refused("no secured cloud", "is not secured", lambda: door_of("tcp/localhost:7460"))
    clock.off = 25 * 3600
    refused("too late", "the token for robot3 is too old", lambda: go(good))
    clock.off = 0.0
    authority.token("robot3", "ann")
    refused("replaced", "the token is wrong, or was replaced", lambda: go(good))
    for _ in range(int(TRIES)):
        refused("guessed", "token", lambda: go(good))
    refused("guessed too often", "too many wrong tokens came from 127.0.0.1", lambda: go(good))
    assert wrong == {} and robots_of(folder) == {"robot1": "/robot1"}
    # Whatever else comes in, the next one is served.
    for text in (b"", b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(door.where) as link:
            link.sendall(text)
    for question in (b"x" * 20_000 + b"\n", b"[]\n", b'{"format": 2, "do": "enroll"}\n', b'{"format": 1, "do": "x"}\n',
                     b'{"format": 1, "do": "renew"}\n', b'{"format": 1, "do": "enroll", "request": "x"}\n'):
        refused(question.decode()[:40], "", lambda: raw(door, question))
    assert set(wrong) == set()
    assert EnrolmentClient(door.where).authority(good) == authority.certificate()


def raw(door: EnrolmentServer, question: bytes) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(door.where) as plain, tls.wrap_socket(plain) as link:
        link.sendall(question)
        raise Refused(json.loads(link.makefile("rb").readline())["problem"])


def test_a_certificate_is_renewed_by_the_clouds_clock_alone(door, folder, clock, tmp_path):
    told: list[str] = []
    renewed: list[bool] = []
    token = tokens.parse(door.authority.token("robot3", "ann"))
    file = enroll(tmp_path / "a", token, door.where, at_once)
    first, authority = read_pair(file)
    renewal = Renewal(file, "robot3", door.where, told.append, lambda: renewed.append(True), threading.Event())
    assert renewal.ask() == 3600.0 and read_pair(file)[0] == first and not renewed      # it lasts
    clock.off = 2.1 * 86400     # less than a third of three days is left
    renewal.ask()
    second = read_pair(file)[0]
    assert renewed and second.ends > first.ends and second.key != first.key
    assert len(told) == 1 and "the clock of robot3 is 2 d 2 h behind its cloud's" in told[0]
    renewal.ask()
    assert len(told) == 1 and read_pair(file)[0] == second
    # It was away for weeks, and its certificate has ended: it is not locked out.
    clock.off = 60 * 86400
    renewal.ask()
    third = read_pair(file)[0]
    assert third.key != second.key
    # It was the cloud's clock that was wrong: what was signed by it has not begun yet, and is not kept.
    clock.off = 0.0
    renewal.ask()
    assert read_pair(file)[0].begins < third.begins
    clock.off += 3 * 86400 + LATE + 60
    with pytest.raises(Refused, match="ended more than 90 days ago"):
        renewal.ask()
    # One of a generation that was revoked, of no robot, or nobody's, gets nothing.
    clock.off = 0.0
    assert door.authority.revoke("robot3", "ann") and not door.authority.revoke("robot9", "ann")
    assert door.authority.revoke("robot3", "ann")       # again, by who missed the answer
    with pytest.raises(Refused, match="robot3 was revoked; `brain fleet enroll robot3`"):
        renewal.ask()
    back = enroll(tmp_path / "b", tokens.parse(door.authority.token("robot3", "ann")), door.where, at_once)
    assert read_pair(back)[0].name == "/robot3.2" and robots_of(folder)["robot3"] == "/robot3.2"
    with pytest.raises(Refused, match="robot3 was revoked"):
        renewal.ask()
    with pytest.raises(Refused, match="'/ann' is no robot of this fleet"):
        Renewal(folder / "ann.json5", "ann", door.where, told.append, bool, threading.Event()).ask()
    keys(tmp_path / "other", "--node", "robot1")
    with pytest.raises((NoDoor, Refused)):
        EnrolmentClient(door.where).renew(read_pair(tmp_path / "other" / "robot1.json5")[0], authority,
                                          make_request("x")[1])


def test_a_robot_that_asks_again_after_the_cloud_was_killed_is_taken_in_anew(folder):
    """Its certificate was written, and that it may come with a new disk was not."""
    def killed(robot: str, person: str) -> None:
        raise KeyboardInterrupt

    _, request = make_request("robot3")
    first = Authority(folder, joins=killed)
    token = tokens.parse(first.token("robot3", "ann"))
    with pytest.raises(KeyboardInterrupt):
        first.enroll("robot3", token.secret, request)
    joined: list[tuple[str, str]] = []
    again = Authority(folder, joins=lambda robot, person: joined.append((robot, person)))
    certificate = again.enroll("robot3", token.secret, request)
    assert again.enroll("robot3", token.secret, request) == certificate
    assert joined == [("robot3", "ann")]        # once


def test_a_kill_between_two_files_leaves_nobody_half_revoked(door, folder):
    rules = (folder / "router.json5").read_bytes()
    door.authority.revoke("robot1", "ann")
    assert b'"/robot1"' not in (folder / "router.json5").read_bytes()
    (folder / "router.json5").write_bytes(rules)    # as if it had been killed before the second one
    again = Authority(folder)
    assert b'"/robot1"' not in (folder / "router.json5").read_bytes() and again.revoked("robot1")
    assert CliRunner().invoke(app, ["keys", str(folder), "--node", "robot1"]).exit_code == 1
    assert "robot1" not in robots_of(folder) and read_register(folder).members["robot1"].by == "ann"


def test_the_routers_own_certificate_is_renewed_and_the_door_takes_the_new_one(door, folder, clock):
    token = tokens.parse(door.authority.token("robot3", "ann"))
    before, rules = (folder / "router.crt").read_bytes(), read_router(folder)
    assert not door.authority.renew_router() and 364 < door.authority.router_days() < 366
    clock.off = 310 * 86400.0
    assert door.authority.renew_router() and 364 < door.authority.router_days() < 366
    after = read_router(folder)
    assert after["access_control"] == rules["access_control"] and (folder / "router.crt").read_bytes() != before
    shown = ssl.PEM_cert_to_DER_cert((folder / "router.crt").read_text())
    tls = ssl.create_default_context(cafile=folder / "ca.crt")
    tls.verify_flags |= 0x200000    # it begins in months
    with socket.create_connection(door.where) as plain, tls.wrap_socket(plain, server_hostname="localhost") as link:
        assert link.getpeercert(binary_form=True) == shown
    assert EnrolmentClient(door.where).authority(token) == (folder / "ca.crt").read_bytes()
    (folder / "ca.key").unlink()
    assert "ca.key is not in" in str(door.authority.why_mute) and not door.authority.renew_router()


def test_the_router_is_open_again_after_it_was_killed_or_its_rules_changed_and_a_taken_port_is_named(folder, until):
    port = free_port()
    endpoint = f"tls/127.0.0.1:{port}"

    def process() -> str:
        """The process id of the only router of this test, empty while there is none."""
        return " ".join(found.name for found in Path("/proc").glob("[0-9]*") if str(folder).encode() in command(found))

    def command(found: Path) -> bytes:
        try:
            return (found / "cmdline").read_bytes()
        except OSError:
            return b""

    def joins() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    with contextlib.closing(RouterReload(folder, [endpoint])) as gate:
        first = process()
        assert first and gate.inside == endpoint and joins()
        with pytest.raises(RouterProblem, match=f"{port} (already|is taken)"):
            RouterReload(folder, [endpoint])
        assert process() == first
        os.kill(int(first), signal.SIGKILL)
        until(lambda: process() not in ("", first) and joins(), process)
        second = process()
        keys(folder, "--node", "robot2")
        until(lambda: process() not in ("", second) and joins(), process)
    assert not process() and not joins()


@pytest.mark.slow
def test_a_robot_enrols_is_renewed_and_is_revoked_while_connected(fleet, folder, tmp_path, wanted, until, events):
    port = free_port()
    fleet.secure = folder
    fleet.cloud("--door", f"127.0.0.1:{port}", "--robot-days", "0.00008")     # 7 s; asked for again after 5
    fleet.edge("robot1")
    fleet.until_robot("robot1", state="connected")
    token = fleet.ask("enroll", robot="robot2")["token"]
    assert fleet.ask("robots")["tokens"][0]["robot"] == "robot2"
    # Nobody starts the cloud again.
    fleet.edge("robot2", cut=False, token=token, door=port)
    fleet.until_robot("robot2", state="connected")
    fleet.until_robot("robot1", state="connected")
    assert fleet.ask("robots")["tokens"] == []
    fleet.ask("apply", resources=[wanted(robots=["robot2"])])
    fleet.until_robot("robot2", waiting=0, version=1)
    until(lambda: fleet.said("robot2").count("is renewed") >= 1, lambda: fleet.said("robot2"))
    until(lambda: fleet.said("robot2").count("linked with the cloud") >= 2, lambda: fleet.said("robot2"))
    fleet.ask("apply", resources=[wanted(robots=["robot1", "robot2"], gain=2.0)])
    fleet.until_robot("robot2", waiting=0, version=2)
    fleet.until_robot("robot1", waiting=0, version=1)
    # It is connected, and out of the fleet from now on; the other one stays.
    fleet.ask("revoke", robot="robot2")
    fleet.until_said("cloud", "kept out: /robot2")
    fleet.ask("apply", resources=[wanted(robots=["robot1", "robot2"], gain=3.0)])
    fleet.until_robot("robot1", state="connected", waiting=0, version=2)
    assert fleet.robot("robot2")["state"] == "revoked" and fleet.here("robot2")["version"] == 2
    fleet.until_said("robot2", "robot2 was revoked")
    assert fleet.here("robot2")["version"] == 2
    authority = Pair((folder / "ca.key").read_bytes(), (folder / "ca.crt").read_bytes())
    stolen = tmp_path / "stolen.json5"      # a certificate that it had, and that has not ended
    stolen.write_bytes(robot_file(make_pair(authority, "/robot2", 1.0), authority.certificate, "robot2"))
    assert spoken(fleet, stolen) == ""      # the router lets nothing through: not even a refusal comes back
    assert [text for text in events() if "robot2" in text and "ordered" not in text][-1] == "revoked robot2"
    # It comes back with another token, and is told what is wanted now.
    fleet.end("robot2")
    fleet.edge("robot2", cut=False, token=fleet.ask("enroll", robot="robot2")["token"], door=port)
    fleet.until_robot("robot2", state="connected", waiting=0)
    assert fleet.here("robot2")["version"] == 3
    assert spoken(fleet, stolen) == ""
    assert spoken(fleet, fleet.database("robot2") / FILE) != ""


@pytest.mark.slow
def test_a_robot_whose_certificate_has_ended_is_not_locked_out_and_nobody_starts_the_cloud_again(fleet, folder, until):
    port = free_port()
    fleet.secure = folder
    fleet.cloud("--door", f"127.0.0.1:{port}")
    fleet.edge("robot1")
    fleet.until_robot("robot1", state="connected")
    keys(folder, "--node", "robot3")        # while the cloud runs
    authority = Pair((folder / "ca.key").read_bytes(), (folder / "ca.crt").read_bytes())
    fleet.secure = fleet.folder / "robot3.json5"
    fleet.secure.write_bytes(robot_file(make_pair(authority, "/robot3", -0.5), authority.certificate, "robot3"))
    fleet.edge("robot3", cut=False, door=port)
    fleet.secure = folder
    fleet.until_robot("robot3", state="connected")
    fleet.until_said("robot3", "the certificate of robot3 is renewed")
    until(lambda: fleet.robot("robot1")["state"] == "connected", lambda: fleet.said("robot1"))
    # Its router ends with the cloud, however that ends, and the ports are free for the next one.
    fleet.end("cloud")
    fleet.cloud("--door", f"127.0.0.1:{port}")
    for robot in ("robot1", "robot3"):
        fleet.until_robot(robot, state="connected")
    assert fleet.end("cloud", signal.SIGTERM) == 0 and fleet.said("cloud").count("ERROR") == 0


def spoken(fleet, credentials: Path) -> str:
    """What a robot with these credentials is answered when it speaks as robot2."""
    with open_session(f"tls/localhost:{fleet.port}", identity="robot2", elsewhere=Elsewhere(credentials),
                      more=ZENOH) as session:
        for _ in range(20):     # at first the way to the cloud may not be known
            for reply in session.zenoh.get(up("robot2"), payload=b"{}", timeout=1.5, target=zenoh.QueryTarget.ALL,
                                           consolidation=zenoh.ConsolidationMode.NONE):
                found = (reply.ok.payload if reply.ok is not None else reply.err.payload).to_bytes().decode()
                return "" if found == "Timeout" else found
            time.sleep(0.05)
    return ""

# SPDX-License-Identifier: Apache-2.0
"""Who gets a link to a secured router, what is told to who does not, and where a warning is due without security."""
import itertools
import json
import logging
from pathlib import Path

import pytest

from brain_runtime import LATCHED
from brain_security.certificates import Pair, make_authority, make_pair
from brain_tests.secured import STRING, first, heard_until, text
from brain_wire import Node, NoRouter, SessionProblem, open_session
from brain_wire.router import Router, free_port
from brain_wire.session import session_config

numbers = itertools.count()


# -- who is not let in ------------------------------------------------------------------------------------------------

def rewritten(secured, tmp_path, authority: Pair, pair: Pair) -> Path:
    """The credentials of vision with another key and certificate, and another authority to trust."""
    import base64

    lines = (secured.folder / "vision.json5").read_text().splitlines()
    config = json.loads("\n".join(line for line in lines if not line.startswith("//")))
    config["transport"]["link"]["tls"] |= {
        f"{what}_base64": base64.b64encode(pem).decode() for what, pem in (
            ("root_ca_certificate", authority.certificate), ("connect_certificate", pair.certificate),
            ("connect_private_key", pair.key))}
    path = tmp_path / f"vision{next(numbers)}.json5"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


def authority_of(secured) -> Pair:
    return Pair((secured.folder / "ca.key").read_bytes(), (secured.folder / "ca.crt").read_bytes())


def test_an_ended_certificate_is_refused_and_says_so(secured, tmp_path):
    ended = rewritten(secured, tmp_path, authority_of(secured), make_pair(authority_of(secured), "/r1/vision", -0.01))
    with pytest.raises(NoRouter, match=r"refuses /r1/vision .*the certificate has ended, or is not valid yet by the"):
        secured.session("vision", ended)
    fresh = rewritten(secured, tmp_path, authority_of(secured), make_pair(authority_of(secured), "/r1/vision", 1.0))
    assert secured.session("vision", fresh).linked


def test_a_certificate_of_another_authority_is_refused(secured, tmp_path):
    other = make_authority("other", 10.0)
    pair = make_pair(other, "/r1/vision", 1.0)
    with pytest.raises(NoRouter, match="the certificate is of another authority; take the folder"):
        secured.session("vision", rewritten(secured, tmp_path, authority_of(secured), pair))
    with pytest.raises(NoRouter, match="is not one that the credentials of /r1/vision .* trust"):
        secured.session("vision", rewritten(secured, tmp_path, other, pair))


def test_without_a_certificate_nobody_gets_in(secured, monkeypatch):
    monkeypatch.setenv("BRAIN_SECURITY", "")
    with pytest.raises(NoRouter, match="belongs to a secured brain, which is reached by TLS only; give --secure"):
        open_session(f"tcp/localhost:{secured.port}", patience=0.0)
    with pytest.raises(NoRouter, match="does not let this session in; give --secure"):
        open_session(secured.endpoint, patience=0.0)


def test_a_regions_certificate_does_not_make_a_router(secured, tmp_path):
    config = json.loads("\n".join((secured.folder / "router.json5").read_text().splitlines()[1:]))
    vision = json.loads("\n".join((secured.folder / "vision.json5").read_text().splitlines()[1:]))
    for what in ("private_key", "certificate"):
        config["transport"]["link"]["tls"][f"listen_{what}_base64"] = \
            vision["transport"]["link"]["tls"][f"connect_{what}_base64"]
    (tmp_path / "router.json5").write_text(json.dumps(config))
    port = free_port()
    with Router(port=port, config_file=tmp_path / "router.json5"), \
            pytest.raises(NoRouter, match="is not one that the credentials of /r1/operator"):
        secured.session("operator", endpoint=f"tls/localhost:{port}")


def test_a_router_that_is_not_secured_is_not_taken_for_ours(secured):
    port = free_port()
    with Router(port=port):
        with pytest.raises(NoRouter, match="does not speak TLS .* so it is not secured"):
            secured.session("operator", endpoint=f"tls/localhost:{port}")
        with pytest.raises(SessionProblem, match="reached by TLS only, .* but the router is given as"):
            secured.session("operator", endpoint=f"tcp/localhost:{port}")


def test_a_second_router_links_with_the_same_keys(secured):
    """A client of one is heard by a client of the other, and has no more rights there."""
    port = free_port()
    with Router(port=port, config_file=secured.folder / "router.json5", connect=[secured.endpoint]):
        afar = secured.session("language", endpoint=f"tls/localhost:{port}")
        language = Node(afar, "language", "/r1", secured.domain)
        heard = language.subscription("vision/objects", STRING)
        vision = secured.node("vision")
        heard_until(vision.publisher("vision/objects", STRING), heard, "from afar")
        goals = language.subscription("goal/text", STRING, LATCHED)
        vision.publisher("goal/text", STRING, LATCHED).publish(text("forged"))
        heard_until(vision.publisher("vision/objects", STRING), heard, "fence")
        secured.node("operator").publisher("goal/text", STRING, LATCHED).publish(text("go"))
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

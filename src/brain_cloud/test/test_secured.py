# SPDX-License-Identifier: Apache-2.0
"""A secured fleet: each robot speaks for itself only, people give orders and robots none, and a router holds it."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import zenoh
from typer.testing import CliRunner

from brain.cli import app
from brain_edge.processes.asking import Asking, NoCloud
from brain_edge.processes.settings import ZENOH
from brain_security.fleet_keys import alive, blobs, down, learn, models, orders, second, up
from brain_wire import open_session
from brain_wire.session import Elsewhere

HEAD = {"format": 1, "to": "cloud", "incarnation": "0" * 16, "epoch": None, "streams": []}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of robot1 and robot2, made in two goes."""
    folder = tmp_path_factory.mktemp("keys")
    for words in (["--node", "robot1", "--operator", "ann"], ["--node", "robot2"]):
        done = CliRunner().invoke(app, ["keys", str(folder), *words])
        assert done.exit_code == 0, done.output
    assert "a fleet of robot1, robot2. Run its cloud with: brain cloud --secure" in done.output
    return folder


def ask(session: zenoh.Session, key: str, **more: object) -> str:
    """What is answered on a key; empty where nobody is reached."""
    for reply in session.get(key, payload=json.dumps({**HEAD, **more}).encode(), timeout=1.5,
                             target=zenoh.QueryTarget.ALL, consolidation=zenoh.ConsolidationMode.NONE):
        found = (reply.ok.payload if reply.ok is not None else reply.err.payload).to_bytes().decode()
        return "" if found == "Timeout" else found
    return ""


@pytest.mark.slow
def test_each_speaks_for_itself_only(fleet, keys, wanted):
    fleet.secure = keys
    fleet.cloud()
    fleet.edge("robot1")
    fleet.until_robot(state="connected")
    fleet.ask("apply", resources=[wanted()])
    fleet.until_robot(waiting=0)
    assert fleet.here()["version"] == 1
    with open_session(f"tls/localhost:{fleet.port}", identity="robot2", elsewhere=Elsewhere(keys),
                      more=ZENOH) as other:
        own = json.loads(ask(other.zenoh, up("robot2"), **{"from": "robot2"}))
        assert own["found"]
        assert ask(other.zenoh, up("robot1"), **{"from": "robot1"}) == ""
        assert ask(other.zenoh, "brain_fleet/*/up", **{"from": "robot1"}) == ""
        assert "each speaks for itself" in ask(other.zenoh, up("robot2"), **{"from": "robot1"})
        # Neither may it pose as the cloud, as another robot, or as a person.
        assert ask(other.zenoh, down("robot1"), **{"from": "cloud", "to": "robot1"}) == ""
        assert ask(other.zenoh, orders("robot2"), do="status") == ""
        assert ask(other.zenoh, orders("operator"), do="status") == ""
        heard: list[object] = []
        other.zenoh.declare_queryable(down("robot1"), heard.append)
        other.zenoh.declare_subscriber("brain_fleet/**", heard.append)
        token = other.zenoh.liveliness().declare_token(alive("robot9"))
        fleet.ask("apply", resources=[wanted(gain=2.0)])
        fleet.until_robot(waiting=0, version=2)
        assert heard == []
        token.undeclare()
    assert [robot["robot"] for robot in fleet.ask("robots")["robots"]] == ["robot1", "robot2"]
    # A person asks with an own name, which is in the log.
    with Asking(f"tls/localhost:{fleet.port}", keys / "ann.json5") as asking:
        asking("delete", resources=[{"kind": "Parameters", "name": "calm"}])
        assert [one["person"] for one in asking("logs")["events"] if "took" in one["text"]] == ["ann"]
    with pytest.raises(NoCloud, match="does not let 'robot1' ask"), \
            Asking(f"tls/localhost:{fleet.port}", keys / "robot1.json5") as asking:
        asking("status")
    with pytest.raises(NoCloud, match="reached by TLS only"):
        Asking(f"tcp/localhost:{fleet.port}", None)


def test_credentials_of_another_are_refused_before_anything_runs(keys, tmp_path):
    for name, secure, why in (("robot1", keys / "robot2.json5", "are those of robot2, not of robot1: a robot speaks "
                                                                "for itself only"),
                              ("robot3", keys, "no credentials for robot3")):
        done = subprocess.run([sys.executable, "-m", "brain_edge.processes.run_edge", "--name", name, "--folder",
                               tmp_path / "a", "--secure", secure], capture_output=True, text=True, timeout=400)
        assert done.returncode == 1 and why in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_a_fleets_folder_stays_a_fleets_and_a_brains_a_brains(keys, tmp_path):
    def run(*words):
        done = CliRunner().invoke(app, ["keys", *map(str, words)])
        return done.exit_code, " ".join(done.output.split())

    assert "a fleet of robot1, robot2" in run(keys)[1]      # again, without a word of them
    assert run(keys, "--maintainer", "bob") == (2, "brain: --maintainer is for a brain's folder; a fleet has robots "
                                                   "(--node) and operators")
    assert "a robot cannot be called Robot-1" in run(keys, "--node", "Robot-1")[1].replace("'", "")
    assert "cannot be called cloud, which stands for something else" in run(keys, "--node", "cloud")[1]
    assert "ann would stand for two" in run(keys, "--node", "ann")[1]
    assert run(tmp_path / "brain", "--world", "none", "--robot", "turtlebot3_burger")[0] == 0
    assert "has the keys of a brain; name another folder" in run(tmp_path / "brain", "--node", "robot1")[1]
    rules = json.loads((keys / "router.json5").read_text().partition("\n")[2])["access_control"]
    assert rules["default_permission"] == "deny"
    robot1 = [rule for rule in rules["rules"] if rule["id"].startswith("/robot1 ")]
    assert {key for rule in robot1 for key in rule["key_exprs"]} == {
        up("robot1"), blobs("robot1"), learn("robot1"), second("robot1"), down("robot1"), models("robot1"),
        alive("robot1"), alive("cloud")}

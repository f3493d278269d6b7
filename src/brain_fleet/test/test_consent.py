# SPDX-License-Identifier: Apache-2.0
"""Pictures leave a robot only where its owner has said so on the robot, within a quota, and are kept for a while."""
from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import brain_fleet
from brain.cli import app
from brain_fleet.belonging import tokens
from brain_fleet.belonging.authority import Authority
from brain_fleet.belonging.consent import Consent, ConsentProblem, NoConsent
from brain_fleet.belonging.credentials import enroll
from brain_fleet.belonging.depot import Depot
from brain_fleet.belonging.door import Door
from brain_fleet.belonging.leaving import send
from brain_fleet.belonging.visit import NoDoor, Refused


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["fleet", *map(str, words)], env={"BRAIN_CLOUD": "", "COLUMNS": "300"})
    return done.exit_code, done.output


@pytest.fixture
def stage(tmp_path):
    """A cloud's door that keeps 1 MB of each robot, and a robot's folder with its credentials."""
    assert CliRunner().invoke(app, ["keys", str(tmp_path / "keys"), "--node", "robot9"]).exit_code == 0
    told: list[str] = []
    authority = Authority(tmp_path / "keys")
    clock = type("Clock", (), {"off": 0.0, "__call__": lambda self: time.time() + self.off})()
    depot = Depot(tmp_path / "pictures", 1e6, told=lambda robot, person, text: told.append(text), clock=clock)
    door = Door(authority, [("127.0.0.1", 0)], depot.take_in)
    folder = tmp_path / "edge"
    where = ("localhost", door.ports[0])
    file = enroll(folder, tokens.parse(authority.token("robot1", "ann")), where, lambda seconds: True)
    found = type("Stage", (), {"folder": folder, "where": where, "file": file, "told": told, "depot": depot,
                               "clock": clock, "kept": tmp_path / "pictures" / "robot1", "authority": authority})()
    yield found
    door.close()
    depot.close()


def picture(tmp_path: Path, name: str = "a.mcap", size: int = 400_000) -> Path:
    path = tmp_path / name
    path.write_bytes(os.urandom(size))
    return path


def test_nothing_leaves_without_consent_and_each_that_does_is_written_down(stage, tmp_path):
    file = picture(tmp_path)
    words = ("upload", file, "--folder", stage.folder, "--door", f"localhost:{stage.where[1]}")
    status, said = run(*words)
    assert status == 1 and "the owner of this robot has not consented that recordings leave it" in said
    assert not stage.kept.exists()
    assert run("consent", "--folder", stage.folder, "--recordings", "--keep", 2)[0] == 0
    assert run(*words) == (0, "a.mcap is with the cloud\n")
    data = next(stage.kept.glob("*.data"))
    assert data.read_bytes() == file.read_bytes() and data.stat().st_mode & 0o077 == 0
    assert len(stage.told) == 1 and "robot1 has handed in a.mcap (recordings, 0.4 MB), which is kept" in stage.told[0]
    assert run(*words, "--kind", "pictures")[0] == 1    # each kind is asked for itself
    status, said = run("consent", "--folder", stage.folder)
    assert "pictures: stay on this robot" in said and "recordings: may leave this robot, up to 100 MB a day" in said
    assert said.count("refused") == 2 and said.count(": left") == 1
    assert run("consent", "--folder", stage.folder, "--no-recordings")[0] == 0 and run(*words)[0] == 1
    assert run("consent", "--folder", stage.folder, "--daily", 3) == (2, "brain: name what that is for: --pictures, "
                                                                         "--recordings\n")
    assert run("upload", file, "--folder", tmp_path / "none", "--door", "localhost:1")[0] == 1


def test_a_quota_holds_at_both_ends_and_what_is_old_is_deleted(stage, tmp_path):
    owner = Consent(stage.folder)
    owner.decide("pictures", True, daily=1_500_000, keep=1.0)

    def hand_in(name: str, **more) -> object:
        return send(stage.folder, stage.file, stage.where, "pictures", picture(tmp_path, name, **more))

    hand_in("a")
    hand_in("b")
    with pytest.raises(Refused, match=r"of robot1 0\.8 MB are kept, and of 1\.0 MB not enough is left"):
        hand_in("c")
    with pytest.raises(NoConsent, match=r"1\.2 MB of pictures left this robot within a day, and of 1\.5 MB not enough"):
        hand_in("d")    # what the cloud has refused counts: it may have left
    assert [line["state"] for line in owner.lines()] == ["refused", "broken", "left", "left"]
    stage.clock.off = 2 * 86400.0
    stage.depot.tidy()
    assert list(stage.kept.iterdir()) == []
    # The same file again is not kept twice, and what came in half not at all.
    owner.decide("pictures", True, daily=10**9)
    same = picture(tmp_path, "same")
    for _ in range(2):
        send(stage.folder, stage.file, stage.where, "pictures", same)
    assert len(list(stage.kept.glob("*.data"))) == 1
    (stage.kept / "x.1.part").write_bytes(b"half")
    (stage.kept / "y.data").write_bytes(b"told of by nobody")
    stage.depot.tidy()
    assert len(list(stage.kept.iterdir())) == 2
    stage.authority.revoke("robot1", "ann")
    with pytest.raises(Refused, match="robot1 was revoked"):
        hand_in("e")


def test_a_link_that_ends_and_a_file_that_does_not_read_let_nothing_leave(stage, tmp_path):
    owner = Consent(stage.folder)
    owner.decide("pictures", True)
    with pytest.raises(NoDoor):
        send(stage.folder, stage.file, ("localhost", 1), "pictures", picture(tmp_path))
    assert owner.lines()[0]["state"] == "broken"
    with pytest.raises(ValueError, match="there is no kind 'videos'"):
        send(stage.folder, stage.file, stage.where, "videos", picture(tmp_path))
    (stage.folder / "consent.db").write_bytes(b"no database" * 100)
    with pytest.raises(ConsentProblem, match="so nothing leaves this robot"):
        send(stage.folder, stage.file, stage.where, "pictures", picture(tmp_path))
    assert not stage.kept.exists()


def test_only_the_owners_command_writes_the_owners_answer():
    package = Path(brain_fleet.__file__).parent
    callers = {path.name for path in package.rglob("*.py") if re.search(r"\.decide\(", path.read_text("utf-8"))}
    assert callers == {"owner_verbs.py"}
    senders = {path.name for path in package.rglob("*.py") if re.search(r"\.upload\(", path.read_text("utf-8"))}
    assert senders == {"leaving.py"}

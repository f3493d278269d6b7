# SPDX-License-Identifier: Apache-2.0
"""Pictures leave a robot only where its owner has said so on the robot, within a quota, and are kept for a while."""
from __future__ import annotations

import hashlib
import io
import json
import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import brain_cloud
import brain_edge
from brain.cli import app
from brain_cloud.enrolment.authority import Refusal
from brain_edge.blobs.carry import CLIPS
from brain_edge.blobs.store import PIECE
from brain_edge.enrolment.client import _showing
from brain_edge.enrolment.consent import Consent, ConsentProblem, NoConsent
from brain_edge.enrolment.credentials import read_pair
from brain_edge.enrolment.names import GO
from brain_edge.enrolment.upload import NotSent, Uploads, send

from clips_stage import clips_cloud


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["fleet", *map(str, words)], env={"BRAIN_CLOUD": "", "COLUMNS": "300"})
    return done.exit_code, done.output


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """A cloud that keeps 1 MB of each robot, and a robot's folder with its credentials."""
    for name in ("BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    told: list[str] = []
    clock = type("Clock", (), {"off": 0.0, "__call__": lambda self: time.time() + self.off})()
    folder = tmp_path / "edge"
    with clips_cloud(tmp_path / "pictures", folder, told=told.append, clock=clock) as cloud:
        yield type("Stage", (), {**cloud._asdict(), "folder": folder, "told": told, "clock": clock,
                                 "kept": tmp_path / "pictures" / "robot1"})()


def picture(tmp_path: Path, name: str = "a.mcap", size: int = 400_000) -> Path:
    path = tmp_path / name
    path.write_bytes(os.urandom(size))
    return path


def test_nothing_leaves_without_consent_and_each_that_does_is_written_down(stage, tmp_path):
    file = picture(tmp_path)
    words = ("upload", file, "--folder", stage.folder, "--cloud", stage.cloud)
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
    assert run("upload", file, "--folder", tmp_path / "none", "--door", "localhost:2")[0] == 1


def test_a_quota_holds_at_both_ends_and_what_is_old_is_deleted(stage, tmp_path):
    owner, leaving = Consent(stage.folder), Uploads(stage.folder, stage.file, stage.cloud)
    owner.decide("pictures", True, daily=1_500_000, keep=1.0)

    def hand_in(name: str, **more) -> object:
        return leaving.send("pictures", picture(tmp_path, name, **more))

    hand_in("a")
    hand_in("b")
    with pytest.raises(NotSent, match=r"of robot1 0\.8 MB are kept, and of 1\.0 MB not enough is left"):
        hand_in("c")
    with pytest.raises(NoConsent, match=r"1\.2 MB of pictures left this robot within a day, and of 1\.5 MB not enough"):
        hand_in("d")    # what the cloud has refused counts: it may have left
    assert [line["state"] for line in owner.lines()] == ["refused", "broken", "left", "left"]
    stage.clock.off = 2 * 86400.0
    stage.uploads.tidy()
    assert list(stage.kept.iterdir()) == []
    # The same file again is not kept twice, and what came in half not at all.
    owner.decide("pictures", True, daily=10**9)
    same = picture(tmp_path, "same")
    for _ in range(2):
        leaving.send("pictures", same)
    assert len(list(stage.kept.glob("*.data"))) == 1
    (stage.kept / "x.1.part").write_bytes(b"half")      # of the release before, which began anew each time
    (stage.kept / "y.data").write_bytes(b"told of by nobody")
    stage.uploads.tidy()
    assert len(list(stage.kept.iterdir())) == 2
    half = stage.kept / f"{'e' * 64}.part"
    half.write_bytes(b"half")
    stage.uploads.tidy()
    assert not half.exists()    # by a clock that is two days on, no piece of it has come for a day
    stage.authority.revoke("robot1", "ann")
    with pytest.raises(NotSent):
        hand_in("e")
    leaving.close()


def test_a_link_that_ends_and_a_file_that_does_not_read_let_nothing_leave(stage, tmp_path):
    owner = Consent(stage.folder)
    owner.decide("pictures", True)
    with Uploads(stage.folder, stage.file, "tls/localhost:1") as leaving:
        with pytest.raises(NotSent, match="no cloud at tls/localhost:1"):
            leaving.send("pictures", picture(tmp_path))
        assert owner.lines()[0]["state"] == "broken"
        with pytest.raises(ValueError, match="there is no kind 'videos'"):
            leaving.send("videos", picture(tmp_path))
        (stage.folder / "consent.db").write_bytes(b"no database" * 100)
        with pytest.raises(ConsentProblem, match="so nothing leaves this robot"):
            leaving.send("pictures", picture(tmp_path))
    assert not stage.kept.exists()


def test_a_file_that_had_come_in_part_goes_on_over_either_way(stage, tmp_path):
    """A robot of the release before hands in over the door, from the first byte on each time."""
    Consent(stage.folder).decide("recordings", True)
    file = picture(tmp_path, size=3 * PIECE)
    data = file.read_bytes()
    name, about = hashlib.sha256(data).hexdigest(), {"kind": "recordings", "name": "a.mcap", "days": 2}
    assert stage.uploads.take("robot1", f"sha256:{name}", 0, len(data), data[:PIECE], about) == {"have": PIECE}
    stage.uploads.tidy()      # it is not too old
    pieces, take = [], stage.uploads.take
    stage.uploads.take = lambda robot, digest, offset, size, piece, told: (
        pieces.append((offset, len(piece))), take(robot, digest, offset, size, piece, told))[1]
    with Uploads(stage.folder, stage.file, stage.cloud) as leaving:
        assert leaving.send("recordings", file)["until"] > time.time() + 86400.0
    assert pieces == [(0, 0), (PIECE, PIECE), (2 * PIECE, PIECE)]
    told = json.loads((stage.kept / f"{name}.json").read_text())
    assert told == {"kind": "recordings", "name": "a.mcap", "bytes": len(data), "robot": "robot1",
                    "until": told["until"]}
    (stage.kept / f"{name}.json").unlink()
    (stage.kept / f"{name}.data").rename(stage.kept / f"{name}.part")
    with (stage.kept / f"{name}.part").open("rb+") as part:
        part.truncate(PIECE)
    stage.uploads.tidy()
    question, gone = {**about, "bytes": len(data), "sha256": name}, []
    with pytest.raises(Refusal, match=f"{len(data) - 70_000} of its {len(data)} bytes have not come"):
        stage.uploads.take_in("robot1", question, io.BytesIO(data[:70_000]), lambda: gone.append(True))
    assert stage.uploads.take_in("robot1", question, io.BytesIO(data), lambda: gone.append(True))["kept"]
    assert (stage.kept / f"{name}.data").read_bytes() == data and len(gone) == 2
    assert stage.uploads.take_in("robot1", question, io.BytesIO(b""), lambda: gone.append(True))["kept"]
    assert len(gone) == 2       # it is there already
    with pytest.raises(Refusal, match="is something else"):
        stage.uploads.take_in("robot1", {**question, "sha256": "0" * 64, "bytes": 4}, io.BytesIO(b"liar"), lambda: None)
    with pytest.raises(Refusal, match="days must be told of a file"):
        stage.uploads.take_in("robot1", {name: value for name, value in question.items() if name != "days"},
                              io.BytesIO(data), lambda: None)
    empty = picture(tmp_path, "empty", 0)
    with Uploads(stage.folder, stage.file, stage.cloud) as leaving:
        assert leaving.send("recordings", empty)["until"]
        del stage.serving.collections[CLIPS]
        with pytest.raises(NotSent, match="takes no pictures in; start it with --pictures"):
            leaving.send("recordings", empty)


def test_a_robot_of_the_release_before_hands_in_over_the_door(stage, tmp_path):
    file = picture(tmp_path)
    pair, authority = read_pair(stage.file)

    def hands_in(**more: object) -> dict[str, object]:
        data = file.read_bytes()
        question = {"format": 1, "do": "upload", "kind": "pictures", "name": "a.png", "bytes": len(data),
                    "sha256": hashlib.sha256(data).hexdigest(), "days": 3, **more}
        with _showing(pair, authority) as tls, socket.create_connection(stage.door) as plain, \
                tls.wrap_socket(plain, server_hostname="localhost") as link, link.makefile("rb") as lines:
            link.sendall(json.dumps(question).encode() + b"\n")
            if (word := lines.readline()) == GO:
                link.sendall(data)
                word = lines.readline()
        return json.loads(word)

    for _ in range(2):
        assert hands_in()["kept"]
    assert next(stage.kept.glob("*.data")).read_bytes() == file.read_bytes() and len(stage.told) == 1
    assert "not enough is left for 2.0" in hands_in(bytes=2 * 10**6, sha256="0" * 64)["problem"]
    assert "kind must read" in hands_in(kind="../x")["problem"]
    with pytest.raises(ValueError, match="give its endpoint, as tls/cloud.example:7460"):
        send(stage.folder, stage.file, stage.door, "pictures", file)


@pytest.mark.slow
def test_a_recording_goes_on_after_the_cloud_was_killed(fleet, tmp_path, until):
    assert CliRunner().invoke(app, ["keys", str(tmp_path / "keys"), "--node", "robot1"]).exit_code == 0
    fleet.secure = tmp_path / "keys"
    fleet.cloud("--pictures", "100")
    fleet.ask("status")
    file, edge, found = picture(tmp_path, "long.mcap", 60 * 10**6), fleet.database("robot1"), []
    Consent(edge).decide("recordings", True)
    kept = fleet.database("cloud") / "pictures" / "robot1"

    def have() -> int:
        return max([path.stat().st_size for path in kept.glob("*.part")], default=0)

    sending = threading.Thread(target=lambda: found.append(send(
        edge, tmp_path / "keys" / "robot1.json5", f"tls/localhost:{fleet.port}", "recordings", file)), daemon=True)
    sending.start()
    until(lambda: have() > 4 * 10**6, lambda: fleet.said("cloud"))
    fleet.end("cloud", signal.SIGKILL)
    assert (half := have()) > 4 * 10**6
    fleet.cloud("--pictures", "100")
    until(lambda: found, lambda: (fleet.said("cloud"), Consent(edge).lines()))
    assert next(kept.glob("*.data")).read_bytes() == file.read_bytes() and half < 60 * 10**6
    assert [(line["state"], line["bytes"]) for line in Consent(edge).lines()] == [("left", 60 * 10**6)]
    assert "robot1 has handed in long.mcap (recordings, 60.0 MB)" in fleet.said("cloud")


def test_what_the_release_before_has_kept_is_kept_on_and_deleted_when_its_time_is_over(stage):
    """A folder as that has left it: one file, told of, and one that came in half."""
    data = b"a picture of before"
    name = hashlib.sha256(data).hexdigest()
    stage.kept.mkdir(parents=True, mode=0o700)
    (stage.kept / f"{name}.data").write_bytes(data)
    (stage.kept / f"{name}.json").write_text(json.dumps({
        "kind": "pictures", "name": "a.png", "bytes": len(data), "robot": "robot1", "until": time.time() + 86400.0}))
    (stage.kept / f"{'0' * 64}.140234.part").write_bytes(b"half")
    stage.uploads.tidy()
    assert sorted(path.suffix for path in stage.kept.iterdir()) == [".data", ".json"]
    found = stage.uploads.take("robot1", f"sha256:{name}", 0, len(data), b"", {"kind": "pictures", "name": "a.png",
                                                                               "days": 30})
    assert found["have"] == len(data) and found["until"] < time.time() + 2 * 86400.0
    stage.clock.off = 2 * 86400.0
    stage.uploads.tidy()
    assert list(stage.kept.iterdir()) == []


def test_only_the_owners_command_writes_the_owners_answer():
    packages = [Path(one.__file__).parent for one in (brain_edge, brain_cloud)]

    def files(pattern: str) -> set[str]:
        return {path.name for package in packages for path in package.rglob("*.py")
                if re.search(pattern, path.read_text("utf-8"))}

    assert files(r"\.decide\(") == {"owner_verbs.py"}
    assert files(r"\.hand_in\(") == {"upload.py", "participant.py"}     # pictures, and weights
    assert files(r"Carrier\(.*CLIPS") == {"upload.py"}

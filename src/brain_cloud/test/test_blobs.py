# SPDX-License-Identifier: Apache-2.0
"""Blobs: whole or not there, within a quota, and carried through cuts and kills, up and down, on one form of key."""
from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Mapping

import pytest
import zenoh

from brain_cloud.blobs.serving import Collection, Serving
from brain_edge.blobs.carry import Carrier, NoAnswer, NotGiven
from brain_edge.blobs.store import PIECE, BlobProblem, Blobs, NoRoom, digest_of, write_whole
from brain_cloud.checks.relay import Relay
from brain_edge.processes.settings import ZENOH
from brain_security.fleet_keys import blobs as key_of
from brain_security.fleet_keys import models as old_key_of
from brain_wire import Session, open_session
from brain_wire.router import Router, free_port


def named(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_a_blob_that_comes_in_pieces_is_in_its_place_whole_or_not_at_all(tmp_path):
    store, data = Blobs(tmp_path / "blobs"), os.urandom(3 * PIECE)
    digest = named(data)
    assert store.have(digest) == 0 and store.finish(digest, len(data)) is None
    assert store.write(digest, 0, data[:1000]) == 1000
    assert store.write(digest, 0, data[:1000]) == 1000 and store.write(digest, 2000, b"x") == 1000     # twice; too far
    store = Blobs(tmp_path / "blobs")       # another process goes on
    assert store.have(digest) == 1000 and store.path(digest) is None and store.coming() == [digest]
    assert store.write(digest, 1000, data[1000:]) == len(data)
    assert store.finish(digest, len(data)).read_bytes() == data and store.have(digest) == len(data)
    assert store.read(digest, PIECE, 10) == data[PIECE:PIECE + 10] and store.coming() == []
    assert store.path(digest).stat().st_mode & 0o077 == 0 and store.folder.stat().st_mode & 0o077 == 0
    store.forget(digest)
    store.write(digest, 0, data[:-1] + b"?")    # torn on its way
    with pytest.raises(BlobProblem, match="is something else"):
        store.finish(digest, len(data))
    assert list((tmp_path / "blobs").iterdir()) == []
    for wrong in ("sha256:../../etc/passwd", "a" * 64, ""):
        with pytest.raises(BlobProblem, match="is no digest"):
            store.write(wrong, 0, b"x")


def test_a_full_disk_keeps_what_has_come(tmp_path):
    """The kernel refuses to let a file grow: in a process of its own, since that holds for all of it."""
    code = f"""
import resource, signal
from pathlib import Path
from brain_edge.blobs.store import Blobs, NoRoom
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Blobs(Path({str(tmp_path)!r}), quota=10000)
digest = "sha256:" + "b" * 64
store.write(digest, 0, bytes(1000))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    store.write(digest, 1000, bytes(1000))
except NoRoom as problem:
    print(problem)
print(store.have(digest), store.taken())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, have = done.stdout.splitlines()
    assert "make room on that disk; what came before is kept" in first and have == "1000 1000"


def test_no_byte_is_kept_beyond_a_quota_and_a_link_is_not_followed(tmp_path):
    store, other = Blobs(tmp_path / "blobs", quota=1000), tmp_path / "other"
    first, second = (f"sha256:{letter * 64}" for letter in "ab")
    store.write(first, 0, bytes(600))
    assert store.missing(second, 600) == (200, 0) and not any(store.missing(first, 1000))
    assert store.write(second, 0, bytes(300)) == 300
    with pytest.raises(NoRoom, match="may take 1000 bytes"):
        store.write(second, 300, bytes(200))
    assert (store.have(second), store.taken(), Blobs(tmp_path / "blobs").taken()) == (300, 900, 900)
    assert store.make_room(second, 1000, [first], [first]) == (600, 0)      # what must stay stays
    assert not any(store.make_room(second, 1000, [], [first])) and store.sizes() == {second: 300}
    other.write_bytes(b"somebody's")
    store.forget(second)
    (store.folder / f"{'a' * 64}.part").symlink_to(other)
    with pytest.raises(NoRoom, match="cannot write in"):
        store.write(first, len(b"somebody's"), b"more")
    assert other.read_bytes() == b"somebody's"
    write_whole(tmp_path / "told", b"one")
    write_whole(tmp_path / "told", b"two")
    assert (tmp_path / "told").read_bytes() == b"two" and (tmp_path / "told").stat().st_mode & 0o077 == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["blobs", "other", "told"]


class Kept(Collection):
    """Gives what it has, and keeps what robots hand in, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.busy = folder, [], False

    def of(self, robot: str) -> Blobs:
        return Blobs(self.folder / robot, quota=2**20)

    def about(self, robot: str, digest: str) -> Mapping[str, Any]:
        return {"size": self.of(robot).have(digest)}

    def piece(self, robot: str, digest: str, offset: int) -> bytes:
        self.asked.append(offset)
        try:
            return self.of(robot).read(digest, offset)
        except OSError:
            raise BlobProblem("there is no such blob") from None

    def take(self, robot: str, digest: str, offset: int, size: int, data: bytes, about: Mapping[str, Any]
             ) -> Mapping[str, Any]:
        if self.busy:
            self.busy = False
            return {"have": 0, "wait_s": 0.01}
        store = self.of(robot)
        have = store.write(digest, offset, data)
        return {"have": have, "whole": bool(store.finish(digest, size)), "kind": about.get("kind")}


class Stage:
    """A router and what serves in this process, and a robot behind a link that can be cut."""

    def __init__(self, folder: Path) -> None:
        self._ends = contextlib.ExitStack()
        port = free_port()
        router = self._ends.enter_context(Router([f"tcp/127.0.0.1:{port}"], more=ZENOH))
        session = self._ends.enter_context(Session(router.session, "here"))
        self.relay, self.kept, self.gone = Relay(port), Kept(folder), ""
        self._ends.callback(self.relay.close)
        Serving(session, lambda robot: robot == self.gone).collections.update(files=self.kept, models=self.kept)
        self.session = self._ends.enter_context(open_session(f"tcp/127.0.0.1:{self.relay.port}", identity="robot1",
                                                             more=ZENOH))
        while "cloud has no" not in str(self.ask({"of": "none", "do": "about", "digest": named(b"")})):
            time.sleep(0.02)    # until the way to the cloud is known, or the test's time is over

    def carrier(self, **more: Any) -> Carrier:
        return Carrier("robot1", "files", self.session, patience=2.0, **more)

    def ask(self, question: Any, key: str = key_of("robot1"), attachment: bytes | None = None) -> Any:
        payload = question if isinstance(question, bytes) else json.dumps(question).encode()
        for reply in self.session.zenoh.get(key, payload=payload, attachment=attachment, timeout=5.0,
                                            target=zenoh.QueryTarget.ALL):
            return reply.ok.payload.to_bytes() if reply.ok is not None else reply.err.payload.to_bytes().decode()
        return None

    def close(self) -> None:
        self._ends.close()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    for name in ("BRAIN_ROUTER", "BRAIN_SECURITY", "ZENOH_SESSION_CONFIG_URI", "ZENOH_CONFIG_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    found = Stage(tmp_path / "cloud")
    yield found
    found.close()


def test_what_is_fetched_goes_on_after_a_cut_where_it_was(stage, tmp_path):
    data, into = os.urandom(4 * PIECE + 5), Blobs(tmp_path / "here")
    digest = named(data)
    stage.kept.of("robot1").write(digest, 0, data)
    stage.kept.of("robot1").finish(digest, len(data))
    carrier, cuts = stage.carrier(), []
    assert carrier.about(digest) == {"size": len(data)}

    def cut(have: int) -> None:
        if have == 2 * PIECE:
            cuts.append(have)
            stage.relay.cut(stay=True)

    with pytest.raises(NoAnswer):
        carrier.fetch(digest, len(data), into, told=cut)
    assert cuts and into.have(digest) == 2 * PIECE and into.path(digest) is None
    stage.relay.mend()
    stage.kept.asked.clear()
    again = stage.carrier(tries=60)
    assert again.fetch(digest, len(data), Blobs(tmp_path / "here")).read_bytes() == data
    assert set(stage.kept.asked) == {2 * PIECE, 3 * PIECE, 4 * PIECE}      # nothing twice but what was lost
    assert again.fetch("sha256:" + "0" * 64, 5, into, going=lambda: False) is None
    with pytest.raises(NotGiven, match="there is no such blob"):
        again.fetch("sha256:" + "0" * 64, 5, into)
    # What comes otherwise than it was said, and what a disk has torn, is told apart.
    with pytest.raises(BlobProblem, match="comes otherwise than was said of it"):
        again.fetch(digest, 10, Blobs(tmp_path / "third"))
    torn = Blobs(tmp_path / "torn")
    torn.write(digest, 0, bytes(PIECE))
    with pytest.raises(NotGiven, match="fetched anew"):
        again.fetch(digest, len(data), torn)
    assert again.fetch(digest, len(data), torn).read_bytes() == data


def test_what_is_handed_in_leaves_by_consent_once_and_goes_on_after_a_cut(stage, tmp_path):
    data, left = os.urandom(3 * PIECE + 7), []
    digest, file = named(data), tmp_path / "clip"
    file.write_bytes(data)

    @contextlib.contextmanager
    def guard(size: int) -> Iterator[dict[str, Any]]:
        if not allowed:
            raise PermissionError("the owner says no")
        left.append(size)
        yield {"kind": "clip"}

    carrier, allowed = stage.carrier(tries=60, guard=guard), False
    with file.open("rb") as opened, pytest.raises(PermissionError):
        carrier.hand_in(digest, len(data), opened, {})
    assert not stage.kept.folder.exists() and not left      # not even its name has left
    allowed, stage.kept.busy = True, True
    reads: list[int] = []

    class Cut(io.BytesIO):
        def read(self, most: int | None = -1) -> bytes:
            reads.append(self.tell())
            if len(reads) == 2:
                stage.relay.cut()
            return super().read(most)

    found = carrier.hand_in(digest, len(data), Cut(data), {})
    assert found == {"have": len(data), "whole": True, "kind": "clip"} and left == [len(data)]
    assert reads[-3:] == [PIECE, 2 * PIECE, 3 * PIECE]
    assert stage.kept.of("robot1").path(digest).read_bytes() == data
    reads.clear()
    assert carrier.hand_in(digest, len(data), Cut(data), {})["whole"] and reads == []  # it is there
    with pytest.raises(NotGiven, match="has become shorter"):
        carrier.hand_in("sha256:" + "1" * 64, 10, io.BytesIO(b"short"), {})
    with pytest.raises(NotGiven, match="may take 1048576 bytes"):
        carrier.hand_in("sha256:" + "2" * 64, 2**21, io.BytesIO(bytes(2**21)), {})
    with pytest.raises(NotGiven, match="is something else"):
        carrier.hand_in("sha256:" + "3" * 64, 5, io.BytesIO(b"liars"), {})
    with pytest.raises(NoAnswer, match="no link"):
        Carrier("robot1", "files").about(digest)


def test_what_comes_on_the_keys_of_blobs_is_checked(stage):
    digest = named(b"blob")
    get = {"of": "files", "do": "get", "digest": digest}
    for question, why in (
            (b"", "no JSON"), (b"[]", "an object"), (b"x" * 5000, "at most 4000 are taken"),
            ({**get, "do": "steal"}, "must be one of"), ({**get, "digest": "../../etc/passwd"}, "digest must read"),
            ({**get, "offset": -1}, "at least 0"), ({**get, "offset": 1e300}, "an integer"),
            ({**get, "of": "none"}, "has no none for robots"), ({**get, "of": "../x"}, "of must read"),
            ({**get, "do": "put"}, "size is missing"), (get, "no such blob"),
            ({**get, "do": "put", "size": 1, "about": []}, "an object"), ({**get, "more": 1}, "has no field"),
            ({"of": "files", "do": "get"}, "digest is missing")):
        found = stage.ask(question)
        assert isinstance(found, str) and why in found and "\n" not in found, (question, found)
    assert "at most" in stage.ask({**get, "do": "put", "size": 2**20}, attachment=bytes(PIECE + 1))
    for wrong in ("brain_fleet/Robot/blobs", "brain_fleet/cloud/blobs"):
        assert "is no robot's key" in stage.ask(get, wrong)
    stage.gone = "robot1"
    assert stage.ask(get) == "robot1 was revoked"
    assert not stage.kept.folder.exists()


def test_a_robot_of_the_release_before_is_given_models_on_its_own_key(stage):
    data, key = os.urandom(PIECE + 5), old_key_of("robot1")
    digest, store = named(data), stage.kept.of("robot1")
    store.write(digest, 0, data)
    store.finish(digest, len(data))
    assert json.loads(stage.ask({"digest": digest}, key)) == {"size": len(data)}
    assert b"".join(stage.ask({"digest": digest, "offset": place}, key) for place in (0, PIECE)) == data
    assert "no robot's key" in stage.ask({"digest": digest}, "brain_fleet/Robot/models")
    assert "has no field" in stage.ask({"digest": digest, "do": "put"}, key)


ROBOT = """
import sys
from pathlib import Path
from brain_edge.blobs.carry import Carrier
from brain_edge.blobs.store import Blobs
from brain_edge.processes.settings import ZENOH
from brain_wire import open_session
with open_session(sys.argv[1], identity="robot1", patience=60.0, more=ZENOH) as session:
    def told(have):
        print(have, flush=True)
        sys.stdin.readline()
    carrier = Carrier("robot1", "files", session, patience=5.0, tries=60)
    print("whole", carrier.fetch(sys.argv[2], int(sys.argv[3]), Blobs(Path(sys.argv[4])), told=told), flush=True)
"""


def test_a_robot_that_is_killed_goes_on_where_it_was(stage, tmp_path):
    data = os.urandom(4 * PIECE)
    digest, here = named(data), tmp_path / "here"
    stage.kept.of("robot1").write(digest, 0, data)
    stage.kept.of("robot1").finish(digest, len(data))
    words = [sys.executable, "-c", ROBOT, f"tcp/127.0.0.1:{stage.relay.port}", digest, str(len(data)), str(here)]
    for have in range(PIECE, len(data), PIECE):
        stage.kept.asked.clear()
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as robot:
            assert robot.stdout.readline().split() == [str(have)]     # the next piece, and none that it had
            robot.send_signal(signal.SIGKILL)
        assert stage.kept.asked[0] == have - PIECE
        assert not Blobs(here).path(digest)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as robot:
        assert robot.stdout.readline().split() == [str(len(data))]
        robot.stdin.write("\n")
        robot.stdin.flush()
        assert "whole" in robot.stdout.readline()
    assert digest_of(Blobs(here).path(digest)) == digest

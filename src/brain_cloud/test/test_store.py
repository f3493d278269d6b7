# SPDX-License-Identifier: Apache-2.0
"""The file on the disk: versions, damage, other processes, a full disk."""
from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from brain_edge.messages.outbox import Outbox, Stream
from brain_edge.migrations import MIGRATIONS
from brain_edge.store import FILE, DiskFull, Store, StoreProblem


def test_a_database_of_the_first_version_is_migrated_and_keeps_what_it_has(tmp_path):
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        for statement in MIGRATIONS[0]:
            db.execute(statement)
        db.execute("PRAGMA user_version=1")
        db.execute("INSERT INTO about VALUES ('member', 'robot1'), ('incarnation', '0123456789abcdef')")
        db.execute("INSERT INTO outgoing (peer, stream, last, waiting, bytes) VALUES ('cloud', 'a', 1, 1, 13)")
        db.execute("INSERT INTO outbox VALUES ('cloud', 'a', 1, '0123456789abcdef', 'number', '{\"number\":1}', NULL, "
                   "NULL, NULL)")
    with Store(tmp_path, "robot1") as store:
        assert store.incarnation == "0123456789abcdef"
        assert store.read("PRAGMA user_version") == [(len(MIGRATIONS),)]
        assert store.read("SELECT * FROM desired") == []
        assert Outbox(store, [Stream("a", 0)]).take("cloud")[0].entries[0].body == '{"number":1}'


def test_a_database_that_was_half_made_when_its_process_was_killed_is_made_anew(tmp_path):
    program = """
import os, signal, sys
from brain_edge import store
made, store._migrate = store._migrate, lambda db, version, said: (
    made(db, version, said), version == 1 and os.kill(os.getpid(), signal.SIGKILL))
store.Store(sys.argv[1], "robot1")
"""
    assert subprocess.run([sys.executable, "-c", program, tmp_path], check=False).returncode == -signal.SIGKILL
    with Store(tmp_path, "robot1") as store:
        assert store.read("SELECT value FROM about WHERE key = 'member'") == [("robot1",)]
    assert sorted(one.name for one in tmp_path.iterdir()) == [FILE, "lock"]


def test_what_is_not_this_members_or_not_of_this_version_is_refused_by_name(tmp_path):
    with Store(tmp_path, "robot1"), pytest.raises(StoreProblem, match="another process runs with"):
        Store(tmp_path, "robot1")
    with pytest.raises(StoreProblem, match="is the database of robot1, not of robot2; name another folder"):
        Store(tmp_path, "robot2")
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(StoreProblem, match="is of version 99, and this software knows versions up to"):
        Store(tmp_path, "robot1")
    for left in tmp_path.glob(f"{FILE}-*"):
        left.unlink()
    # What is there and holds nothing has lost what it held: nobody begins anew with it unasked, again and again.
    whole = (tmp_path / FILE).read_bytes()
    with closing(sqlite3.connect(tmp_path / "tables.db")) as db, db:
        db.execute("CREATE TABLE others (x)")
    for content, why in [(b"", "is empty: what it held is lost"), (b"", "is empty"), (bytes(4096), "move it away"),
                         (whole[:100], "move it away"), (whole[:4096], "move it away"),
                         ((tmp_path / "tables.db").read_bytes(), "is of version 0, which no software writes")]:
        (tmp_path / FILE).write_bytes(content)
        with pytest.raises(StoreProblem, match=why) as told:
            Store(tmp_path, "robot1")
        assert "\n" not in str(told.value) and (tmp_path / FILE).read_bytes() == content
    (tmp_path / FILE).unlink()
    (tmp_path / f"{FILE}-wal").write_bytes(b"x")
    with pytest.raises(StoreProblem, match="fleet.db is gone, and fleet.db-wal, which belongs to it, is there"):
        Store(tmp_path, "robot1")
    (tmp_path / f"{FILE}-wal").unlink()
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    with pytest.raises(StoreProblem, match="is damaged, or no database .*move it away"):
        Store(tmp_path, "robot1")
    with pytest.raises(StoreProblem, match="name a folder that can be written"):
        Store(tmp_path / FILE, "robot1")


def test_a_migration_that_is_interrupted_leaves_the_version_before(tmp_path, monkeypatch):
    with Store(tmp_path, "robot1"):
        pass
    monkeypatch.setattr("brain_edge.store.MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE more (x)", "NO SQL")))
    with pytest.raises(StoreProblem):
        Store(tmp_path, "robot1")
    monkeypatch.undo()
    with Store(tmp_path, "robot1") as store:
        assert store.read("SELECT name FROM sqlite_master WHERE name = 'more'") == []


def test_a_full_disk_costs_nothing_that_was_accepted_and_ends_nothing(tmp_path):
    """The disk is one that takes no larger files: the kernel refuses, and SQLite meets a real error."""
    program = """
import resource, signal, sys
from brain_edge.messages.outbox import Outbox, Stream
from brain_edge.store import DiskFull, Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store(sys.argv[1], "robot1")
outbox, accepted, refused = Outbox(store, [Stream("a", 0)]), 0, 0
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
while refused < 3:
    try:
        with store.change() as db:
            outbox.put(db, "cloud", "a", "text", {"number": accepted + 1, "text": "x" * 5000})
        accepted += 1
    except DiskFull as problem:
        refused += 1
        assert "make room on that disk" in str(problem), problem
assert len(outbox.take("cloud")[0].entries) > 1     # what is there is still delivered
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
with store.change() as db:
    outbox.put(db, "cloud", "a", "text", {"number": accepted + 1})
print(accepted)
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    accepted = int(done.stdout)
    assert accepted >= 10
    with Store(tmp_path, "robot1") as store:
        assert [seq for (seq,) in store.read("SELECT seq FROM outbox ORDER BY seq")] == list(range(1, accepted + 2))


def test_a_change_is_undone_where_it_raises(tmp_path):
    with Store(tmp_path, "robot1") as store:
        with pytest.raises(KeyError), store.change() as db:
            db.execute("INSERT INTO about VALUES ('x', '1')")
            raise KeyError
        assert store.read("SELECT value FROM about WHERE key = 'x'") == []
        store._db.execute("PRAGMA query_only=1")
        with pytest.raises(DiskFull), store.change() as db:
            db.execute("INSERT INTO about VALUES ('x', '1')")


def test_only_its_owner_may_look_into_it(tmp_path):
    with Store(tmp_path / "new", "robot1") as store:
        assert os.stat(tmp_path / "new").st_mode & 0o077 == 0 and os.stat(store.path).st_mode & 0o077 == 0


def test_the_lock_goes_with_its_process(tmp_path):
    code = ("import sys, time; from brain_edge.store import Store; held = Store(sys.argv[1], 'robot1'); "
            "print(1, flush=True); time.sleep(60)")
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    holder.stdout.readline()
    with pytest.raises(StoreProblem, match="another process"):
        Store(tmp_path, "robot1")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    Store(tmp_path, "robot1").close()

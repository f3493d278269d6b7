# SPDX-License-Identifier: Apache-2.0
"""The audit log: who ordered what stands there with the order or not at all, and who changes it is found out."""
from __future__ import annotations

import json
import sqlite3

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_cloud import audit
from brain_edge import store as store_module
from brain_edge.migrations import AUDIT, MIGRATIONS
from brain_edge.processes.asking import Asking
from brain_edge.state import events
from brain_edge.store import FILE, Store, StoreProblem


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["fleet", "audit", *map(str, words)])
    return done.exit_code, " ".join(done.output.split())


def pages(store: Store):
    after = 0
    while (one := audit.page(store.read, after, 3))["entries"]:
        yield one
        after = one["entries"][-1]["number"]
    yield one


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "cloud", "cloud") as found:
        with found.change() as db:
            audit.set_proof(db, True)
        for number in range(8):
            with found.change() as db:
                events.write(db, "robot1", f"happened {number}")
                audit.write(db, "", "ann", f"ordered {number} 日本 \"'\n", what={"spec": number})
        yield found


def test_what_was_changed_or_taken_out_is_found(store, tmp_path):
    good = audit.verify(pages(store))
    assert (good.entries, good.let_go, good.problem) == (8, 0, None)
    assert audit.entries(store.read) == 8 and audit.verify(pages(store), (good.last, good.hash)).problem is None
    for statement in ("UPDATE events SET text = 'x' WHERE person = 'ann'", "DELETE FROM events WHERE person = 'ann'"):
        with pytest.raises(StoreProblem, match="audit log"), store.change() as db:
            db.execute(statement)       # nobody does so by mistake
    store.close()
    for change, told in (
            ("UPDATE events SET text = 'ordered other' WHERE number = 6", "entry 6 does not fit the one before it (4)"),
            ("UPDATE events SET person = 'bob' WHERE number = 6", "entry 6 does not fit"),
            ("UPDATE events SET proof = 'none' WHERE number = 2", "entry 2 does not fit the one before it (none)"),
            ("UPDATE events SET what = '' WHERE number = 16", "entry 16 does not fit"),
            ("UPDATE events SET number = 99 WHERE number = 16", "entry 99 does not fit"),
            ("UPDATE events SET hash = NULL WHERE number = 6", "entry 8 does not fit the one before it (4)"),
            ("DELETE FROM events WHERE number = 2", "entry 4 does not fit the one before it (none)"),
            ("DELETE FROM events WHERE number IN (6, 8)", "entry 10 does not fit the one before it (4)"),
            ("DELETE FROM events WHERE number = 16", "the newest entry is 14, of 7, and the log was written up to 16"),
            ("DELETE FROM events", "the newest entry is none, of 0, and the log was written up to 16")):
        db = sqlite3.connect(tmp_path / "cloud" / FILE, isolation_level=None)
        db.executescript("DROP TRIGGER audit_stays; DROP TRIGGER audit_remains; BEGIN; " + change)
        found = audit.verify([audit.page(lambda query, values=(): db.execute(query, values).fetchall(), 0, 100)])
        assert told in (found.problem or ""), (change, found.problem)
        db.execute("ROLLBACK")
        db.executescript(AUDIT[3] + ";" + AUDIT[4])
        db.close()


def test_a_new_chain_does_not_have_what_was_noted_elsewhere(store, tmp_path):
    noted = audit.verify(pages(store))
    store.close()
    folder = tmp_path / "cloud"
    assert run("--folder", folder, "--verify") == (
        0, f"8 entries, none changed or taken out note this elsewhere, for --expect: {noted.last}:{noted.hash}")
    db = sqlite3.connect(folder / FILE)
    db.executescript("DROP TRIGGER audit_stays; DROP TRIGGER audit_remains; UPDATE events SET text = 'ordered peace', "
                     "hash = NULL WHERE person != ''; DELETE FROM about WHERE key = 'audit_head'")
    for (number,) in db.execute("SELECT number FROM events WHERE person != '' ORDER BY number").fetchall():
        audit.enter(db, number, None)
    db.commit()
    db.close()
    assert run("--folder", folder, "--verify")[0] == 0
    status, told = run("--folder", folder, "--verify", "--expect", f"{noted.last}:{noted.hash}")
    assert status == 1 and f"entry {noted.last} with the hash {noted.hash[:12]}... is not there" in told
    found = json.loads(run("--folder", folder, "--verify", "--json")[1])
    assert found["problem"] is None and found["entries"] == 8 and found["last"] == noted.last
    assert run("--folder", folder, "--verify", "--expect", "12:xyz")[0] == 2
    assert run("--folder", folder, "--expect", f"1:{noted.hash}")[0] == 2
    assert "ann (certificate): ordered peace" in run("--folder", folder)[1]
    assert "there is no" in run("--folder", tmp_path / "nowhere")[1]


def test_it_has_bounds_and_the_chain_holds_where_it_was_cut(store, monkeypatch):
    monkeypatch.setattr(audit, "KEPT", 20)
    first = audit.verify(pages(store))
    with store.change() as db:
        for number in range(200):
            audit.write(db, "", "bob", "x" * 5000, what={"long": "y" * 5000, "number": number})
    rows = store.read("SELECT COUNT(*), MAX(LENGTH(text)), MAX(LENGTH(what)) FROM events WHERE person != ''")
    assert 20 <= rows[0][0] <= 120 and rows[0][1] == 1000 and rows[0][2] < 200     # of a long order the hash
    found = audit.verify(pages(store))
    assert found.problem is None and found.let_go > 80 and found.entries + found.let_go == 208
    assert audit.entries(store.read) == 208
    assert "was let go of" in (audit.verify(pages(store), (first.last, first.hash)).problem or "")
    monkeypatch.setattr(events, "KEPT", 10)
    with store.change() as db:
        for number in range(200):
            events.write(db, "robot1", "a robot cannot talk an order out of the log")
    after = audit.verify(pages(store))
    assert (after.problem, after.last, after.hash) == (None, found.last, found.hash) and after.entries >= 20


@pytest.mark.slow
def test_it_says_whose_certificate_ordered_what_was_tried_and_what_was_not(fleet, wanted, tmp_path):
    keys = tmp_path / "keys"
    made = CliRunner().invoke(app, ["keys", str(keys), "--node", "robot1", "--operator", "ann", "--operator", "bob"])
    assert made.exit_code == 0, made.output
    fleet.secure = keys
    fleet.cloud()
    fleet.ask("status")
    at = f"tls/localhost:{fleet.port}"
    with Asking(at, keys / "ann.json5") as ann, Asking(at, keys / "bob.json5") as bob:
        ann("apply", resources=[wanted()])
        with pytest.raises(Exception, match="Nonsense"):
            bob("apply", resources=[{**wanted(), "kind": "Nonsense"}])
        with pytest.raises(Exception, match="robot7"):
            bob("accept", robots=["robot7"])
        bob("delete", resources=[{"kind": "Parameters", "name": "calm"}])
        ann("status")       # to ask is not to order
    more = ("--cloud", at, "--secure", keys / "ann.json5")
    found = json.loads(run("--json", *more)[1])["entries"]
    assert [(one["person"], one["proof"], json.loads(one["what"])["do"]) for one in found] == [
        ("ann", "certificate", "apply"), ("bob", "certificate", "apply"), ("bob", "certificate", "accept"),
        ("bob", "certificate", "delete")]
    assert json.loads(found[0]["what"])["spec"] == wanted()["spec"] and "was refused `apply`" in found[1]["text"]
    assert run("--verify", *more)[0] == 0
    assert [one["text"] for one in fleet.ask("logs")["events"] if one["person"]] == [one["text"] for one in found]
    fleet.end("cloud")      # SIGKILL
    status, told = run("--verify", "--folder", fleet.database("cloud"), "--expect",
                       f"{found[-1]['number']}:{found[-1]['hash']}")
    assert status == 0 and told.startswith("4 entries, none changed or taken out")


def test_a_database_from_before_gets_a_log_that_begins_now(tmp_path, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(store_module, "MIGRATIONS", MIGRATIONS[:2])
        with Store(tmp_path / "cloud", "cloud") as store, store.change() as db:
            db.execute("INSERT INTO events (at, robot, person, text) VALUES ('2026-01-01', '', 'ann', 'ordered calm')")
    with Store(tmp_path / "cloud", "cloud") as store:
        assert audit.verify(pages(store)) == (0, 0, 0, "", None)
        with store.change() as db:
            audit.write(db, "", "ann", "ordered brisk")
        found = audit.verify(pages(store))
        assert (found.entries, found.last, found.problem) == (1, 2, None)
        assert store.read("SELECT proof FROM events WHERE number = 2") == [("none",)]      # nobody said otherwise

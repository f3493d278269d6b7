# SPDX-License-Identifier: Apache-2.0
"""Migrations of the database: the statements that lead from each version to the next.

A version that anybody may have on a disk is never changed here; what is needed more is a further one.
"""
AUDIT_CUT = "audit_cut"     # in the table about: where the chain of the audit log was cut

_MESSAGES = (
    # member, incarnation
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # how long the database has lived: see brain_edge.uptime_clock
    "CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), boot TEXT NOT NULL, since REAL NOT NULL, "
    "elapsed REAL NOT NULL)",
    # whom messages are exchanged with. apart: why not just now. pending: it has not heard of this epoch yet
    "CREATE TABLE peers (name TEXT PRIMARY KEY, incarnation TEXT, epoch TEXT, apart TEXT, "
    "pending INTEGER NOT NULL DEFAULT 0, software TEXT, heard REAL) WITHOUT ROWID",
    # a stream to a peer: the newest message, the newest that is acknowledged, and what waits
    "CREATE TABLE outgoing (peer TEXT, stream TEXT, last INTEGER NOT NULL DEFAULT 0, "
    "acked INTEGER NOT NULL DEFAULT 0, acked_id TEXT NOT NULL DEFAULT '', waiting INTEGER NOT NULL DEFAULT 0, "
    "bytes INTEGER NOT NULL DEFAULT 0, doubt INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (peer, stream)) WITHOUT ROWID",
    # body is NULL once it need not be delivered any more; gone says why
    "CREATE TABLE outbox (peer TEXT, stream TEXT, seq INTEGER, id TEXT NOT NULL, kind TEXT NOT NULL, body TEXT, "
    "gone TEXT, expires REAL, subject TEXT, PRIMARY KEY (peer, stream, seq)) WITHOUT ROWID",
    "CREATE INDEX outbox_subject ON outbox (peer, stream, subject) WHERE subject IS NOT NULL AND body IS NOT NULL",
    "CREATE INDEX outbox_expires ON outbox (expires) WHERE expires IS NOT NULL AND body IS NOT NULL",
    # a stream from a peer: the newest message that is applied
    "CREATE TABLE incoming (peer TEXT, stream TEXT, applied INTEGER NOT NULL, applied_id TEXT NOT NULL, "
    "PRIMARY KEY (peer, stream)) WITHOUT ROWID",
    # what could not be applied, and why
    "CREATE TABLE refused (number INTEGER PRIMARY KEY AUTOINCREMENT, peer TEXT NOT NULL, stream TEXT NOT NULL, "
    "seq INTEGER NOT NULL, kind TEXT NOT NULL, why TEXT NOT NULL)",
)

_STATE = (
    # in the cloud: what a person ordered, and of whom ('all', or a list of robots)
    "CREATE TABLE resources (kind TEXT, name TEXT, robots TEXT NOT NULL, spec TEXT NOT NULL, "
    "PRIMARY KEY (kind, name)) WITHOUT ROWID",
    # at both ends: what is wanted of a robot. listed: which list of all that is wanted has told of it last
    "CREATE TABLE desired (robot TEXT, kind TEXT, name TEXT, version INTEGER NOT NULL, spec TEXT NOT NULL, "
    "listed TEXT NOT NULL DEFAULT '', PRIMARY KEY (robot, kind, name)) WITHOUT ROWID",
    # the newest version that was given, or heard of
    "CREATE TABLE versions (robot TEXT PRIMARY KEY, last INTEGER NOT NULL, list TEXT NOT NULL DEFAULT '') "
    "WITHOUT ROWID",
    # at both ends: what a robot says of it
    "CREATE TABLE reported (robot TEXT, kind TEXT, name TEXT, version INTEGER NOT NULL, status TEXT NOT NULL, "
    "PRIMARY KEY (robot, kind, name)) WITHOUT ROWID",
    # what happened, for people; at is a date by the clock of who wrote it
    "CREATE TABLE events (number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, robot TEXT NOT NULL, "
    "person TEXT NOT NULL, text TEXT NOT NULL)",
)

_MODELS = (
    # in the cloud: models that it has, with what is said of each
    "CREATE TABLE models (digest TEXT PRIMARY KEY, region TEXT NOT NULL, size INTEGER NOT NULL, signer TEXT NOT NULL, "
    "added TEXT NOT NULL, person TEXT NOT NULL, card TEXT NOT NULL, evaluation TEXT NOT NULL, statement TEXT NOT NULL, "
    "signature TEXT NOT NULL, certificate TEXT NOT NULL) WITHOUT ROWID",
    # in the cloud: how goals of robots ended. weights: by region, the first digits of what it computed with
    "CREATE TABLE goals (number INTEGER PRIMARY KEY AUTOINCREMENT, robot TEXT NOT NULL, outcome TEXT NOT NULL, "
    "reflexes INTEGER NOT NULL, seconds REAL NOT NULL, weights TEXT NOT NULL)",
    "CREATE INDEX goals_robot ON goals (robot, number)",
    # in the cloud: ways of models through the fleet. before: the order that was there, or null. after: of the goals
    "CREATE TABLE rollouts (number INTEGER PRIMARY KEY AUTOINCREMENT, region TEXT NOT NULL, digest TEXT NOT NULL, "
    "state TEXT NOT NULL, why TEXT NOT NULL, robots TEXT NOT NULL, canaries TEXT NOT NULL, before TEXT NOT NULL, "
    "watch TEXT NOT NULL, after INTEGER NOT NULL, at TEXT NOT NULL, person TEXT NOT NULL)",
    # on a robot: models that are whole. used: a count that grows
    "CREATE TABLE shelf (digest TEXT PRIMARY KEY, region TEXT NOT NULL, size INTEGER NOT NULL, signer TEXT NOT NULL, "
    "used INTEGER NOT NULL) WITHOUT ROWID",
    # on a robot: what each region was given, what it had before, and which order failed there, and why
    "CREATE TABLE loaded (region TEXT PRIMARY KEY, digest TEXT NOT NULL, before TEXT NOT NULL, original TEXT NOT NULL, "
    "failed INTEGER, why TEXT NOT NULL) WITHOUT ROWID",
)

AUDIT = (
    # in the cloud, of an event that a person ordered: how it is known who that was, what the order says, and its place
    # in the chain
    "ALTER TABLE events ADD COLUMN proof TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE events ADD COLUMN what TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE events ADD COLUMN hash TEXT",
    # By mistake nobody changes an entry, nor takes out one that is not to be let go of.
    "CREATE TRIGGER audit_stays BEFORE UPDATE ON events WHEN old.hash IS NOT NULL BEGIN SELECT RAISE(ABORT, 'an entry "
    "of the audit log is never changed'); END",
    "CREATE TRIGGER audit_remains BEFORE DELETE ON events WHEN old.hash IS NOT NULL AND old.number > COALESCE((SELECT "
    f"json_extract(value, '$.number') FROM about WHERE key = '{AUDIT_CUT}'), 0) BEGIN SELECT RAISE(ABORT, 'only the "
    "oldest entries of the audit log are let go of'); END",
)

_INSTALLATIONS = (
    # in the cloud: which installation of a robot was taken in; NULL: the next that comes, or one that tells of none
    "ALTER TABLE peers ADD COLUMN installation TEXT",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_MESSAGES, _STATE, _MODELS, AUDIT, _INSTALLATIONS)

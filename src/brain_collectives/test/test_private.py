# SPDX-License-Identifier: Apache-2.0
"""Nobody but the group comes by its links. Ranks are threads here, each with a link of its own."""
from __future__ import annotations

import ctypes
import json
import os
import re
import socket
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import zenoh

from brain_collectives import CollectiveError, algorithms, private
from brain_collectives.group import Group
from brain_collectives.header import Call, What, write
from brain_collectives.link import SPACE, Link
from brain_collectives.opening import open_link
from brain_collectives.settings import KEEP, LARGE, PEERS, SECRET_VARIABLE, Settings, from_environment

SECRET = "of the ranks, and of nobody else"
NOBODY = 65534


@pytest.fixture
def linked(monkeypatch):
    """Links two ranks; as if they were on two machines with ``apart``."""
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    opened = []

    def link(*secrets, apart=False, keep=KEEP):
        store, found = dist.HashStore(), {}
        if apart:
            monkeypatch.setattr("brain_collectives.rendezvous.machine", lambda: os.urandom(8).hex())

        def one(rank):
            settings = Settings(PEERS, "127.0.0.1", 5.0, LARGE, keep, None, secrets[rank])
            try:
                found[rank] = open_link(store, rank, 2, timedelta(seconds=60.0), settings)
                opened.append(found[rank])
            except CollectiveError as error:
                found[rank] = error
        at_once(one, range(2))
        return [found[rank] for rank in range(2)]
    yield link
    at_once(Link.close, opened)


def at_once(do, each):
    threads = [threading.Thread(target=do, args=(one,)) for one in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def listening():
    """Ports at which this process listens."""
    own = set()
    for entry in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            own.add(os.readlink(f"/proc/self/fd/{entry}"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                found.add(words[1])
    return found


def sums(links, name="sums", size=3):
    """Whether a group of both adds up."""
    tensors, call = [torch.full((size,), float(rank + 1)) for rank in range(2)], Call("all_reduce")

    def add(rank):
        time.sleep(0.5 * rank)      # what the first one sends is there before the other one's group
        group = Group(links[rank], name, (0, 1))
        group.begin(0, call)
        exchange = algorithms.Exchange(group, 0, call, 20.0, time.monotonic())
        algorithms.all_reduce(exchange, tensors[rank], "SUM", 1 << 30)
    at_once(add, range(2))
    return all((tensor == 3.0).all() for tensor in tensors)


def test_ranks_of_one_machine_are_linked_by_sockets_that_no_other_user_reaches(linked):
    before = listening()
    links = linked(None, None)
    assert all(link.trusted for link in links) and listening() == before and sums(links)
    sockets = [path for path in private.folder().iterdir() if path.name == links[0].places[0].nonce]
    assert sockets and private.folder().stat().st_mode & 0o777 == 0o700
    if os.getuid() == 0:
        refused = []

        def knock_as(user):
            ctypes.CDLL(None).setfsuid(user)    # of this thread alone
            try:
                socket.socket(socket.AF_UNIX).connect(str(sockets[0]))
            except PermissionError:
                refused.append(user)
        at_once(knock_as, [NOBODY])
        assert refused == [NOBODY]


@pytest.mark.parametrize("what", ["open to all", "a link", "a file"])
def test_a_folder_that_others_may_enter_is_refused_by_name(tmp_path, monkeypatch, what):
    path = tmp_path / "folder"
    monkeypatch.setattr(private, "FOLDER", str(path))
    if what == "open to all":
        path.mkdir()
        path.chmod(0o777)
    elif what == "a link":
        path.symlink_to(tmp_path)
    else:
        path.touch()
    with pytest.raises(CollectiveError, match=f"{re.escape(str(path))} must be a folder .* have it removed"):
        private.folder()


def test_what_killed_ranks_left_is_removed_and_what_is_in_use_is_not(linked):
    links, folder = linked(None, None), private.folder()
    dead = folder / ("d" * 32)
    for path in (dead, dead.with_suffix(".lock")):
        path.touch()
    private.clear(folder)
    assert not dead.exists() and not dead.with_suffix(".lock").exists()
    assert all((folder / link.places[link.rank].nonce).exists() for link in links)


def knock(link, secret):
    """Puts a message into a group of two machines as if it were of rank 1: one that says that it leaves."""
    place, config = link.places[0], zenoh.Config()
    for key, value in {"mode": "peer", "connect/endpoints": [f"tcp/127.0.0.1:{place.port}"], "listen/endpoints": [],
                       "connect/timeout_ms": 1000, "connect/exit_on_failure": False,
                       "scouting/multicast/enabled": False, "scouting/gossip/enabled": False}.items():
        config.insert_json5(key, json.dumps(value))
    with private.known_by(secret) as more:
        for key, value in more.items():
            config.insert_json5(key, json.dumps(value))
        session = zenoh.open(config)
    with session:
        session.put(f"{SPACE}/{link.run}/to/0", b"", attachment=write(What.LEAVING, 1))
        time.sleep(0.5)
        return len(session.info.peers_zid())


def test_between_machines_only_who_has_the_secret_is_linked_and_objects_need_one(linked):
    links = linked(SECRET, SECRET, apart=True)
    assert all(link.trusted for link in links) and sums(links)
    for secret in (None, "another secret of as many letters"):
        assert knock(links[0], secret) == 0
    assert not links[0].membership.gone and sums(links, "again")
    assert not any(link.trusted for link in linked(None, None, apart=True))


def test_a_store_that_tells_of_other_machines_where_all_are_here_is_not_believed(linked, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr("brain_collectives.rendezvous.machine", lambda: os.urandom(8).hex())
    for error in linked(None, None):
        assert "who else writes into the store?" in str(error)


def test_a_secret_is_read_from_the_environment_or_a_descriptor_and_bad_ones_are_refused(monkeypatch):
    reads, writes = os.pipe()
    os.write(writes, f"{SECRET}\n".encode())
    os.close(writes)
    for text in (SECRET, f"@/dev/fd/{reads}"):
        monkeypatch.setenv(SECRET_VARIABLE, text)
        found = from_environment()
        assert found.secret == SECRET and SECRET not in repr(found)
    os.close(reads)
    for text in ("short", "x" * 2000, "with:a colon in it..", "@/dev/null", "@/nowhere", "\u00e4" * 20):
        monkeypatch.setenv(SECRET_VARIABLE, text)
        with pytest.raises(CollectiveError, match=SECRET_VARIABLE):
            from_environment()


def test_what_comes_for_groups_that_are_not_there_is_kept_up_to_a_bound_and_asked_for_afterwards(linked):
    links = linked(None, None, keep=1 << 20)
    for number in range(40):
        links[1].send((0,), write(What.DATA, 1, group=number), bytes(1 << 18))
    assert sums(links, size=1 << 19)
    assert sum(len(payload) for _, payload in links[0]._parked) <= 1 << 20

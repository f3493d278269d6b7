# SPDX-License-Identifier: Apache-2.0
"""What a group makes of messages that come in an unlucky order, which no process can be made to send at will."""
from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from brain_collectives.errors import LinkLost
from brain_collectives.group import Group
from brain_collectives.header import LOST, Call, Header, What, packed, read
from brain_collectives.mailboxes import Receive

CALL = Call("barrier")


def group_of(world: int) -> tuple[Group, list[tuple[tuple[int, ...], Header]]]:
    """The group as rank 0 sees it, and what it sends."""
    sent: list[tuple[tuple[int, ...], Header]] = []

    def send(ranks: tuple[int, ...], header: bytes, *more: Any) -> None:
        sent.append((ranks, read(header)))

    link = SimpleNamespace(rank=0, size=world, add=lambda group: None, send=send)
    return Group(link, "g", tuple(range(world))), sent      # type: ignore[arg-type]


def told(group: Group, what: What, source: int, call: Call = CALL, sequence: int = 0, flags: int = 0) -> None:
    """A message of a rank arrives."""
    header = Header(what, flags, source, 0, group.number, sequence, 0, packed(call))
    group.receive(header, b"")      # type: ignore[arg-type]


def test_who_has_done_its_part_and_left_is_not_blamed(monkeypatch):
    group, _ = group_of(2)
    group.begin(0, CALL)
    look, looks = group.mailbox.wait, []

    def wait(*what: Any) -> Any:
        found = look(*what)
        looks.append(found)
        if len(looks) == 1:     # its message and its goodbye come after this look, and before the next line
            told(group, What.DATA, 1)
            group.rank_left(1)
        return found

    monkeypatch.setattr(group.mailbox, "wait", wait)
    group.wait(0, [(0, 1)], CALL, time.monotonic() + 60.0, 60.0)
    assert looks[0] == {(0, 1)}


def waits(group: Group) -> None:
    """The call waits for rank 1, and goes on to do so."""
    group.begin(0, CALL)
    assert group.mailbox.wait(0, [(0, 1)], 0.0) == {(0, 1)}


def test_what_a_rank_keeps_no_longer_is_not_missed_where_it_has_come():
    group, _ = group_of(2)
    waits(group)
    told(group, What.DATA, 1)
    told(group, What.FORGOTTEN, 1)      # the answer to a question that crossed it
    group.check()
    group, _ = group_of(2)
    told(group, What.POINT, 1, Call("send"))
    told(group, What.FORGOTTEN, 1, Call("send"))
    group.check()


@pytest.mark.parametrize("call", [CALL, Call("send")])
def test_what_is_lost_and_kept_no_longer_ends_the_group_at_all_ranks(call):
    group, sent = group_of(3)
    if call == CALL:
        waits(group)
    else:
        group.mailbox.post(Receive(1, 0))
    told(group, What.FORGOTTEN, 1, call)
    with pytest.raises(LinkLost, match="messages from rank 1 were lost"):
        group.check()
    assert [(ranks, header.what, header.flags) for ranks, header in sent] == [((1, 2), What.FORGOTTEN, LOST)]
    other, said = group_of(3)
    told(other, What.FORGOTTEN, 2, flags=LOST)
    with pytest.raises(LinkLost, match="messages to rank 2 were lost"):
        other.check()
    assert not said     # or they would tell each other for ever

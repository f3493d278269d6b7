# SPDX-License-Identifier: Apache-2.0
"""Going on after a death: the survivors agree on who is left, and get a group of those.

Each survivor proposes the ranks that it takes for living to all of them. Who hears a proposal takes out of its own
what that lacks, and proposes anew where that changed it. Proposals only shrink, so they meet. Who has the same proposal
from all that are in it has decided, and from then on only tells what it decided; a rank that learns of a further
death meanwhile takes the decision too, has the dead one in its new group, and shrinks that again, as all others will.

A rank that stood still while the others did so, and went, finds them gone, and would agree with itself. So there is one
group at most that goes on: the first that is written into the store, where that outlives the ranks, else the one that
has more than half of the ranks, or half of them with the first.
"""
from __future__ import annotations

import json
import os
import time
from datetime import timedelta

import torch.distributed as dist
import zenoh
from torch.distributed import distributed_c10d

from brain_collectives import torch_private
from brain_collectives.backend import ZenohGroup, be_default
from brain_collectives.errors import Closed, CollectiveError, Refused
from brain_collectives.group import Group
from brain_collectives.header import Header, What, read_ranks, write, write_ranks
from brain_collectives.link import named
from brain_collectives.settings import NAME
from brain_wire.wakeup import Signal

AGAIN = 0.5     # s between proposals, where nothing changes
LOOK = 0.05     # s between looks for a death


class Agreement:
    """The survivors of a group, until they agree.

    Args:
        group: that has failed.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._proposals: dict[int, frozenset[int]] = {}
        self._decided: frozenset[int] | None = None
        self._heard = Signal()
        group.on_vote = self._vote
        for header, payload in group.votes:
            self._take(header, payload)
        group.votes.clear()

    def _vote(self, header: Header, payload: zenoh.ZBytes) -> None:
        """Takes what a member says; in Zenoh's thread."""
        if self._decided is not None and header.what == What.PROPOSE:
            self._tell(What.DECIDED, (header.source,), self._decided)
        else:
            self._take(header, payload.to_bytes())

    def _take(self, header: Header, payload: bytes) -> None:
        ranks = frozenset(read_ranks(payload)) & frozenset(self._group.members)
        if header.what == What.DECIDED:
            self._decided = self._decided or ranks
        else:
            self._proposals[header.source] = ranks
        self._heard.set()

    def _tell(self, what: What, to: tuple[int, ...], ranks: frozenset[int]) -> None:
        group = self._group
        header = write(what, group.link.rank, group=group.number, epoch=group.epoch)
        for rank in to:
            group.link.send((rank,), header, write_ranks(sorted(ranks)))

    def reach(self, timeout: float) -> tuple[int, ...]:
        """The ranks that go on, in their old order.

        Raises:
            TooLate: not all survivors take part; names them.
            Refused: the others have gone on without this rank.
        """
        group, own = self._group, self._group.link.rank
        members, until = frozenset(group.members), time.monotonic() + timeout
        told, next_time, ranks = frozenset[int](), 0.0, members
        while self._decided is None:
            failure = group.link.failure
            if failure is None and isinstance(group.mailbox.failure, Closed):
                failure = group.mailbox.failure
            if failure is not None:
                raise failure.with_traceback(None)
            ranks = ranks - group.link.membership.dead.keys() - group.link.membership.gone
            for rank in sorted(ranks - {own}):
                ranks &= self._proposals.get(rank, members)
            if own not in ranks:
                raise Refused(f"the other ranks go on without this one (rank {own}), which they take for dead")
            now = time.monotonic()
            if ranks != told or now >= next_time:
                self._tell(What.PROPOSE, tuple(sorted(ranks - {own})), ranks)
                told, next_time = ranks, now + AGAIN
            waited_for = [rank for rank in sorted(ranks - {own}) if self._proposals.get(rank) != ranks]
            if not waited_for:
                self._decided = ranks
                break
            if now >= until:
                raise group.too_late(waited_for, "shrink", timeout)
            self._heard.wait(LOOK)
        if own not in self._decided:
            raise Refused(f"the other ranks have gone on without this one (rank {own}), which they took for dead")
        # Who proposes yet may wait for this rank's proposal.
        self._tell(What.DECIDED, tuple(sorted(self._decided - {own})), self._decided)
        return tuple(rank for rank in group.members if rank in self._decided)


def shrink(group: dist.ProcessGroup | None = None, timeout: timedelta | float = 30.0) -> ZenohGroup:
    """A group of those who are left of one whose ranks have died. All survivors must call it.

    The new group has the survivors in their old order, counted from 0. Where ``group`` is the default group, the new
    one takes its place, so that calls without ``group`` go by it and ``get_rank()`` is the new rank; all other groups
    are destroyed, since their ranks were counted in the old one. A further rank that dies meanwhile is left out as
    well, or is in the new group, whose calls then name it: shrink again.

    Args:
        group: of the zenoh backend; None: the default group.
        timeout: for all survivors to call it (s, if a number).

    Raises:
        TooLate: a rank that lives has not called it.
        Refused: the others have taken this rank for dead, or may have gone on without it.
        CollectiveError: the group is not of the zenoh backend.
    """
    old = group or dist.group.WORLD
    if not isinstance(old, ZenohGroup):
        raise CollectiveError("brain_collectives.shrink is for groups of the zenoh backend")
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    wire = old.wire
    members = Agreement(wire).reach(seconds)
    _be_the_only_ones(wire, members, old.get_group_store())
    new = ZenohGroup(dist.PrefixStore(f"shrunk/{wire.epoch + 1}", old.get_group_store()),
                     Group(wire.link, wire.name, members, wire.epoch + 1), old.timeout)
    wire.link.retire(wire)
    _put_in_place(old, new)
    return new


def _be_the_only_ones(group: Group, ranks: tuple[int, ...], store: dist.Store) -> None:
    """Sees to it that no other ranks of the group go on.

    Raises:
        Refused: they do, or may.
    """
    what = f"{named(ranks)} would go on without {named(sorted(set(group.members) - set(ranks)) or ranks)}"
    if _outlives(store):
        own = json.dumps(ranks)
        try:
            written = store.compare_set(f"zenoh/{group.link.run}/on/{group.number}", "", own).decode(errors="replace")
        except RuntimeError as error:
            raise Refused(f"{what}, and the store that says whether others have gone on does not answer "
                          f"({' '.join(str(error).split()[:12])}); begin anew") from error
        if written != own:
            raise Refused(f"{what}, but others of the group have gone on already (ranks {written[:200]}), since this "
                          f"rank (rank {group.link.rank}) stood still or was cut off for longer than the lease")
        return
    # Who has said that it ends goes on nowhere.
    voters = [rank for rank in group.members if rank in ranks or rank not in group.link.membership.gone]
    if 2 * len(ranks) < len(voters) + (voters[0] not in ranks):
        raise Refused(f"{what}, which are not more than half of {len(voters)} ranks: the others may have gone on, if "
                      f"this rank (rank {group.link.rank}) stood still or was cut off. Where the ranks meet at a store "
                      f"that is none of theirs (torchrun's), as few as one may go on")


def _outlives(store: dist.Store) -> bool:
    """Tells whether a store is of no rank's process: a file, or of the agent that has started the ranks."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return isinstance(store, dist.FileStore) or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _put_in_place(old: ZenohGroup, new: ZenohGroup) -> None:
    """Tells torch of the new group, and no longer of the old one."""
    world = torch_private.world
    is_default = old is dist.group.WORLD
    ranks = world.pg_group_ranks[old]
    kept = {old.wire.members[inner]: outer for outer, inner in ranks.items()}
    store = world.pg_map[old][1]
    for one in list(world.pg_map) if is_default else [old]:
        if one is not old:
            one.shutdown()
        old_name = world.pg_names.pop(one)
        tag = world.pg_to_tag.pop(one, None)
        for some in (tag, ""):
            if some is not None and one in world.tags_to_pg.get(some, []):
                world.tags_to_pg[some].remove(one)
        for table in (world.pg_map, world.pg_group_ranks, world.pg_backend_config, world.pg_coalesce_state):
            table.pop(one, None)
        torch_private.unregister_group(old_name)
    old._calls.close()
    name = distributed_c10d.GroupName(f"{old.wire.name}/shrunk/{new.wire.epoch}")
    new.setGroupName(name)
    world.pg_map[new] = (NAME, store)
    world.pg_names[new] = name
    world.pg_backend_config[new] = f"cpu:{NAME}"
    world.pg_group_ranks[new] = {(inner if is_default else kept[member]): inner
                                 for inner, member in enumerate(new.wire.members)}
    tag = "" if is_default else f"user:{name}"
    world.tags_to_pg.setdefault(tag, []).append(new)
    world.pg_to_tag[new] = tag
    torch_private.register_group(name, new)
    if is_default:
        be_default(new.wire)
        torch_private.update_default_group(new)

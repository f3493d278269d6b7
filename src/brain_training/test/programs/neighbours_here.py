# SPDX-License-Identifier: Apache-2.0
"""What ranks of one machine do in ``test_neighbours.py``."""
from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from brain_training.parallel import posts
from brain_training.parallel.group import Ranks
from brain_training.parallel.lost_rank import lost
from brain_training.parallel.neighbours import SHORT


def drawn(rank: int, *shape: int) -> Tensor:
    """Numbers whose sum depends on the order."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(rank)) * 10.0 ** (rank - 1)


def exchanged(rank: int) -> dict[str, Any]:
    """What came of all that neighbours do, and what the backend says of the same."""
    found: dict[str, Any] = {}
    for name, ranks in (("near", Ranks(exact=True)), ("far", Ranks(exact=True, near=False))):
        size, got = ranks.size, []
        for tensor in (drawn(rank, 3, 5), torch.tensor(rank), torch.full((7,), rank, dtype=torch.uint8),
                       torch.tensor([rank > 0]), drawn(rank, SHORT), drawn(rank, 4, 6).double().T):
            got += ranks.gather(tensor)
        for number in range(5):     # more often than there are halves of the memory
            tensor = drawn(rank + number, 1001)
            ranks.sum_(tensor)
            part = torch.empty(3, 7)
            ranks.sum_part(part, drawn(rank + number, 3 * size, 7))
            got += [tensor, part]
        small = drawn(rank, 33).to(torch.bfloat16)
        ranks.sum_(small)
        found[name] = [*got, small, torch.tensor([ranks.agreed(rank == 0), ranks.agreed(rank == 1)])]
        found[f"{name} at all"] = ranks.near is not None

    return found


def counted(rank: int) -> tuple[int, int]:
    """B that a rank has handed on for a gathered message, and then for a sum."""
    ranks = Ranks()
    ranks.gather(torch.zeros(6))
    first = ranks.near.sent
    ranks.sum_(torch.zeros(300))
    return first, ranks.near.sent - first


def posted(rank: int) -> tuple[int, int]:
    """Sends messages both ways, more than there is room for; how many went through memory, and how many did not."""
    posts.ROOM = 1 << 12
    own, there = Ranks().posts(), 1 - rank
    assert own is not None
    kinds = []

    def drawn_of(sender: int, number: int) -> list[Tensor]:
        made = torch.Generator().manual_seed(100 * number + sender)
        count = int(torch.randint(1, 700, (1,), generator=made))
        return [torch.randn(count, generator=made), torch.randn(3, generator=made)]

    for number in range(60):
        sizes = [sum(part.numel() for part in drawn_of(there, number + more)) for more in range(3)]
        asked = [(torch.empty(size), number + more) for more, size in enumerate(sizes)] if number % 3 == 0 else []
        works = [own.irecv(tensor, group=dist.group.WORLD, tag=0, group_src=there) for tensor, _ in asked]
        sent = own.sending(drawn_of(rank, number))(torch.empty(0), group=dist.group.WORLD, tag=0, group_dst=there)
        kinds.append(sent)
        if asked:
            waiting = list(zip(works, asked))
        if number % 3 == 2:     # three are under way, and the last is waited for first
            dist.barrier()      # all are sent: how many found room depends on nothing else
            for work, (tensor, which) in waiting[::-1]:
                assert work.wait() and torch.equal(tensor, torch.cat(drawn_of(there, which))), which
            assert all(each.wait() for each in kinds[-3:])
            dist.barrier()
    elsewhere = sum(each.work is not None for each in kinds)
    return len(kinds) - elsewhere, elsewhere


def parted(rank: int) -> bool:
    """Rank 1 sends a message and leaves; whether rank 0 has it then."""
    own, got, wanted = Ranks().posts(), torch.empty(9), torch.arange(9.0)
    assert own is not None
    if rank:
        own.sending([wanted])(torch.empty(0), group=dist.group.WORLD, tag=0, group_dst=0)
        del own
        dist.barrier()
        return True
    dist.barrier()
    return own.irecv(got, group=dist.group.WORLD, tag=0, group_src=1).wait() and torch.equal(got, wanted)


def unposted(rank: int, path: Path) -> None:
    """Rank 1 is killed, and rank 0, which waits for a message of it, writes down what it hears."""
    own = Ranks().posts()
    assert own is not None
    if rank:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        own.irecv(torch.empty(3), group=dist.group.WORLD, tag=0, group_src=1).wait()
    except RuntimeError as error:
        path.write_text(f"{lost(error)} {error}")


def left(rank: int, path: Path) -> None:
    """Rank 1 is killed, and rank 0 writes down what it hears of it."""
    ranks = Ranks()
    ranks.agreed(True)
    if rank:
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(2):      # heard where it waits, and where it tells
        try:
            ranks.sum_(torch.zeros(9))
        except RuntimeError as error:
            path.write_text(f"{path.read_text() if path.exists() else ''}{lost(error)} {error}\n")

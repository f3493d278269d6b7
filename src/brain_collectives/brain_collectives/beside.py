# SPDX-License-Identifier: Apache-2.0
"""A group of this backend beside torch's default one, for processes of one machine; an entry point names it."""
from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta

import torch.distributed as dist

from brain_collectives.backend import ZenohGroup
from brain_collectives.group import Group
from brain_collectives.opening import open_link
from brain_collectives.settings import LINK_VARIABLE, PEERS, from_environment

UNBOUND = timedelta(days=1000)  # of calls: who waits says for how long


def make(store: dist.Store, rank: int, size: int, timeout: timedelta) -> ZenohGroup:
    """A group of its own, linked by its own link.

    Its ranks are linked with each other, though the environment name a router: they are on one machine. Only
    ``BRAIN_COLLECTIVES_LINK`` changes that.

    Args:
        store: by which the ranks meet.
        rank, size: of this process, and how many there are.
        timeout: how long the ranks may take to meet.

    Raises:
        CollectiveError: they do not meet, or the settings are wrong.
    """
    settings = from_environment()
    if not os.environ.get(LINK_VARIABLE, "").strip():
        settings = replace(settings, link=PEERS)
    link = open_link(store, rank, size, timeout, settings)
    return ZenohGroup(store, Group(link, "beside", tuple(range(size))), UNBOUND)

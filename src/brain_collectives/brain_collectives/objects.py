# SPDX-License-Identifier: Apache-2.0
"""Objects, which torch pickles: only where nobody but the group can have sent them.

torch's object collectives (``broadcast_object_list``, ``all_gather_object``, ``gather_object``, ``scatter_object_list``,
``send_object_list``, ``recv_object_list``) call a backend with tensors of bytes like any others, so a backend cannot
tell them. But all of them pickle and unpickle by two functions of ``torch.distributed.distributed_c10d``, which get the
group. They are wrapped when the first group of this backend is made: for its groups they raise where the link is
neither authenticated at all ranks nor on one machine; for all other groups they do what they did.
"""
from __future__ import annotations

import functools
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from brain_collectives.errors import ObjectsRefused

WRAPPED = ("_object_to_tensor", "_tensor_to_object")


def guard() -> None:
    """Wraps what torch's object collectives pickle with, once.

    Raises:
        ObjectsRefused: this version of torch has it no longer; then no group can be made.
    """
    for name in WRAPPED:
        function = getattr(distributed_c10d, name, None)
        if function is None:
            raise ObjectsRefused(f"torch {dist.__name__} has no {name} any more, by which objects are refused; use the "
                                 f"version of torch that constraints.txt names")
        if not getattr(function, "of_brain_collectives", False):
            setattr(distributed_c10d, name, _wrapped(function))


def _wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def checked(first: Any, second: Any, group: Any) -> Any:
        check(group)
        return function(first, second, group)
    checked.of_brain_collectives = True     # type: ignore[attr-defined]
    return checked


def check(group: dist.ProcessGroup | None) -> None:
    """Whether objects may go by a group.

    Raises:
        ObjectsRefused: they may not.
    """
    from brain_collectives.backend import ZenohGroup

    group = group or distributed_c10d._get_default_group()
    if isinstance(group, ZenohGroup) and not group.wire.link.trusted:
        raise ObjectsRefused("objects are pickled, and whoever reaches this link could have code run by them: the zenoh "
                             "backend takes them only where all ranks are on one machine, or linked by a router with "
                             "certificates (BRAIN_SECURITY). Send tensors instead, or use `brain keys`")

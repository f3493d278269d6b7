# SPDX-License-Identifier: Apache-2.0
"""Objects, which torch pickles: only where nobody but the group can have sent them.

torch's object collectives call a backend with tensors of bytes like any others, so a backend cannot tell them. But all
of them pickle and unpickle by two functions of ``torch.distributed.distributed_c10d``, which get the group. Those are
wrapped when the first group of this backend is made, and the object collectives too, so that all ranks are refused
before anything is sent: for groups of this backend they raise where the link is not authenticated at all ranks; for all
other groups they do what they did. Two more readers of pickled bytes stand elsewhere in torch, which few import: they
are wrapped when that is done.
"""
from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import inspect
import sys
from types import ModuleType
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from brain_collectives import torch_private
from brain_collectives.errors import ObjectsRefused
from brain_collectives.group import Group
from brain_collectives.torch_private import ELSEWHERE, PICKLING

COLLECTIVES = ("all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list", "scatter_object_list",
               "send_object_list")


def guard() -> None:
    """Wraps torch's object collectives, and what they pickle with, once.

    Raises:
        ObjectsRefused: this version of torch has it no longer; then no group can be made.
    """
    for name in (*PICKLING, *COLLECTIVES):
        function = getattr(distributed_c10d, name, None)
        if function is None or "group" not in inspect.signature(function).parameters:
            raise ObjectsRefused(f"torch {torch.__version__} has no {name} with a group any more, by which objects are "
                                 f"refused; use the version of torch that constraints.txt names")
        if not getattr(function, "of_brain_collectives", False):
            wrapped = _wrapped(function)
            setattr(distributed_c10d, name, wrapped)
            if name in COLLECTIVES:
                setattr(dist, name, wrapped)
    for name in ELSEWHERE:
        if name in sys.modules:
            _guard_in(sys.modules[name])
    if not any(isinstance(finder, _Guarded) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Guarded())


def _guard_in(module: ModuleType) -> None:
    what, group = ELSEWHERE[module.__name__]
    *inside, name = what.split(".")
    try:
        holder = functools.reduce(getattr, inside, module)
        function = getattr(holder, name)
    except AttributeError:
        raise ObjectsRefused(f"torch {torch.__version__} has no {what} in {module.__name__} any more, by which objects "
                             f"are refused; use the version of torch that constraints.txt names") from None
    if not getattr(function, "of_brain_collectives", False):
        setattr(holder, name, _wrapped(function, group))


class _Guarded(importlib.abc.MetaPathFinder):
    """Wraps what :data:`ELSEWHERE` names when it is imported: importing it for that alone takes each rank a second."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
                  ) -> importlib.machinery.ModuleSpec | None:
        if name not in ELSEWHERE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def guarded(module: ModuleType) -> None:
                run(module)
                _guard_in(module)
            spec.loader.exec_module = guarded   # type: ignore[method-assign]
        return spec


def _wrapped(function: Any, group: Callable[[Any], Any] = lambda given: given.get("group")) -> Any:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        check(group(signature.bind(*arguments, **named).arguments))
        return function(*arguments, **named)
    checked.of_brain_collectives = True     # type: ignore[attr-defined]
    return checked


def check(group: dist.ProcessGroup | None) -> None:
    """Checks that objects may go by a group.

    Raises:
        ObjectsRefused: they may not.
    """
    wire = getattr(group or torch_private.default_group(), "wire", None)
    if isinstance(wire, Group) and not wire.link.trusted:
        raise ObjectsRefused("objects are pickled, and whoever reaches this link could have code run by them: give all "
                             "ranks the same BRAIN_COLLECTIVES_SECRET and no router, or link them by a router with "
                             "certificates (BRAIN_SECURITY, `brain keys`), or start all on one machine by one user and "
                             "without a router; or send tensors")

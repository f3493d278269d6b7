# SPDX-License-Identifier: Apache-2.0
"""The tasks that there are: each region of a graph that is trained declares its own."""
from __future__ import annotations

import importlib
import os
import sys

from brain_runtime.graph import graphs
from brain_runtime.contract.declared import is_name, named
from brain_training.task import NETWORKS, Task


def names(graph: str = graphs.DEFAULT) -> tuple[str, ...]:
    """Regions of a graph (name or path) that are trained. Torch is not imported to tell them.

    Raises:
        GraphError: there is no such graph, or a class of it cannot be loaded.
    """
    return tuple(_declared(graph))


def load(name: str, graph: str = graphs.DEFAULT) -> type[Task]:
    """The class of a region's task, or the one that ``module:Class`` names, in the current folder or installed.

    Raises:
        ValueError: there is none of this name, what the region declares leads nowhere, or the class is no whole task.
        GraphError: see :func:`names`.
    """
    if is_name(name):
        return _own(name)
    found = _declared(graph)
    if name not in found:
        raise ValueError(f"there is no training {name!r}; there are {', '.join(found)}")
    return named(found[name], f"region {name}")


def _own(name: str) -> type[Task]:
    """A task that no region declares; raises ValueError where it is none."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())     # a class of one's own, without installing it
    module, _, cls_name = name.partition(":")
    try:
        cls = getattr(importlib.import_module(module), cls_name, None)
    except ModuleNotFoundError as error:
        where = f" in {os.getcwd()}, nor installed" if error.name == module else f", which {module} imports"
        raise ValueError(f"there is no module {error.name}{where}; {name} names the module and the class of a task"
                         ) from error
    except Exception as error:      # of somebody's own code: whatever it raises
        raise ValueError(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, Task)):
        raise ValueError(f"{module} has no class {cls_name}" if cls is None else
                         f"{name} is no brain_training.task.Task; let the class be one")
    lacks = [*(() if hasattr(cls, "name") else ("name",)), *sorted(cls.__abstractmethods__)]
    if lacks:
        raise ValueError(f"{name} lacks {', '.join(lacks)}; a task says its name, and has sample, build, loss and "
                         f"score")
    return cls


def networks(cls: type[Task]) -> tuple[str, ...]:
    """The networks of a task: those that have a weight file."""
    return tuple(which for which in NETWORKS if which in cls.files())


def _declared(graph: str) -> dict[str, str]:
    """Task of each region that declares one."""
    found = {spec.name: spec.load().task for spec in graphs.load(graph).regions if not spec.lacks_package()}
    return {name: task for name, task in found.items() if task}

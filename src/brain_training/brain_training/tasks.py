# SPDX-License-Identifier: Apache-2.0
"""The tasks that there are: each region of a graph that is trained declares its own."""
from __future__ import annotations

from brain_runtime import graphs
from brain_runtime.declared import named
from brain_training.task import NETWORKS, Task


def names(graph: str = graphs.DEFAULT) -> tuple[str, ...]:
    """Regions of a graph (name or path) that are trained. Torch is not imported to tell them.

    Raises:
        GraphError: there is no such graph, or a class of it cannot be loaded.
    """
    return tuple(_declared(graph))


def load(name: str, graph: str = graphs.DEFAULT) -> type[Task]:
    """The class of a region's task.

    Raises:
        ValueError: there is none of this name, or what the region declares leads nowhere.
        GraphError: see :func:`names`.
    """
    found = _declared(graph)
    if name not in found:
        raise ValueError(f"there is no training {name!r}; there are {', '.join(found)}")
    return named(found[name], f"region {name}")


def networks(cls: type[Task]) -> tuple[str, ...]:
    """The networks of a task: those that have a weight file."""
    return tuple(which for which in NETWORKS if which in cls.files())


def _declared(graph: str) -> dict[str, str]:
    """Task of each region that declares one."""
    found = {spec.name: spec.load().task for spec in graphs.load(graph).regions if not spec.lacks_package()}
    return {name: task for name, task in found.items() if task}

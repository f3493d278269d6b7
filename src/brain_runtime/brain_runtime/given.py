# SPDX-License-Identifier: Apache-2.0
"""Parameters that a person gives by file or on the command line, checked before any process starts."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable

from brain_runtime.graph import Graph


def check(name: str, namespace: str, parameters: type, ros: Any) -> None:
    """Checks what a node is given as the hosts do when they start it.

    Args:
        name, namespace: of the node.
        parameters: the region's dataclass.
        ros: a :class:`brain_runtime.ros_args.RosArgs`.

    Raises:
        ParameterError: a parameter that there is not, or a value that does not fit.
    """
    from brain_runtime.hosts.node_parameters import split

    split(name, parameters, ros.parameters(name, namespace))


def check_files(graph: Graph, files: Iterable[Path | str], namespace: str = "") -> None:
    """Checks parameter files for all regions of a graph.

    Raises:
        RosArgsError: a file cannot be read or is none.
        ParameterError: see :func:`check`.
        GraphError: a class that cannot be loaded.
    """
    from brain_runtime import ros_args

    ros, _ = ros_args.parse(["--ros-args", *(word for file in files for word in ("--params-file", str(file)))])
    for spec in graph.regions:
        check(spec.name, "/" + namespace.strip("/"), spec.load().Parameters, ros)

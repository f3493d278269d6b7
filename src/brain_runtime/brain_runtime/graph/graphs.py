# SPDX-License-Identifier: Apache-2.0
"""Locations of graphs and parameter files, in the source tree and installed alike."""
from __future__ import annotations

from pathlib import Path

from brain_runtime.graph import NO_WORLD, Graph, GraphError, load_graph
from brain_runtime.share import share_directory
from brain_wire.safe_text import quoted

DEFAULT = "brain"
PACKAGE = "brain"       # which has the graphs and profiles that are known by name


def config_directory() -> Path:
    """Folder of the graphs and profiles that come with the package ``brain``.

    Raises:
        GraphError: that is not installed.
    """
    try:
        return share_directory(PACKAGE) / "config"
    except FileNotFoundError as error:
        raise GraphError(f"graphs and profiles that are known by name come with the package {PACKAGE}, which is not "
                         f"installed: install it, or give paths to files of your own ({error})") from error


def find_graph(name: str) -> Path:
    """File of a graph.

    Args:
        name: a path, or the name of one that comes with the package (``brain``).

    Raises:
        GraphError: there is none.
    """
    path = Path(name)
    try:
        found = path.is_file()
    except OSError as error:    # in a folder of others, or longer than a name may be
        raise GraphError(f"cannot read graph {quoted(str(path))}: {error.strerror}") from error
    if path.suffix in (".yaml", ".yml") or found:
        if not found:
            raise GraphError(f"there is no graph file {path}; give a path, or one of {', '.join(shipped())}")
        return path
    inside = config_directory() / f"{name}.graph.yaml"
    if not inside.is_file():
        raise GraphError(f"there is no graph {name!r}; there are {', '.join(shipped())}, or give a path to a .yaml")
    return inside


def default_graph() -> Path | None:
    """File of the graph :data:`DEFAULT`, or None where the package that has it is not installed."""
    try:
        return find_graph(DEFAULT)
    except GraphError:
        return None


def shipped() -> list[str]:
    """Names of the graphs that come with the package.

    Raises:
        GraphError: see :func:`config_directory`.
    """
    return sorted(p.name.removesuffix(".graph.yaml") for p in config_directory().glob("*.graph.yaml"))


def params_file(graph_path: Path) -> Path | None:
    """Parameter file that belongs to a graph: ``<name>.params.yaml`` beside ``<name>.graph.yaml``."""
    beside = graph_path.with_name(graph_path.name.replace(".graph.", ".params."))
    return beside if beside != graph_path and beside.is_file() else None


def load(name: str, world: str = NO_WORLD) -> Graph:
    """The graph of that name or path with the devices of ``world``.

    Raises:
        GraphError: there is none, or it is none.
    """
    return load_graph(find_graph(name), world)


def expected_regions(name: str, namespace: str = "") -> list[str]:
    """Full names of a graph's regions that ought to be there when it runs in a namespace: all that are not optional.

    Raises:
        GraphError: there is no such graph.
    """
    prefix = "/" + namespace.strip("/") if namespace.strip("/") else ""
    return [f"{prefix}/{spec.name}" for spec in load(name).regions if not spec.optional]


def names_of(external: str) -> tuple[str, ...]:
    """The regions that ``external`` names, as ``vision,place``."""
    return tuple(filter(None, (name.strip() for name in external.split(","))))

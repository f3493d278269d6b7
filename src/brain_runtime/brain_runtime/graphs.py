# SPDX-License-Identifier: Apache-2.0
"""Where graphs and parameter files are found, in the source tree and installed alike."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from brain_runtime.graph import Graph, GraphError, load_graph
from brain_runtime.share import share_directory

DEFAULT = "brain"


def config_directory() -> Path:
    """Folder of the graphs and parameter files that come with the package."""
    return share_directory("brain") / "config"


def find_graph(name: str) -> Path:
    """File of a graph.

    Args:
        name: a path, or the name of one that comes with the package (``brain``).

    Raises:
        GraphError: there is none.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise GraphError(f"there is no graph file {path}; give a path, or one of {', '.join(shipped())}")
        return path
    inside = config_directory() / f"{name}.graph.yaml"
    if not inside.is_file():
        raise GraphError(f"there is no graph {name!r}; there are {', '.join(shipped())}, or give a path to a .yaml")
    return inside


def shipped() -> list[str]:
    """Names of the graphs that come with the package."""
    return sorted(p.name.removesuffix(".graph.yaml") for p in config_directory().glob("*.graph.yaml"))


def params_file(graph_path: Path) -> Path | None:
    """Parameter file that belongs to a graph: ``<name>.params.yaml`` beside ``<name>.graph.yaml``."""
    beside = graph_path.with_name(graph_path.name.replace(".graph.", ".params."))
    return beside if beside != graph_path and beside.is_file() else None


def load(name: str, world: str = "none") -> Graph:
    """The graph of that name or path with the devices of ``world``.

    Raises:
        GraphError: there is none, or it is none.
    """
    return load_graph(find_graph(name), world)


def names_of(external: str) -> tuple[str, ...]:
    """The regions that ``external`` names, as ``vision,place``."""
    return tuple(filter(None, (name.strip() for name in external.split(","))))


def own_parameters(graph: Graph) -> dict[str, dict[str, Any]]:
    """Parameters that follow from the graph itself.

    The brainstem watches the other critical regions, and window shows the populations that it does not know of itself.
    """
    result: dict[str, dict[str, Any]] = {}
    classes = {spec.name: spec.load() for spec in graph.regions}
    others = [f"{name}/{population.name}" for name, cls in classes.items() for population in cls.populations
              if population.told and not population.rate]
    for name, cls in classes.items():
        if "critical" in cls.Parameters.__dataclass_fields__:
            result[name] = {"critical": [other for other in graph.critical if other != name]}
        if others and "populations" in cls.Parameters.__dataclass_fields__:
            result[name] = {**result.get(name, {}), "populations": others}
    return result


def merged(*layers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Parameters by region; later layers win."""
    result: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for region, values in layer.items():
            result.setdefault(region, {}).update(values)
    return result

# SPDX-License-Identifier: Apache-2.0
"""The graph: which regions make up a brain. Read from YAML; everything that starts regions takes them from here."""
from __future__ import annotations

import importlib
import re
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Iterable, Mapping

from brain_runtime.hosts.backends import DEFAULT, MOST, NAME, TIMEOUT, names
from brain_runtime.command.lacking import COLLECTIVES, EXPERIMENTS, PACKAGES, is_installed, lacks
from brain_runtime.contract.copies import EVERY, LONGEST, SHORTEST
from brain_runtime.graph.moved import new_name
from brain_runtime.contract.ports import In, Out
from brain_runtime.contract.region import Region
from brain_wire.qos import incompatibility
from brain_wire.safe_text import quoted

NO_WORLD = "none"           # a real robot
SIM_WORLD = "sim"           # the first world of a graph, whatever its name
RESTART = ("always", "never")
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w{0,254}", re.ASCII)     # it is a node's name, and files are called after it
KEPT = {"router": "the router", "supervisor": "its own log"}    # names that are no region's
_TOPIC = re.compile(r"[~/]?[A-Za-z_]\w*(/[A-Za-z_]\w*)*|~/[A-Za-z_]\w*(/[A-Za-z_]\w*)*", re.ASCII)


class GraphError(ValueError):
    """A graph that cannot run; names the entry and the remedy."""


def _place(error: Exception) -> str:
    """File and line where an error was raised; of wrong syntax, the line that is wrong."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}, line {last.lineno}"


@dataclass(frozen=True)
class RegionSpec:
    """One region of a graph.

    Attributes:
        name: node name.
        cls: ``package.module:Class``.
        restart: ``always`` or ``never``, after its process ended by itself.
        critical: the robot must not move without it.
        remap: topics by other names.
        device: belongs to a world (a simulated device), not to the brain.
        external: others run it: it is known and waited for, but not started with the rest.
        optional: left out where its package is not installed.
        shards: processes over which its network is spread; 1: it is not.
        backend: by which those talk; see :mod:`brain_runtime.hosts.backends`.
        shard_timeout: how long a step waits for one of them (s).
        copies: name that it has in common with other regions of its class; see :mod:`brain_runtime.contract.copies`.
        average_every: time between two means of their adaptive state (s).
    """

    name: str
    cls: str
    restart: str = "always"
    critical: bool = False
    remap: Mapping[str, str] = field(default_factory=dict)
    device: bool = False
    external: bool = False
    optional: bool = False
    shards: int = 1
    backend: str = DEFAULT
    shard_timeout: float = TIMEOUT
    copies: str = ""
    average_every: float = EVERY

    def lacks_package(self) -> bool:
        """Tells whether it is to be left out: it is optional, and the package of its class is not installed."""
        if not self.optional or new_name(self.cls):     # of an old name one is told the new one
            return False
        return not is_installed(self.cls.partition(":")[0].partition(".")[0])

    def load(self) -> type[Region]:
        """The class.

        Raises:
            GraphError: it has another name now, cannot be imported or is no Region.
        """
        if now := new_name(self.cls):   # what an old installation left behind may still be there
            raise GraphError(f"region {self.name}: {self.cls} is now {now}; correct `class:`")
        module, _, attribute = self.cls.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute, None)
        except Exception as error:      # it is a stranger's code
            if isinstance(error, ImportError):
                raise GraphError(f"region {self.name}: cannot import {module} ({error}); {self._remedy(error)}"
                                 ) from error
            raise GraphError(f"region {self.name}: importing {module} ends with {type(error).__name__}: {error}, in "
                             f"{_place(error)}; correct it") from error
        if found is None:
            raise GraphError(f"region {self.name}: {module} has no class {attribute!r}; correct `class: {self.cls}`")
        if not (isinstance(found, type) and issubclass(found, Region)):
            raise GraphError(f"region {self.name}: {self.cls} is not a Region")
        return found

    def make(self) -> Region:
        """A new region, to be configured by its host, with its other processes, which do not run yet.

        Raises:
            GraphError: see :meth:`load` and :meth:`refuse_split`.
        """
        cls = self.load()
        self.refuse_split(cls)
        region = cls(self.name)
        region.copies, region.average_every, region.remap = self.copies, self.average_every, self.remap
        if self.shards > 1 and cls.split is not None:
            from brain_runtime.hosts.shards import Shards     # most regions have none

            region.shards = Shards(cls.split.work, self.name, self.shards, self.backend, self.shard_timeout)
        return region

    def refuse_split(self, cls: type[Region]) -> None:
        """Raises GraphError where the class cannot be spread over so many processes, or there is no such backend."""
        if self.shards == 1:
            return
        if cls.split is None:
            raise GraphError(f"region {self.name} cannot be spread over {self.shards} processes: {self.cls} declares "
                             f"no `split`; take `shards` away")
        if self.shards > cls.split.most:
            raise GraphError(f"region {self.name} cannot be spread over {self.shards} processes: {self.cls} has "
                             f"columns for {cls.split.most} at most; take fewer `shards`")
        if not is_installed(COLLECTIVES):
            raise GraphError(f"region {self.name} cannot be spread over {self.shards} processes: {lacks(COLLECTIVES)}")
        if self.backend not in names():
            raise GraphError(f"region {self.name}: there is no backend {self.backend!r} for its shards; installed are "
                             f"{', '.join(names()) or 'none'}")

    def _remedy(self, error: ImportError) -> str:
        package = self.cls.partition(".")[0]
        if error.name == package and package in (*PACKAGES, EXPERIMENTS):
            real = "; a real robot has no simulated world: world:=none or --world none" if self.device else ""
            return f"{lacks(package)}{real}"
        return f"install the package, name its folder in PYTHONPATH, or correct `class: {self.cls}`"


@dataclass(frozen=True)
class Graph:
    """Regions of a brain with those of the chosen world.

    Attributes:
        name: for messages.
        regions: those of the world before those of the brain.
        world: its own name; ``none``: there is none.
    """

    name: str
    regions: tuple[RegionSpec, ...]
    world: str = NO_WORLD

    def spec(self, name: str) -> RegionSpec:
        """The entry of that name.

        Raises:
            GraphError: there is none.
        """
        for spec in self.regions:
            if spec.name == name:
                return spec
        raise GraphError(f"graph {self.name} has no region {name!r}; it has "
                         + ", ".join(s.name for s in self.regions))

    def without(self, external: Iterable[str]) -> Graph:
        """The same graph, of which others run the regions named in ``external`` too.

        Raises:
            GraphError: there is no such region, or none is left.
        """
        names = [self.spec(name).name for name in external]
        found = replace(self, regions=tuple(
            replace(s, external=s.external or s.name in names) for s in self.regions))
        if all(s.external for s in found.regions):
            raise GraphError(f"graph {self.name}: all regions are external, so there is none to start")
        return found

    @property
    def external(self) -> tuple[str, ...]:
        """Names of the regions that others run."""
        return tuple(s.name for s in self.regions if s.external)

    @property
    def critical(self) -> tuple[str, ...]:
        """Names of the critical regions other than the brainstem itself, which watches them."""
        return tuple(s.name for s in self.regions if s.critical)


def _region(name: str, entry: Any, where: str, *, device: bool) -> RegionSpec:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise GraphError(f"{where}: a region is called {quoted(str(name))}; its name must consist of letters, digits "
                         f"and _, and not begin with a digit")
    if name in KEPT:
        raise GraphError(f"{where}: a region is called {name}, which `brain up` keeps for {KEPT[name]}; name it "
                         f"otherwise")
    if isinstance(entry, str):
        entry = {"class": entry}
    if not isinstance(entry, dict):
        raise GraphError(f"{where}: region {name} must be a mapping with a `class`, but is {quoted(repr(entry))}")
    known = {"class", "restart", "critical", "remap", "external", "optional", "shards", "copies"}
    odd = set(entry) - known
    if odd:
        raise GraphError(f"{where}: region {name} has unknown keys {_listed(odd)}; known are "
                         + ", ".join(sorted(known)))
    cls = entry.get("class")
    if not isinstance(cls, str) or not _CLASS.fullmatch(cls):
        raise GraphError(f"{where}: region {name} needs `class: package.module:Class`, but has {quoted(repr(cls))}")
    restart = entry.get("restart", "always")
    if restart not in RESTART:
        raise GraphError(f"{where}: restart of region {name} is {quoted(repr(restart))}; it must be "
                         f"{' or '.join(RESTART)}")
    critical, external = entry.get("critical", False), entry.get("external", False)
    remap = entry.get("remap", {})
    if not isinstance(critical, bool) or not isinstance(external, bool) or not isinstance(remap, dict):
        raise GraphError(f"{where}: region {name}: `critical` and `external` must be true or false, `remap` a mapping "
                         f"of topics")
    optional = entry.get("optional", False)
    if not isinstance(optional, bool):
        raise GraphError(f"{where}: region {name}: `optional` must be true or false")
    if optional and critical:
        raise GraphError(f"{where}: region {name} is both critical and optional: the robot must not move without it, "
                         f"so it cannot be left out; take one of the two away")
    for topic in (t for pair in remap.items() for t in pair):
        if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
            raise GraphError(f"{where}: region {name}: {quoted(str(topic))} in `remap` is no name of a topic, such as "
                             f"vision/objects")
    return RegionSpec(name, cls, restart, critical, remap, device, external, optional,
                      *_shards(entry.get("shards", 1), f"{where}: region {name}"),
                      *_copies(entry.get("copies", ""), f"{where}: region {name}"))


def _shards(entry: Any, whose: str) -> tuple[int, str, float]:
    """Count, backend and timeout of what stands behind ``shards``."""
    given = entry if isinstance(entry, dict) else {"count": entry}
    odd = set(given) - {"count", "backend", "timeout"}
    if odd:
        raise GraphError(f"{whose}: `shards` has unknown keys {_listed(odd)}; known are backend, count, timeout")
    count, backend, timeout = given.get("count"), given.get("backend", DEFAULT), given.get("timeout", TIMEOUT)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        raise GraphError(f"{whose}: `shards` must be a whole number of processes, 1 to {MOST}, as in `shards: 2` or "
                         f"`shards: {{count: 2, backend: zenoh}}`, but is {quoted(repr(count))}")
    if not isinstance(backend, str) or not NAME.fullmatch(backend):
        raise GraphError(f"{whose}: the backend of `shards` is {quoted(repr(backend))}; it must be a name, as "
                         f"{DEFAULT} or zenoh")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0.1 <= timeout <= 3600:
        raise GraphError(f"{whose}: the timeout of `shards` is {quoted(repr(timeout))}; it must be s, 0.1 to 3600")
    return count, backend, float(timeout)


def _copies(entry: Any, whose: str) -> tuple[str, float]:
    """Name and time between two means of what stands behind ``copies``."""
    if entry == "":
        return "", EVERY
    given = entry if isinstance(entry, dict) else {"name": entry}
    odd = set(given) - {"name", "every"}
    if odd:
        raise GraphError(f"{whose}: `copies` has unknown keys {_listed(odd)}; known are every, name")
    name, every = given.get("name"), given.get("every", EVERY)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise GraphError(f"{whose}: `copies` must be a name that all copies have in common, as in `copies: eyes` or "
                         f"`copies: {{name: eyes, every: 2.0}}`, but is {quoted(repr(name))}")
    if isinstance(every, bool) or not isinstance(every, (int, float)) or not SHORTEST <= every <= LONGEST:
        raise GraphError(f"{whose}: `every` of `copies` is {quoted(repr(every))}; it must be s, {SHORTEST:g} to "
                         f"{LONGEST:g}")
    return name, float(every)


def _listed(keys: Iterable[Any]) -> str:
    """Keys of others for a message."""
    return quoted(", ".join(sorted(map(str, keys))))[1:-1]


def parse_graph(content: Any, where: str, world: str = NO_WORLD) -> Graph:
    """A graph from the parsed YAML.

    Args:
        content: as read.
        where: what messages call it (the file).
        world: entry of ``worlds`` whose devices join; ``sim`` is the first; ``none`` for a real robot.

    Raises:
        GraphError: the content does not make a graph.
    """
    if not isinstance(content, dict) or not isinstance(content.get("regions"), dict) or not content["regions"]:
        raise GraphError(f"{where}: a graph needs `regions:`, a mapping of names to classes")
    odd = set(content) - {"name", "regions", "worlds"}
    if odd:
        raise GraphError(f"{where}: unknown keys {_listed(odd)}; known are name, regions, worlds")
    worlds = content.get("worlds") or {}
    if not isinstance(worlds, dict) or not all(isinstance(w, str) and isinstance(d or {}, dict)
                                               for w, d in worlds.items()):
        raise GraphError(f"{where}: `worlds` must be a mapping of names to their devices, as `regions` is one")
    regions = [_region(n, e, where, device=False) for n, e in content["regions"].items()]   # whatever the world is
    if world == SIM_WORLD and world not in worlds:
        if not worlds:
            raise GraphError(f"graph {where} has no simulated world; say world:=none or --world none")
        world = next(iter(worlds))
    if world != NO_WORLD and world not in worlds:
        raise GraphError(f"{where}: no world {world!r}; give " + ", ".join([*worlds, f"{NO_WORLD} (a real robot)"]))
    specs = [_region(n, e, where, device=True) for n, e in (worlds.get(world) or {}).items()]
    specs += regions
    twice = {n for n in content["regions"] if n in (worlds.get(world) or {})}
    if twice:
        raise GraphError(f"{where}: {', '.join(sorted(twice))} stands both in the world and in the brain")
    return Graph(str(content.get("name", Path(where).name.split(".")[0]))[:100], tuple(specs), world)


def _read(path: str | Path) -> Any:
    from brain_runtime import yaml_text  # a region's process reads no graph

    try:
        return yaml_text.read(path)
    except OSError as error:
        raise GraphError(f"cannot read graph {path}: {error.strerror}") from error
    except ValueError as error:     # a path with a zero in it, too
        raise GraphError(f"graph {path} is not YAML: {error}") from error


def load_graph(path: str | Path, world: str = NO_WORLD) -> Graph:
    """Reads a graph file; see :func:`parse_graph`.

    Raises:
        GraphError: it cannot be read or is no graph.
    """
    return parse_graph(_read(path), str(path), world)


def load_worlds(path: str | Path) -> list[str]:
    """Names of the worlds that a graph file has, in its order.

    Raises:
        GraphError: it cannot be read or is no graph.
    """
    content = _read(path)
    parse_graph(content, str(path))
    return list(content.get("worlds") or {})


def check_graph(graph: Graph, *, devices: Iterable[str] = ()) -> list[str]:
    """Loads every class and checks every edge.

    Args:
        devices: topics that come from outside the brain besides those declared with ``device=True``.

    Returns:
        Warnings: edges that Zenoh would connect but DDS would not.

    Raises:
        GraphError: an unknown class, a port that nobody feeds, two types or codecs on one topic.
    """
    ends: dict[str, list[tuple[str, In | Out]]] = {}
    for spec in graph.regions:
        for port in spec.load().ports().values():
            ends.setdefault(spec.remap.get(port.topic, port.topic), []).append((spec.name, port))
    outside = set(devices)
    warnings = []
    for topic, users in sorted(ends.items()):
        types = {port.type: name for name, port in users}
        if len(types) > 1:
            raise GraphError(f"graph {graph.name}: topic {topic} has two types: "
                             + ", ".join(f"{t} ({n})" for t, n in types.items())
                             + "; give one of them another name or a remap")
        coded = {port.codec.partition(":")[0]: name for name, port in users if port.codec}
        if len(coded) > 1:
            raise GraphError(f"graph {graph.name}: topic {topic} has two codecs: "
                             + ", ".join(f"{codec} ({name})" for codec, name in coded.items())
                             + "; give one of them another name or a remap")
        writers = [(n, p) for n, p in users if isinstance(p, Out)]
        for name, port in users:
            if not isinstance(port, In):
                continue
            if not writers and not port.device and topic not in outside:
                raise GraphError(f"graph {graph.name}: nobody feeds {topic}, which {name} needs; add a region that "
                                 f"publishes it, or a remap")
            for writer, out in writers:
                why = incompatibility(out.qos, port.qos)
                if why:
                    warnings.append(f"{topic} from {writer} to {name}: DDS would not connect them, since {why}")
    return warnings

# SPDX-License-Identifier: Apache-2.0
"""One answer to what runs: from a graph, a world, a robot and parameters to regions with all that they are given.

Parameters come in layers, each of which wins over those before it:

1. the file beside the graph, ``<name>.params.yaml``;
2. the robot's profile;
3. the user's parameter files, and then the user's values;
4. ablations;
5. what follows from the graph (which regions the brainstem watches) and from the world (its room).

A user's file that says otherwise than 5 is refused: on ROS 2, where launch writes 2 and 5 under the node's full name,
such a file would win over 5.

Files are read as the host reads them: patterns of names count in the order in which they first come
(:mod:`brain_runtime.hosts.ros_args`).
"""
from __future__ import annotations

import copy
import difflib
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Sequence

from brain_runtime.contract import energy as budget
from brain_runtime.contract.ablation import NONE, Ablation
from brain_runtime.contract.copies import CopiesError, copies_of
from brain_runtime.contract.copies import refuse as refuse_copies
from brain_runtime.graph import NO_WORLD, Graph, GraphError, RegionSpec, check_graph, load_graph, load_worlds
from brain_runtime.graph.graphs import DEFAULT, find_graph, params_file
from brain_runtime.hosts.node_parameters import SIM_TIME, known, split
from brain_runtime.contract.region import Region, moves
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_runtime.graph.robots import SIM, Robot, RobotError, load_robot, robot_in
from brain_runtime.hosts.ros_args import RosArgs, fits, of_many, parse
from brain_wire.names import expand
from brain_wire.parameters import ParameterError
from brain_wire.safe_text import plain, quoted

HOSTS = ("zenoh", "ros", "local", "torch")
ROOM_OF = frozenset(("split", "seed"))      # the parameters of a region that shows a simulated room,
ROOM = ROOM_OF | {"request"}                # and those that some have
Values = Mapping[str, Mapping[str, Any]]     # by region and name


def resolve(graph: str | Path = DEFAULT, world: str = NO_WORLD, robot: str | None = "", *,
            parameters: Values | None = None, files: Iterable[str | Path] = (), ablation: Ablation = NONE,
            namespace: str = "", host: str = "zenoh", external: Iterable[str] = (),
            join: Mapping[str, str] | None = None, room: Mapping[str, Any] | None = None, energy: float = 0.0,
            edges: bool = True) -> Resolved:
    """Resolves a graph into the brain that runs.

    It imports the regions' modules; see :mod:`brain_runtime.graph.inspect_graph` for who must not.

    Args:
        graph: name or path.
        world: ``none``; ``sim``, the graph's first; or the name of one of its worlds.
        robot: name or path of a profile. Empty: the simulated robot's, with a world; without one a profile must be
            named where a region takes anything from it. None: no profile counts; the classes' defaults are the
            simulated robot's.
        parameters: the user's values, by region.
        files: the user's ROS parameter files; later ones win.
        ablation: what is taken away or replaced.
        namespace: of all nodes.
        host: of the regions: ``zenoh``, ``ros``, ``local`` or ``torch``.
        external: names of regions that others run, beside those of which the graph says so.
        join: more regions, ``package.module:Class`` by name.
        room: ``seed``, ``split`` and ``request`` of the simulated room, for regions that have the first two as
            parameters; None: their defaults.
        energy: budget of each region of the brain (B/s) where no layer gives another; 0: none.
        edges: every port must be fed; false where what runs may be a part of a brain.

    Raises:
        GraphError: a graph, world, class, edge or region that there is not, or that cannot be; an ablation of such.
        RobotError: a profile that there is not, that does not fit, or that must be named and is not.
        RosArgsError: a parameter file cannot be read or is none.
        ParameterError: a parameter that there is not, a value that does not fit, or one in a user's file that
            follows from the graph or the world.
        ValueError: an unknown host.
    """
    if host not in HOSTS:
        raise ValueError(f"there is no host {host!r}; there are {', '.join(HOSTS)}")
    path = find_graph(str(graph))
    loaded = load_graph(path, world)
    if robot:
        robot_in(loaded.world, robot)
    loaded, warnings = _without_missing(loaded.without(external))
    loaded = replace(loaded, regions=loaded.regions + tuple(
        RegionSpec(name, cls) for name, cls in (join or {}).items()))
    profile = None if robot is None else load_robot(robot or SIM)
    profiles: Values = {}
    if profile is not None:
        loaded = profile.on(loaded)
        profiles = profile.parameters(loaded)
    loaded = _ablated(loaded, ablation)
    classes = {spec.name: spec.load() for spec in loaded.regions}
    if host == "torch" and loaded.world == NO_WORLD:
        _refuse_unstoppable(profile, classes.values())
    loaded, more = _split(loaded, classes, ablation)
    warnings += more
    loaded, more = _uncopied(loaded, ablation)
    warnings += more
    if edges:
        warnings += check_graph(loaded)
    warnings += [f"region {spec.name}: {idle}" for spec in loaded.regions if (idle := classes[spec.name].idle())]
    if loaded.world == NO_WORLD and profile is not None and profile.command_timeout is None \
            and any(map(moves, classes.values())):
        warnings.append(NO_TIMEOUT.format(profile.name))
    if loaded.world == NO_WORLD and profile is not None and profile.unheard and host in ("zenoh", "torch"):
        warnings.append(profile.unheard)
    if robot == "" and (profiles or loaded.world != NO_WORLD):
        robot = robot_in(loaded.world)
    given, beside = tuple(map(Path, files)), params_file(path)
    space = "/" + namespace.strip("/")
    profiles = {name: {key: value for key, value in values.items() if key in _names(classes[name])}
                for name, values in profiles.items()}   # an ablation's class may have fewer
    follow = {spec.name: {**_of_room(classes[spec.name], room), **_of_graph(spec.name, classes, loaded)}
              for spec in loaded.regions}
    own = {spec.name: {**(parameters or {}).get(spec.name, {}), **ablation.parameters.get(spec.name, {}),
                       **follow[spec.name]} for spec in loaded.regions}
    first = RosArgs()
    if beside:
        first.add_file(str(beside))
    read = RosArgs() if host == "ros" else copy.deepcopy(first)
    for spec in loaded.regions:     # launch writes the node's full name, `brain up` one that fits in every namespace
        below = profiles.get(spec.name, {})
        if host == "ros":
            below = {**first.parameters(spec.name, space, known(classes[spec.name].Parameters)), **below}
        if below:
            read.add_values(f"{space.rstrip('/')}/{spec.name}" if host == "ros" else f"/**/{spec.name}", below)
    for file in given:
        read.add_file(str(file))
        _refuse_otherwise(file, follow, space, path)
    warnings += _of_nobody((*filter(None, (beside,)), *given), _everybody(path, loaded), classes, space)
    regions = tuple(_region(spec, classes[spec.name], space, _final(read, spec, classes[spec.name], space, host, own,
                                                                    energy), profiles, own,
                            first.parameters(spec.name, space, known(classes[spec.name].Parameters)))
                    for spec in loaded.regions)
    warnings += _copies(regions, classes, host)
    return Resolved(loaded.name, regions, path, loaded.world, robot or None, host, space, beside, given,
                    tuple(warnings))


def resolve_region(region: str, graph: str | Path = DEFAULT, robot: str = "", *, name: str | None = None,
                   namespace: str = "", arguments: Sequence[str] = ()) -> Resolved:
    """Resolves one region that joins a brain that is running: a graph of that region alone.

    Args:
        region: of the graph or of one of its worlds, by its name; or any class as ``package.module:Class``.
        graph: name or path.
        robot: name or path of a profile; empty: none was named, see :func:`refuse_nameless`.
        name: of the region; None: as in the graph, or the class's in lower case.
        namespace: of the node.
        arguments: the user's, as behind ``--ros-args``; they win over files and profile, and may rename the node.

    Returns:
        ``namespace``, topics and parameters are those after ``arguments``; ``profile`` is for the node's new name.

    Raises:
        GraphError, RobotError, RosArgsError, ParameterError: see :func:`resolve`.
    """
    path = None if ":" in region else find_graph(str(graph))
    spec = RegionSpec(_profiled(region, name), region) if path is None else _find(path, region)
    spec = replace(spec, external=False)
    cls = spec.load()
    idle = cls.idle()
    profile = load_robot(robot or SIM)
    alone = profile.on(Graph("alone", (spec,)))
    values = {**(_of_others(cls, path) if path else {}), **profile.parameters(alone).get(spec.name, {})}
    beside = params_file(path) if path else None
    named = [*(["-r", f"__ns:=/{namespace.strip('/')}"] if namespace.strip("/") else []), *arguments]
    user, _ = parse(["--ros-args", *named])
    name = name or spec.name
    node, space = user.node_name(name), user.namespace(name)
    read = RosArgs()
    for topic, other in alone.regions[0].remap.items():
        read.add_remap(f"{topic}:={other}")
    if beside:
        read.add_file(str(beside))
    read.add_values(f"/**/{node}", values)
    read, _ = parse(["--ros-args", *named], read)
    found = _region(replace(alone.regions[0], name=node), cls, space,
                    read.parameters(node, space, known(cls.Parameters)), {node: values}, {},
                    {}, lambda topic: _shown(read, topic, node, space))
    return Resolved("alone", (found,), path, robot=robot or None, namespace=space, beside=beside,
                    warnings=(f"region {node}: {idle}",) if idle else ())


def _profiled(region: str, name: str | None) -> str:
    """By which name a profile knows a region, or a class that is called ``name`` where it joins."""
    return name or region.rpartition(":")[2].lower() if ":" in region else region


def refuse_nameless(region: str, name: str | None = None) -> None:
    """Raises RobotError if a region takes limits of its own from a profile: then the robot must be named."""
    known = _profiled(region, name)
    if known in load_robot(SIM).regions:
        raise RobotError(f"{known} takes limits of the robot from its profile; name it with --robot: {SIM} for the "
                         f"simulated one, or as docs/new-robot.md says")


# -- the graph -----------------------------------------------------------------------------------------------------


def _without_missing(graph: Graph) -> tuple[Graph, list[str]]:
    """The graph without optional regions whose package is not installed, and a warning for each of those."""
    missing = [spec for spec in graph.regions if spec.lacks_package()]
    left = tuple(spec for spec in graph.regions if spec not in missing)
    if not left:
        raise GraphError(f"graph {graph.name}: no region is left, since the packages of all of them are not installed")
    return replace(graph, regions=left), [
        f"region {spec.name} is left out: the package {spec.cls.partition(':')[0].partition('.')[0]} is not installed, "
        f"and graph {graph.name} calls it optional" for spec in missing]


def _ablated(graph: Graph, ablation: Ablation) -> Graph:
    """The graph with other classes."""
    for name in ablation.classes:
        if name not in {spec.name for spec in graph.regions}:
            raise GraphError(f"an ablation replaces the region {name}, which graph {graph.name} does not have")
    return replace(graph, regions=tuple(
        replace(spec, cls=ablation.classes.get(spec.name, spec.cls)) for spec in graph.regions))


def _split(graph: Graph, classes: Mapping[str, type[Region]], ablation: Ablation) -> tuple[Graph, list[str]]:
    """The graph with regions in one process that an ablation made others which cannot be split, and a warning each."""
    whole = {spec.name for spec in graph.regions
             if spec.shards > 1 and spec.name in ablation.classes and classes[spec.name].split is None}
    for spec in graph.regions:
        if spec.name not in whole and not spec.external:
            spec.refuse_split(classes[spec.name])
    return replace(graph, regions=tuple(replace(spec, shards=1) if spec.name in whole else spec
                                        for spec in graph.regions)), [
        f"region {name} is not spread over processes: an ablation makes it {ablation.classes[name]}, which cannot be"
        for name in sorted(whole)]


def _uncopied(graph: Graph, ablation: Ablation) -> tuple[Graph, list[str]]:
    """The graph in which what an ablation has made another region is no copy any more, and a warning for each."""
    names = [spec.name for spec in graph.regions if spec.copies and spec.name in ablation.classes]
    left = replace(graph, regions=tuple(replace(spec, copies="") if spec.name in names else spec
                                        for spec in graph.regions))
    alone = {one.name for one in copies_of((s.name, s.copies, s.average_every) for s in left.regions)
             if len(one.members) == 1} if names else set()
    return replace(left, regions=tuple(replace(spec, copies="") if spec.copies in alone else spec
                                       for spec in left.regions)), [
        f"region {name} is no copy: an ablation makes it {ablation.classes[name]}" for name in names]


def _copies(regions: Sequence[ResolvedRegion], classes: Mapping[str, type[Region]], host: str) -> list[str]:
    """Warnings of copies of which no mean is made. Raises GraphError where regions cannot be copies of each other."""
    found = copies_of((region.name, region.copies, region.average_every) for region in regions if not region.external)
    for one in found:
        try:
            refuse_copies(one, classes, {region.name: region.parameters for region in regions},
                          {region.name: region.average_every for region in regions})
        except CopiesError as error:
            raise GraphError(str(error)) from error
    return [] if host in ("local", "torch") else [
        f"copies {one.name} ({', '.join(one.members)}): regions that come and go by themselves are not averaged; each "
        f"keeps its own {', '.join(classes[one.members[0]].adaptive)}. A static group averages: --host torch"
        for one in found if classes[one.members[0]].adaptive]


def _find(path: Path, region: str) -> RegionSpec:
    """The entry of a region in the graph or in one of its worlds."""
    graph = load_graph(path)
    known = {spec.name: spec for spec in graph.regions}
    for world in load_worlds(path):
        known |= {spec.name: spec for spec in load_graph(path, world).regions}
    if region not in known:
        raise GraphError(f"graph {graph.name} has no region {region!r}; it has {', '.join(known)}. A class of your own "
                         f"is named module:Class")
    return known[region]


NO_TIMEOUT = ("robot {} names no command_timeout: where all processes of the brain are killed at once (a container, a "
              "control group, the computer's power), the base alone can stop. Measure how long it goes on "
              "(docs/new-robot.md) and add `command_timeout: SECONDS` to the profile")


def _refuse_unstoppable(profile: Robot | None, classes: Iterable[type[Region]]) -> None:
    """Raises RobotError where a real base is to be commanded that may not stop by itself."""
    if profile is not None and profile.command_timeout is None and any(map(moves, classes)):
        raise RobotError(f"robot {profile.name} ({profile.path}) names no command_timeout. In a static group the "
                         f"brainstem waits for the other regions, and cannot stop the robot meanwhile: the base itself "
                         f"must, so long after the last command. Measure it (docs/new-robot.md) and add "
                         f"`command_timeout: SECONDS`, or leave --host torch out")


# -- parameters ----------------------------------------------------------------------------------------------------


def _names(cls: type[Region]) -> set[str]:
    """Names of a region's parameters."""
    return {field.name for field in fields(cls.Parameters)}


def _of_graph(name: str, classes: Mapping[str, type[Region]], graph: Graph) -> dict[str, Any]:
    """Returns the parameters of a region that follow from the graph itself.

    The brainstem watches the other critical regions, and introspection shows the populations of all of them.
    """
    known, found = _names(classes[name]), {}
    if "critical" in known:
        found["critical"] = [other for other in graph.critical if other != name]
    if "populations" in known and (told := _told(classes)):
        found["populations"] = told
    return found


def _told(classes: Mapping[str, type[Region]]) -> list[str]:
    """Names by which populations are told from each other, of those that regions by name publish spikes of."""
    return list(dict.fromkeys(population.rate or f"{name}/{population.name}" for name, cls in classes.items()
                              for population in cls.populations if population.told))


def _of_others(cls: type[Region], path: Path) -> dict[str, Any]:
    """Returns the parameters of a region that joins, on the graph's others whose packages are installed here."""
    if "populations" not in _names(cls):
        return {}
    others = {}
    for spec in load_graph(path).regions:
        with suppress(GraphError):      # it runs on another machine, and is installed there alone
            others[spec.name] = spec.load()
    told = _told(others)
    return {"populations": told} if told else {}


def _of_room(cls: type[Region], room: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the parameters that follow from the simulated room, for the region that shows it."""
    known = _names(cls)
    return {key: value for key, value in (room or {}).items() if key in known & ROOM} if ROOM_OF <= known else {}


def _refuse_otherwise(file: Path, follow: Values, namespace: str, graph: Path) -> None:
    """Raises ParameterError where a user's file gives other values than follow from the graph and the world."""
    said = RosArgs()
    said.add_file(str(file))
    for region, values in follow.items():
        given = said.parameters(region, namespace)
        for name, value in values.items():
            if name in given and given[name] != value:
                why, remedy = ((f"the graph {graph}", "and change the graph if need be") if name not in ROOM else
                               ("the room that was asked for", "and ask for another room with --split and --seed, or "
                                "split:= and seed:= of launch"))
                raise ParameterError(f"parameter file {file} gives {name} of {region} as {quoted(str(given[name]))}, "
                                     f"but it follows from {why}: {quoted(str(value))}; take it out of the file, "
                                     f"{remedy}")


def _everybody(path: Path, graph: Graph) -> list[str]:
    """Names of all regions of a graph, and of all devices of its worlds, whichever of them run."""
    return list(dict.fromkeys(spec.name for one in (graph, *(load_graph(path, world) for world in load_worlds(path)))
                              for spec in one.regions))


def _of_nobody(files: Iterable[Path], names: Sequence[str], classes: Mapping[str, type[Region]], namespace: str
               ) -> list[str]:
    """Warnings of what parameter files say for nodes that there are not.

    It may be meant for nodes of others, so it is no error. That some regions do not have what a file says of many is no
    fault at all, unless it looks like a wrongly written name that one of them has.
    """
    found = []
    nodes = {name: f"{namespace.rstrip('/')}/{name}" for name in names}
    for file in files:
        said = RosArgs()
        said.add_file(str(file))
        for pattern, values in said.patterns().items():
            mine = [name for name, node in nodes.items() if fits(pattern, node) or pattern == f"/{name}"]
            if not mine:
                near = difflib.get_close_matches(pattern.rpartition("/")[2], names, 1)
                found.append(f"parameter file {file}: no region is called {plain(pattern)}, so nothing of this brain "
                             f"takes what stands below it; "
                             + (f"did you mean {nodes[near[0]]}?" if near else f"there are {', '.join(names)}"))
            elif of_many(pattern):
                has = set().union(*(known(classes[name].Parameters) for name in mine if name in classes))
                found += [f"parameter file {file}: no region has a parameter {plain(name)}, which stands below "
                          f"{plain(pattern)}; did you mean {near[0]}?" for name in values if name not in has
                          for near in [difflib.get_close_matches(name, has, 1, 0.8)] if near]
    return found


def _of_lockstep(spec: RegionSpec, cls: type[Region], energy: float) -> dict[str, Any]:
    """Returns the parameters that regions are given in lockstep unless something else is said.

    Nobody hears spikes there, so they are not made, unless it is to be known what they take on a wire.
    """
    spikes = {"spikes": bool(energy)} if "spikes" in _names(cls) else {}
    return {**spikes, **({budget.PARAMETER: energy} if energy and not spec.device else {})}


def _final(read: RosArgs, spec: RegionSpec, cls: type[Region], namespace: str, host: str, own: Values, energy: float
           ) -> dict[str, Any]:
    """All that a node is given, as its host takes it from files and the command line."""
    if host == "local":
        return {**_of_lockstep(spec, cls, energy), **read.parameters(spec.name, namespace, known(cls.Parameters)),
                **own[spec.name]}
    everything = copy.deepcopy(read)
    everything.add_values(f"{namespace.rstrip('/')}/{spec.name}" if host == "ros" else "/**", own[spec.name])
    return everything.parameters(spec.name, namespace, known(cls.Parameters))


def _region(spec: RegionSpec, cls: type[Region], namespace: str, values: Mapping[str, Any], profiles: Values,
            own: Values, beside: Mapping[str, Any], renamed: Callable[[str], str] | None = None) -> ResolvedRegion:
    """A region with all that is known of it; checks what it is given.

    Raises:
        ParameterError: what it is given does not fit.
    """
    split(spec.name, cls.Parameters, values)
    default = {budget.PARAMETER: 0.0, SIM_TIME: False, **{
        name: getattr(cls.Parameters(), name) for name in _names(cls)}}
    differs = tuple(name for name, value in values.items()
                    if (tuple(value) if isinstance(value, list) else value) != default.get(name))
    renamed = renamed or (lambda topic: spec.remap.get(topic, topic))
    publishes, hears, actions, asks = (tuple(renamed(port.topic) for port in declared.values()) for declared in (
        cls.would_publish(values), cls.inputs(), cls.actions(), cls.asks()))
    return ResolvedRegion(
        spec.name, spec.cls, namespace, spec.critical, spec.restart, spec.device, spec.external, spec.remap, values,
        differs, beside, profiles.get(spec.name, {}), own.get(spec.name, {}), hears, publishes, actions,
        tuple(renamed(port.topic) for port in cls.inputs().values() if port.trigger), cls.rate,
        moves(cls), spec.shards, spec.backend, spec.shard_timeout, spec.copies, spec.average_every, asks)


def _shown(read: RosArgs, topic: str, node: str, namespace: str) -> str:
    """The name of a topic after all rules: as it is declared where none fits, else in full."""
    found = read.topic(topic, node, namespace)
    return topic if found == expand(topic, namespace, node) else found

# SPDX-License-Identifier: Apache-2.0
"""``brain run``: joins one region to a brain that is running, on this machine or from another one."""
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from brain.options import Domain, Namespace, Router, Secure, fail, use_domain, use_security


def run(context: typer.Context,
        region: Annotated[str, typer.Argument(help="Region of the graph by its name, or any class as module:Class.")],
        graph: Annotated[str, typer.Option(help="Graph: a name or a path.")] = "brain",
        robot: Annotated[str, typer.Option(help="The robot's profile, as of `brain up`: a name or a path.")] = "sim",
        name: Annotated[str | None, typer.Option(help="Node name. Default: the region's, or the class's in lower case.")
                        ] = None,
        param: Annotated[list[str] | None, typer.Option("--param", "-p", metavar="NAME:=VALUE",
                                                        help="Parameter, as in ROS.")] = None,
        params_file: Annotated[list[Path] | None, typer.Option(help="ROS parameter file, over the robot's profile.")
                               ] = None,
        remap: Annotated[list[str] | None, typer.Option("--remap", "-r", metavar="FROM:=TO",
                                                        help="Other name for a topic, as in ROS.")] = None,
        seed: Annotated[int, typer.Option(min=0, help="Seed of the random stream.")] = 0,
        state_dir: Annotated[Path | None, typer.Option(help="Folder for snapshots. Default: none are kept.")] = None,
        router: Router = None, secure: Secure = None, domain: Domain = None,
        namespace: Namespace = "") -> None:
    """Joins one region to a brain that is running, until Ctrl-C.

    A sensor that nobody knew of before: brain run brain_sim.strangers:Sonar. What stands behind --ros-args is taken
    as every ROS 2 node takes it.
    """
    use_domain(domain)
    use_security(secure)
    if context.args and context.args[0] != "--ros-args":
        fail(f"unknown argument {context.args[0]}; see `brain run --help`. ROS arguments stand behind --ros-args", 2)
    from brain import graphs
    from brain.robots import RobotError, load_robot, write_parameters
    from brain.up import state_home
    from brain_runtime.graph import Graph, GraphError, RegionSpec

    path = None
    try:
        if ":" in region:
            cls = region
            name = name or region.rpartition(":")[2].lower()
            spec = RegionSpec(name, cls)
        else:
            path = graphs.find_graph(graph)
            spec = _find(path, region)
            name = name or spec.name
        sys.path.insert(0, os.getcwd())  # a class of one's own, without installing it
        loaded = spec.load()
        profile = load_robot(robot)
        alone = profile.on(Graph("alone", (spec,)))
        given = profile.parameters(alone).get(spec.name, {})
        spec = alone.spec(spec.name)
        files = [write_parameters({name: given}, state_home() / "joined" / f"{name}.params.yaml")] if given else []
    except (GraphError, RobotError, OSError) as error:
        fail(str(error))
    argv = [sys.executable, "-m", "brain_runtime.process", "--class", spec.cls, "--name", name, "--seed", str(seed)]
    if state_dir is not None:
        argv += ["--state-dir", str(state_dir)]
    if router is not None:
        argv += ["--router", router]
    if spec.critical:
        argv.append("--critical")
    argv.append("--ros-args")
    if namespace:
        argv += ["-r", f"__ns:=/{namespace.strip('/')}"]
    for topic, other in spec.remap.items():
        argv += ["-r", f"{topic}:={other}"]
    for rule in remap or ():
        argv += ["-r", rule]
    beside = graphs.params_file(path) if path else None
    for file in [*([beside] if beside else []), *files, *(params_file or ())]:
        argv += ["--params-file", str(file)]
    for value in param or ():
        argv += ["-p", value]
    argv += [a for a in context.args if a != "--ros-args"]  # -p and -r were taken as the options of the same names
    ports = [f"hears {p.topic}" for p in loaded.inputs().values()]
    ports += [f"says {p.topic}" for p in loaded.outputs().values()]
    typer.secho(f"{name} ({spec.cls}) {', '.join(ports)}; Ctrl-C ends it", fg="green", err=True)
    sys.stderr.flush()
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.execv(sys.executable, argv)


def _find(path: Path, region: str):
    """The entry of a region in the graph or in one of its worlds."""
    from brain_runtime.graph import GraphError, load_graph, load_worlds

    graph = load_graph(path)
    known = {spec.name: spec for spec in graph.regions}
    for world in load_worlds(path):
        known |= {spec.name: spec for spec in load_graph(path, world).regions}
    if region not in known:
        raise GraphError(f"graph {graph.name} has no region {region!r}; it has {', '.join(known)}. A class of your own "
                         f"is named module:Class")
    return known[region]

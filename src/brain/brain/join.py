# SPDX-License-Identifier: Apache-2.0
"""``brain run``: joins one region to a brain that is running, on this machine or from another one."""
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from brain_runtime.command.options import (
    Domain, Json, Namespace, Router, Secure, check_folder, fail, tell, tell_json, use_domain, use_security)


def run(context: typer.Context,
        region: Annotated[str, typer.Argument(help="Region of the graph by its name, or any class as module:Class.")],
        graph: Annotated[str, typer.Option(help="Graph: a name or a path.")] = "brain",
        robot: Annotated[str | None, typer.Option(help="The robot's profile, as of `brain up`: a name or a path. It "
                                                  "must be named for a region that moves the robot.")] = None,
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
        as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
        namespace: Namespace = "") -> None:
    """Joins one region to a brain that is running, until Ctrl-C.

    A sensor that nobody knew of before: brain run brain_sim.strangers:Sonar. What stands behind --ros-args is taken
    as every ROS 2 node takes it.
    """
    number = use_domain(domain)
    use_security(secure)
    if context.args and context.args[0] != "--ros-args":
        fail(f"unknown argument {context.args[0]}; see `brain run --help`. ROS arguments stand behind --ros-args", 2)
    check_folder(state_dir, "--state-dir")
    from brain.up import refuse_twice
    from brain_runtime import given, graphs
    from brain_runtime import ros_args
    from brain_runtime.crew import CrewError, router_endpoint
    from brain_runtime.graph import Graph, GraphError, RegionSpec
    from brain_runtime.robots import SIM, RobotError, load_robot, write_parameters
    from brain_runtime.runs import state_home
    from brain_wire import NameProblem, NoRouter, SessionProblem
    from brain_wire.parameters import ParameterError
    from brain_wire.router import is_router
    from brain_wire.session import session_config

    path = None
    try:
        if ":" in region:
            name = name or region.rpartition(":")[2].lower()
            spec = RegionSpec(name, region)
        else:
            path = graphs.find_graph(graph)
            spec = _find(path, region)
            name = name or spec.name
        sys.path.insert(0, os.getcwd())  # a class of one's own, without installing it
        loaded = spec.load()
        profile = load_robot(robot or SIM)
        alone = profile.on(Graph("alone", (spec,)))
        robots = profile.parameters(alone).get(spec.name, {})
        spec = alone.spec(spec.name)
        beside = graphs.params_file(path) if path else None
        files = [[*([beside] if beside else [])], [], params_file or ()]    # the later ones win
        rules = [*(f"{topic}:={other}" for topic, other in spec.remap.items()), *(remap or ())]
        asked, _ = ros_args.parse(_ros(namespace, rules, files, param, context.args))
        node, space = asked.node_name(name), asked.namespace(name)
        given.check(node, space, loaded.Parameters, asked)
        session_config(router, node)    # raises where the credentials or settings are none
        endpoint = router_endpoint(router)
        if is_router(endpoint):     # else the region waits for one, and is the first there
            refuse_twice([node], endpoint, space, number, node)
        if robot is None and spec.name in profile.regions:
            raise RobotError(f"{spec.name} takes limits of the robot from its profile; name it with --robot: {SIM} for "
                             f"the simulated one, or as docs/new-robot.md says")
        if robots:
            file = state_home() / "joined" / f"{number}{space.rstrip('/').replace('/', '_')}_{node}.params.yaml"
            files[1] = [write_parameters({node: robots}, file)]
    except (GraphError, RobotError, CrewError, NoRouter, OSError) as error:
        fail(str(error))
    except (ParameterError, ros_args.RosArgsError, NameProblem, SessionProblem) as error:
        fail(str(error), 2)     # as the region's process would, to which these belong
    argv = [sys.executable, "-m", "brain_runtime.process", "--class", spec.cls, "--name", name, "--seed", str(seed)]
    if state_dir is not None:
        argv += ["--state-dir", str(state_dir)]
    if router is not None:
        argv += ["--router", router]
    if spec.critical:
        argv.append("--critical")
    hears, says = ([p.topic for p in ports.values()] for ports in (loaded.inputs(), loaded.outputs()))
    if as_json:
        tell_json({"node": f"{space.rstrip('/')}/{node}", "class": spec.cls, "hears": hears, "says": says}, None)
    else:
        ports = [*(f"hears {topic}" for topic in hears), *(f"says {topic}" for topic in says)]
        tell(f"{name} ({spec.cls}) {', '.join(ports)}; Ctrl-C ends it", "green", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.execv(sys.executable, [*argv, *_ros(namespace, rules, files, param, context.args)])


def _ros(namespace: str, rules: list[str], files: list, param: list[str] | None, more: list[str]) -> list[str]:
    """The command line's part for ROS."""
    argv = ["--ros-args"]
    if namespace.strip("/"):
        argv += ["-r", f"__ns:=/{namespace.strip('/')}"]
    for rule in rules:
        argv += ["-r", rule]
    for file in (file for some in files for file in some):
        argv += ["--params-file", str(file)]
    for value in param or ():
        argv += ["-p", value]
    return [*argv, *(a for a in more if a != "--ros-args")]     # -p and -r were taken as the options of the same names


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


run.context_settings = {"allow_extra_args": True, "ignore_unknown_options": True}

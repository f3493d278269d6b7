# SPDX-License-Identifier: Apache-2.0
"""``brain run``: joins one region to a brain that is running, on this machine or from another one."""
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Iterable

import typer

from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, check_folder, fail, takes_more,
                                           tell, tell_json, use_domain, use_security)


@takes_more
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

    A plug-in sensor, used from its first message on: brain run brain_sim.plugin_sensors:Sonar. What stands behind
    --ros-args is taken as every ROS 2 node takes it.
    """
    number = use_domain(domain)
    use_security(secure)
    if context.args and context.args[0] != "--ros-args":
        fail(f"unknown argument {context.args[0]}; see `brain run --help`. ROS arguments stand behind --ros-args", 2)
    check_folder(state_dir, "--state-dir")
    from brain_runtime.share import state_home
    from brain_runtime.graph.command_lines import arguments
    from brain_runtime.supervision.supervised_brain import StartError, refuse_twice, router_endpoint
    from brain_runtime.graph import GraphError
    from brain_wire.parameters import ParameterError
    from brain_runtime.graph.resolve import refuse_nameless, resolve_region
    from brain_runtime.graph.robots import RobotError, write_parameters
    from brain_runtime.hosts.ros_args import RosArgsError
    from brain_wire.router import is_router
    from brain_wire import NameProblem, NoRouter, SessionProblem
    from brain_wire.session import session_config

    rules, files, values = list(remap or ()), list(params_file or ()), list(param or ())
    more = [word for word in context.args if word != "--ros-args"]  # -p and -r were taken as the options of these names
    try:
        resolved = resolve_region(region, graph, robot or "", name=name, namespace=namespace,
                                  arguments=_words(rules, files, values, more))
        (found,) = resolved.regions
        session_config(router, found.name)    # raises where the credentials or settings are none
        endpoint = router_endpoint(router)
        if is_router(endpoint):     # else the region waits for one, and is the first there
            refuse_twice([found.name], endpoint, found.namespace, number, found.name)
        if robot is None:
            refuse_nameless(region, name)
        profile = []
        if found.profile:
            where = f"{number}{found.namespace.rstrip('/').replace('/', '_')}_{found.name}.params.yaml"
            profile = [write_parameters({found.name: found.profile}, state_home() / "joined" / where)]
    except (GraphError, RobotError, StartError, NoRouter, OSError) as error:
        fail(str(error))
    except (ParameterError, RosArgsError, NameProblem, SessionProblem) as error:
        fail(str(error), 2)     # as the region's process would, to which these belong
    argv = [sys.executable, "-m", "brain_runtime.process", *arguments(found, seed, state_dir, router)]
    ros = ["-r", f"__ns:=/{namespace.strip('/')}"] if namespace.strip("/") else []
    ros += _words([*(f"{topic}:={other}" for topic, other in found.remap.items()), *rules],
                  [*filter(None, [resolved.beside]), *profile, *files], values, more)
    for warning in resolved.warnings:
        tell(f"warning: {warning}", "yellow", err=True)
    if as_json:
        tell_json({"node": found.node, "class": found.cls, "hears": found.hears, "says": found.publishes}, None)
    else:
        ports = [*(f"hears {topic}" for topic in found.hears), *(f"says {topic}" for topic in found.publishes)]
        tell(f"{found.name} ({found.cls}) {', '.join(ports)}; Ctrl-C ends it", "green", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.execv(sys.executable, [*argv, "--ros-args", *ros])


def _words(rules: Iterable[str], files: Iterable[Path], values: Iterable[str], more: Iterable[str]) -> list[str]:
    """Rules, files and parameters as they stand behind ``--ros-args``."""
    return [*(word for rule in rules for word in ("-r", rule)),
            *(word for file in files for word in ("--params-file", str(file))),
            *(word for value in values for word in ("-p", value)), *more]

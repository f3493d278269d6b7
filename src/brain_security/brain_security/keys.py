# SPDX-License-Identifier: Apache-2.0
"""``brain keys`` and ``brain policy``: from the graph to who may do what, for Zenoh and for SROS2."""
from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from brain_runtime.command.options import Domain, Json, Namespace, fail, tell, tell_json, use_domain

Graph = Annotated[str, typer.Option("--graph", help="Graph: a name or a path.")]
World = Annotated[str, typer.Option("--world", help="Simulated world of the graph: its name, or sim for the first; "
                                    "none: a real robot.")]
Robot = Annotated[str | None, typer.Option("--robot", help="The robot's profile, as of `brain up`: a name or a path.")]
Operators = Annotated[list[str] | None, typer.Option(
    "--operator", metavar="NAME", help="Who, beside `operator`, may tell the brain what to do, stop it, and read.")]
Maintainers = Annotated[list[str] | None, typer.Option(
    "--maintainer", metavar="NAME", help="Who may change parameters and lifecycle states too. Default: nobody.")]
Edge = Annotated[bool, typer.Option("--edge", help="The robot is one of a fleet: rights for its `brain edge`, a "
                                    "maintainer's, and to say what the robot's devices measure.")]
Devices = Annotated[list[str] | None, typer.Option("--device-topic", metavar="TOPIC", help="With --edge: a topic of "
                                                   "the robot's devices that is not below devices/.")]
DeviceFiles = Annotated[list[Path] | None, typer.Option("--device", metavar="FILE", help="Devices, as `brain "
                                                        "devices run` takes them: keys for each, with rights for its "
                                                        "own topics only.")]
DEVICE_REGIONS = "brain_edge.devices.rights"   # which a robot without devices need not have


def keys(folder: Annotated[Path, typer.Argument(help="Where they are kept; made if it is not there.")],
         graph: Graph = "brain", robot: Robot = None, world: World = "sim",
         days: Annotated[float, typer.Option(min=0.001, help="Days until new certificates end.")] = 365.0,
         host: Annotated[list[str] | None, typer.Option(
             metavar="NAME", help="Name or address of the router's machine, for others that connect to it; of the "
             "server's, with --server. Default: this machine's.")] = None,
         operator: Operators = None, maintainer: Maintainers = None, edge: Edge = False,
         device_topic: Devices = None, device: DeviceFiles = None, node: Annotated[list[str] | None, typer.Option(
             "--node", metavar="ROBOT", help="A robot of a fleet. The folder is then the fleet's, for `brain cloud`, "
             "and knows no graph; robots that it has keep their rights.")] = None,
         server: Annotated[list[str] | None, typer.Option(
             "--server", metavar="NAME", help="A program that people connect to and that is no node, as `parameters` "
             "for `brain parameter-server`. It has no rights at the router.")] = None,
         renew: Annotated[bool, typer.Option("--renew", help="Make all keys anew, signed by the same authority.")
                          ] = False,
         new_authority: Annotated[bool, typer.Option("--new-authority", help="Make the authority anew too: what it "
                                                     "signed before is of no use any more.")] = False,
         as_json: Json = False, domain: Domain = None, namespace: Namespace = "") -> None:
    """Makes keys and access rules for a graph: for the router, each region, and those who operate the brain.

    Run it again after the graph has changed: it adds keys for new regions, writes the rules anew, and leaves the keys
    that are there alone.
    """
    devices = _devices(edge, device_topic)
    number, rights, about = _fleet(folder, node or [], operator, maintainer, devices)
    if not rights:
        number, rights, about = _rights(graph, robot, world, domain, namespace, operator, maintainer, devices,
                                        device or [])
    hears = about.pop("hears", False)
    from brain_security.certificates import CertificateError
    from brain_security.folder import FolderError, fill
    from brain_wire import NameProblem
    from brain_wire.names import absolute

    try:
        done = fill(folder, rights, domain=number, namespace=absolute(namespace), about=about, days=days,
                    hosts=host or (), servers=server or (), renew=renew, new_authority=new_authority,
                    away=_away(folder) if "robots" in about else None)
    except (FolderError, CertificateError, NameProblem) as error:
        fail(str(error))
    if as_json:
        tell_json({"folder": str(folder.absolute()), "domain": number, "namespace": absolute(namespace), **about,
                   "made": list(done.made), "kept": list(done.kept), "left": list(done.left)}, None)
        return
    if done.made:
        tell(f"made: {', '.join(done.made)}")
    if done.kept:
        tell(f"kept: {', '.join(done.kept)}")
    for name in done.left:
        tell(f"{name} is not in the graph any more: it has no rights; its key is kept", "yellow", err=True)
    if "robots" in about:
        first = (node or about["robots"])[0]
        tell(f"a fleet of {', '.join(about['robots'])}. Run its cloud with: brain cloud --secure {folder}; copy "
             f"{first}.json5 to {first}, and run there: brain edge --secure {first}.json5. Keep {folder / 'ca.key'} "
             f"elsewhere: whoever has it can be anybody.", "green")
        return
    from brain_runtime.graph.graphs import DEFAULT

    who = ["--secure", str(folder), *(["--domain", str(number)] if number else []),
           *(["--namespace", namespace] if namespace.strip("/") else [])]
    up = ["brain", "up", *([graph] if graph != DEFAULT else []), "--world", about["world"],
          *_robot_of(graph, robot, about["world"]), *who]
    tell(f"domain {number}, namespace {absolute(namespace)}, world {about['world']}. Keep {folder / 'ca.key'} "
         f"elsewhere: whoever has it can be anybody. Run it with", "green")
    tell(f"  {shlex.join(up)}")
    if hears:
        tell(f"and tell it what to do with\n  {shlex.join(['brain', 'say', *who, 'go to the red ball'])}")


def _robot_of(graph: str, robot: str | None, world: str) -> list[str]:
    """Returns the options that name the robot to `brain up`: a real one must be named where a region takes from it."""
    from brain_runtime.graph import NO_WORLD
    from brain_runtime.graph.graphs import load
    from brain_runtime.graph.robots import SIM, load_robot

    if robot or world != NO_WORLD or not load_robot(SIM).parameters(load(graph)):
        return ["--robot", robot] if robot else []
    return ["--robot", "PROFILE"]


def _devices(edge: bool, topics: list[str] | None) -> list[str] | None:
    """Topics of the robot's devices; None where it has no edge."""
    if topics and not edge:
        fail("--device-topic is for a robot of a fleet: give --edge too", 2)
    return list(topics or ()) if edge else None


def _fleet(folder: Path, nodes: list[str], operators: list[str] | None, maintainers: list[str] | None,
           devices: list[str] | None) -> tuple[int, list, dict]:
    """Rights of a fleet: of the robots that are named, and of those that the folder has keys for already.

    Nobody's where the folder is no fleet's, and is not to become one.
    """
    from brain_security.fleet_keys import FleetNameProblem
    from brain_security.folder import FolderError, metadata_of
    from brain_security.members import REVOKED, read_register, robots_of
    from brain_security.rights import OPERATOR, RightsError, rights_of_fleet
    from brain_wire import NameProblem

    try:
        try:
            before = metadata_of(folder)
        except FolderError:
            if nodes:
                raise
            before = None       # a brain's is written anew, whatever there was
        if not nodes and "robots" not in (before or {}):
            return 0, [], {}
        if maintainers:
            fail("--maintainer is for a brain's folder; a fleet has robots (--node) and operators", 2)
        if devices is not None:
            fail("--edge is for the folder of a robot's own brain; a fleet has robots (--node) and operators", 2)
        if before is not None and "robots" not in before:
            fail(f"{folder} has the keys of a brain; name another folder for those of a fleet")
        known, people = (
            [name for name in found if isinstance(name, str) and (folder / f"{name}.key").exists()]
            if isinstance(found := (before or {}).get(kind), list) else [] for kind in ("robots", "operators"))
        members = read_register(folder).members     # those that enrolled have their keys themselves
        for name in sorted({*members} & {*nodes}):
            what = "was revoked" if members[name].state == REVOKED else "has enrolled"
            fail(f"{name} {what} before; `brain fleet enroll {name}` makes a token for it")
        robots = list(dict.fromkeys([*robots_of(folder, [*known, *nodes])]))
        people = list(dict.fromkeys([OPERATOR, *people, *(operators or ())]))
        return 0, rights_of_fleet(robots, people), {"robots": robots, "operators": people}
    except (FleetNameProblem, FolderError, RightsError, NameProblem) as error:
        fail(str(error))


def _away(folder: Path) -> dict[str, str]:
    """Common names of the robots that enrolled, and have their keys themselves."""
    from brain_security.members import ENROLLED, read_register

    return {one.robot: one.common_name for one in read_register(folder).members.values() if one.state == ENROLLED}


def policy(graph: Graph = "brain", robot: Robot = None, world: World = "none",
           single_enclave: Annotated[bool, typer.Option("--single-enclave", help="All profiles in one enclave, as "
                                     "zenoh_security_tools reads them. Default: an enclave for each node.")] = False,
           operator: Operators = None, maintainer: Maintainers = None, edge: Edge = False, device_topic: Devices = None,
           device: DeviceFiles = None, namespace: Namespace = "") -> None:
    """Prints the SROS2 policy of a graph, for `ros2 security` and zenoh_security_tools."""
    _, rights, _ = _rights(graph, robot, world, None, namespace, operator, maintainer, _devices(edge, device_topic),
                           device or [])
    from brain_security.policy import policy_xml

    typer.echo(policy_xml(rights, single_enclave), nl=False)


def _rights(graph: str, robot: str | None, world: str, domain: int | None, namespace: str, operators: list[str] | None,
            maintainers: list[str] | None, devices: list[str] | None, files: list[Path]
            ) -> tuple[int, list, dict]:
    number = use_domain(domain)
    from brain_security.rights import OPERATOR, RightsError, rights_of
    from brain_runtime.graph import GraphError
    from brain_runtime.graph.inspect_graph import inspect_graph
    from brain_runtime.graph.robots import SIM, RobotError
    from brain_wire import NameProblem

    try:
        # For names of topics alone, which the simulated robot's are the brain's own; `brain up` asks which robot it is.
        resolved = inspect_graph(graph, world, None if robot in (None, SIM) else robot, namespace=namespace)
        rights = rights_of(resolved, operators=dict.fromkeys([OPERATOR, *(operators or ())]),
                           maintainers=maintainers or (), devices=devices,
                           device_regions=_device_regions(files, namespace))
    except (GraphError, RobotError, RightsError, NameProblem) as error:
        fail(str(error))
    for warning in resolved.warnings:
        tell(f"warning: {warning}", "yellow", err=True)
    return number, rights, {"graph": resolved.name, "robot": robot or SIM, "world": resolved.world,
                            "hears": resolved.hears_sentences}


def _device_regions(files: list[Path], namespace: str) -> list:
    """Regions of the devices of files."""
    if not files:
        return []
    import importlib

    try:
        found = importlib.import_module(DEVICE_REGIONS).device_regions
    except ImportError as error:
        fail(f"--device needs the package brain_edge, which is not installed here ({error})")
    try:
        return [region for file in files for region in found(file, namespace)]
    except ValueError as problem:
        fail(str(problem))

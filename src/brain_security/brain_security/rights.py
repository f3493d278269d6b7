# SPDX-License-Identifier: Apache-2.0
"""Rights: what each node of a graph may publish, hear, serve and call. Everything about security is derived from them.

A region may do what its ports declare, and what every ROS 2 node does. Nobody else publishes ``cmd_vel`` but the one
region that declares it.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, Mapping

from brain_runtime.contract import heartbeat
from brain_runtime.hosts import diagnostics
from brain_wire.parameter_services import EVENTS
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_security.fleet_keys import check_robot
from brain_wire import names, rosout
from brain_wire.clock import SimulatedTime
from brain_wire.credentials import ANY, EDGE, OPERATOR

REGION, OPERATES, MAINTAINS, ROBOT_ROLE = "region", "operator", "maintainer", "robot"
MEMBER = "member"       # a robot of a fleet, at the cloud's router
ROBOT = "robot"         # whose credentials the drivers of a real robot take
ROUTER = "router"
AUTHORITY = "ca"

COMMANDS = "cmd_vel"    # what moves the robot: one region alone publishes it
# Topics of every region beside its ports, and of every ROS 2 node.
EVERY_NODE_SAYS = (heartbeat.PORT.topic, diagnostics.TOPIC, EVENTS, rosout.TOPIC, "~/transition_event")
EVERY_NODE_HEARS = (SimulatedTime.TOPIC, EVENTS)
# Services of every region, below its name.
READING = ("describe_parameters", "get_parameters", "get_parameter_types", "list_parameters", "get_type_description",
           "get_state", "get_available_states", "get_available_transitions", "get_transition_graph")
CHANGING = ("set_parameters", "set_parameters_atomically", "change_state")
ACTION_SERVICES = ("send_goal", "cancel_goal", "get_result")
ACTION_TOPICS = ("feedback", "status")
# What people say to a brain.
OPERATOR_SAYS = ("goal/text", "estop", "estop/release", "teleop/cmd_vel", "teleop/release")
STOP = "estop"          # a robot's own button may say it too, but not release it
# What a robot's edge of a fleet says for the robot's devices, whatever they are, and hands on from the cloud.
DEVICES = f"devices/{ANY}/{ANY}"
EDGE_SAYS = ("sensor/features", "vision/second")
# What a robot's drivers publish for others than the brain.
SECOND = "scan/second"  # of a second lidar, which most robots have not: it alone makes no robot with drivers
SENSORS = ("camera/camera_info", "camera/image_raw", "imu", "odom", "scan", SECOND)     # a robot's drivers publish them
ROBOT_SAYS = ("/tf", "/tf_static", "joint_states", "robot_description", diagnostics.TOPIC, EVENTS, rosout.TOPIC)


class RightsError(ValueError):
    """No sound rights follow from the graph; names the region and the remedy."""


@dataclass(frozen=True)
class Rights:
    """Rights of one identity.

    Attributes:
        name: fully qualified name; the common name of its certificate.
        role: REGION, OPERATES, MAINTAINS, ROBOT_ROLE or MEMBER.
        publishes, hears: topics, fully qualified; those of actions are not among them. A part of a name may be ANY.
        serves, calls: services, fully qualified; those of actions are not among them.
        executes, commands: actions, fully qualified.
    """

    name: str
    role: str = REGION
    publishes: frozenset[str] = frozenset()
    hears: frozenset[str] = frozenset()
    serves: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    executes: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()

    @property
    def node(self) -> str:
        """Name without the namespace, which names its files."""
        return self.name.rpartition("/")[2]

    @property
    def namespace(self) -> str:
        """Namespace, absolute."""
        return self.name.rpartition("/")[0] or "/"

    @property
    def any_node(self) -> bool:
        """May announce nodes of other names than its own, except those of the graph."""
        return self.role not in (REGION, MEMBER)

    def topics_out(self) -> frozenset[str]:
        """All topics that it may publish on, those of actions too."""
        return self.publishes | _below(self.executes, ACTION_TOPICS)

    def topics_in(self) -> frozenset[str]:
        """All topics that it may hear, those of actions too."""
        return self.hears | _below(self.commands, ACTION_TOPICS)

    def services_served(self) -> frozenset[str]:
        """All services that it may serve, those of actions too."""
        return self.serves | _below(self.executes, ACTION_SERVICES)

    def services_called(self) -> frozenset[str]:
        """All services that it may call, those of actions too."""
        return self.calls | _below(self.commands, ACTION_SERVICES)


def _below(actions: Iterable[str], parts: Iterable[str]) -> frozenset[str]:
    return frozenset(f"{action}/_action/{part}" for action in actions for part in parts)


@dataclass
class _Names:
    """Expands names as the nodes of a brain do."""

    namespace: str
    node: str = ""
    remap: Mapping[str, str] = field(default_factory=dict)

    def all(self, topics: Iterable[str]) -> frozenset[str]:
        return frozenset(names.expand(self.remap.get(t, t), self.namespace, self.node) for t in topics)


def rights_of(resolved: Resolved, *, operators: Iterable[str] = (OPERATOR,), maintainers: Iterable[str] = (),
              devices: Iterable[str] | None = None, device_regions: Iterable[ResolvedRegion] = ()) -> list[Rights]:
    """Rights of the regions that run, of the people who use them and, without a world, of the robot's drivers.

    Args:
        operators: names of those who may tell it what to do, stop it, and read.
        maintainers: names of those who may change parameters and states too.
        devices: further topics that devices of the robot are heard and told on, where it is one of a fleet: its edge
            gets rights of its own, a maintainer's and those of the devices; None: it is not.
        device_regions: devices that are regions, each with the rights for its own topics only.

    Raises:
        RightsError: two regions publish ``cmd_vel``, a region has a name that is kept for something else, or a topic
            of a device is the brain's own.
        NameProblem: a name that ROS 2 does not allow.
    """
    namespace = names.absolute(resolved.namespace)
    operators, maintainers = tuple(operators), tuple(maintainers)
    edge = () if devices is None else (EDGE,)
    people = [*operators, *maintainers, *edge]
    device_regions = tuple(device_regions)
    _check_names([*resolved.regions, *device_regions], people)
    regions = [_region(region, namespace) for region in resolved.regions]
    _check_commands(regions, resolved)
    brain_said = frozenset().union(*(r.publishes for r in regions))
    of_regions = [_region(region, region.namespace) for region in device_regions]
    regions += of_regions
    said = brain_said.union(*(r.publishes for r in of_regions))
    heard = frozenset().union(*(r.hears for r in regions))
    others = _Names(namespace)
    common = others.all(t for t in (*EVERY_NODE_SAYS, *EVERY_NODE_HEARS) if not t.startswith("~"))
    # What a simulated device is told by nobody in the graph, such as which room to show, people tell it.
    world = frozenset().union(
        *(r.hears for r, region in zip(regions, resolved.regions, strict=False) if region.device))
    operator_says = others.all(OPERATOR_SAYS) | (world - said - common)
    robot_says = heard - said - operator_says - common
    for one in of_regions:
        own = one.publishes - others.all(EDGE_SAYS) - _Names(one.namespace, one.node).all(EVERY_NODE_SAYS)
        _check_own(own, brain_said | operator_says | common, others)
    stop = others.all((STOP,)) & heard
    commands = frozenset().union(*(r.executes for r in regions))
    found = list(regions)
    of_devices = frozenset() if devices is None else _of_devices(devices, others, said | operator_says | common)
    for name in people:
        services = READING if name in operators else (*READING, *CHANGING)
        more = of_devices | (others.all(EDGE_SAYS) & heard) if name in edge else frozenset()
        found.append(Rights(
            _join(namespace, name), OPERATES if name in operators else MAINTAINS, publishes=operator_says | more,
            hears=said | heard | common | of_devices, commands=commands,
            calls=frozenset(f"{r.name}/{service}" for r in regions for service in services)))
    if robot_says - others.all((SECOND,)):
        found.append(Rights(_join(namespace, ROBOT), ROBOT_ROLE, publishes=robot_says | stop | others.all(ROBOT_SAYS),
                            hears=(said - heard) | others.all(EVERY_NODE_HEARS)))
    return found


def _of_devices(devices: Iterable[str], names_of: _Names, own: frozenset[str]) -> frozenset[str]:
    """Topics of devices: all below ``devices/``, and those that are named; none of the brain's own."""
    named = names_of.all(devices)
    _check_own(named, own, names_of)
    return named | {f"{names_of.namespace.rstrip('/')}/{DEVICES}"}


def _check_own(topics: frozenset[str], own: frozenset[str], names_of: _Names) -> None:
    """Raises RightsError where a topic of a device is the brain's own."""
    for topic in sorted(topics & (own | names_of.all((*ROBOT_SAYS, *SENSORS)))):
        raise RightsError(f"{topic} is a topic of the brain's own, not of a device; take another, as "
                          f"devices/NAME/{topic.rpartition('/')[2]}")


def rights_of_fleet(robots: Iterable[str], operators: Iterable[str] = (OPERATOR,)) -> list[Rights]:
    """Rights at a cloud's router: of each robot to speak for itself, and of people to give orders.

    Raises:
        RightsError: a name stands for two.
        FleetNameProblem, NameProblem: a name that is not allowed.
    """
    robots, operators = list(dict.fromkeys(map(check_robot, robots))), list(dict.fromkeys(operators))
    for name in sorted(set(robots) & set(operators)):
        raise RightsError(f"{name} would stand for two: robots and operators need names of their own")
    for name in sorted({ROUTER, AUTHORITY} & set(operators)):
        raise RightsError(f"the name {name} is kept; choose another")
    return [*(Rights(_join("/", name), MEMBER) for name in robots),
            *(Rights(_join("/", name), OPERATES) for name in operators)]


def _join(namespace: str, name: str) -> str:
    return f"{namespace.rstrip('/')}/{names.check_name(name, 'name')}"


def _check_names(found: list[ResolvedRegion], people: list[str]) -> None:
    regions = {region.name for region in found}
    kept = {ROBOT, ROUTER, AUTHORITY}
    for name in sorted((regions | set(people)) & kept):
        raise RightsError(f"the name {name} is kept for the {'certificate authority' if name == AUTHORITY else name}; "
                          f"choose another")
    twice = regions & set(people) or {name for name in people if people.count(name) > 1}
    for name in sorted(twice):
        raise RightsError(f"{name} would stand for two: regions, operators and maintainers need names of their own")


def _check_commands(regions: list[Rights], resolved: Resolved) -> None:
    # The robot may have another name for it.
    topics = {_Names(r.namespace, r.node, spec.remap).all([COMMANDS])
              for r, spec in zip(regions, resolved.regions, strict=True)}
    for topic in sorted(frozenset().union(*topics)):
        drivers = [r.node for r in regions if topic in r.publishes]
        if len(drivers) < 2:
            continue
        raise RightsError(f"graph {resolved.name}: {' and '.join(drivers)} publish {COMMANDS}; only one region may "
                          f"move the robot, so remap the others, or let them talk to it")


def _region(region: ResolvedRegion, namespace: str) -> Rights:
    own = _Names(namespace, region.name, region.remap)
    plain = _Names(namespace, region.name)
    name = _join(namespace, region.name)
    return Rights(
        name, publishes=plain.all(region.publishes) | own.all(EVERY_NODE_SAYS),
        hears=plain.all(region.hears) | own.all(EVERY_NODE_HEARS),
        serves=frozenset(f"{name}/{service}" for service in (*READING, *CHANGING)),
        executes=plain.all(region.actions), commands=plain.all(region.asks))

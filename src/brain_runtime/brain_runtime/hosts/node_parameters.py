# SPDX-License-Identifier: Apache-2.0
"""NodeParameters: the parameters of a node on hosts without rclpy, its region's and those that its host adds."""
from __future__ import annotations

import functools
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Callable, Container, Mapping, NamedTuple

from brain_runtime.contract import energy
from brain_wire import parameter_services
from brain_wire.messages import time_message
from brain_wire.parameter_services import Access
from brain_wire.parameters import Description, ParameterError, check_parameters, describe

if TYPE_CHECKING:   # launch checks values without what a region's process needs
    from brain_runtime.hosts.hosted_region import HostedRegion

SIM_TIME = "use_sim_time"
RCLPYS = "start_type_description_service"   # a parameter of rclpy's nodes, which `ros2 param dump` writes down too
OVERRIDES = "qos_overrides."


class HostParameter(NamedTuple):
    """A parameter that a host adds.

    Attributes:
        about: what ROS 2 is told of it.
        get: its value now.
        fit: a value as it is taken over; raises ParameterError.
        set: takes over a value that fits; may raise ParameterError.
    """

    about: Description
    get: Callable[[], Any]
    fit: Callable[[Any], Any]
    set: Callable[[Any], None]


def split(region: str, cls: type, parameters: Mapping[str, Any]) -> tuple[Any, float, Any]:
    """Checks and splits a node's parameters: the region's as its dataclass, energy budget (B/s), ``use_sim_time``.

    Args:
        region: name of the node.
        cls: the region's ``Parameters``.
        parameters: by name; those of rclpy's own nodes among them are left out.

    Raises:
        ParameterError: one does not exist, or its value does not fit.
    """
    given = {key: value for key, value in parameters.items() if key != RCLPYS and not key.startswith(OVERRIDES)}
    sim_time = flag(region, given.pop(SIM_TIME, False))
    budget = energy.budget_of(region, given)
    given.pop(energy.PARAMETER, None)
    return check_parameters(region, cls, given), budget, sim_time


def known(cls: type) -> set[str]:
    """Names of the parameters that a node has whose region's ``Parameters`` is ``cls``."""
    return {*(field.name for field in fields(cls)), energy.PARAMETER, SIM_TIME, RCLPYS}


def fitting(region: str, cls: type, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Separates the parameters that a node can take from those that do not fit, as :func:`split` checks them.

    A host keeps its node unconfigured for the rest, so that it says why, and takes another value.

    Returns:
        What fits, and what is wrong with each of the others, by name.

    Raises:
        ParameterError: there is no such parameter, or one that is not the region's does not fit.
    """
    fits, unfit = {}, {}
    for name, value in parameters.items():
        try:
            split(region, cls, {name: value})
            fits[name] = value
        except ParameterError as problem:
            if name == SIM_TIME or name not in known(cls):
                raise
            unfit[name] = str(problem)
    return fits, unfit


def flag(region: str, value: Any) -> bool:
    """A value of ``use_sim_time`` of the node ``region``. Raises ParameterError."""
    if type(value) is not bool:
        raise ParameterError(f"parameter {SIM_TIME} of {region} must be true or false, but is {value!r}")
    return value


def sim_time(region: str, about: str, get: Callable[[], bool], take: Callable[[bool], None]
             ) -> dict[str, HostParameter]:
    """``use_sim_time`` of the node ``region``: what it does, its value now, and what takes over another."""
    return {SIM_TIME: HostParameter(Description(bool, about), get, functools.partial(flag, region), take)}


class NodeParameters:
    """Values of a node's parameters, and how they are changed and told of: all that are asked for, or none.

    Args:
        hosted: the region, to which changes are applied.
        values: of its ``Parameters``.
        own: what the host adds, by name, beside the energy budget.
    """

    def __init__(self, hosted: HostedRegion, values: Any, own: Mapping[str, HostParameter]) -> None:
        self._hosted, self._region = hosted, values
        self._events = hosted.publish(parameter_services.EVENTS, parameter_services.EVENT_TYPE,
                                      parameter_services.EVENT_QUALITY)
        (field,) = fields(energy.HostParameters)
        self._own = {**own, energy.PARAMETER: HostParameter(
            describe(field), lambda: hosted.gate.budget,
            lambda value: energy.budget_of(hosted.region.name, {energy.PARAMETER: value}), hosted.set_budget)}

    def access(self) -> Access:
        """Returns the access that the parameter services have to them."""
        return Access(self.descriptions, self.values, self.change)

    def region(self) -> dict[str, Any]:
        """The region's."""
        return {field.name: getattr(self._region, field.name) for field in fields(self._region)}

    def values(self) -> dict[str, Any]:
        """All, by name."""
        return {**{name: own.get() for name, own in self._own.items()}, **self.region()}

    def descriptions(self) -> dict[str, Description]:
        """Returns the descriptions of all parameters for ROS 2, by name."""
        return {**{name: own.about for name, own in self._own.items()},
                **{field.name: describe(field) for field in fields(self._region)}}

    def follow(self, values: Any) -> None:
        """Takes over values that the region has taken by itself (as its ``Parameters``), and tells of the others."""
        changed = {key for key, value in self.region().items() if getattr(values, key) != value}
        if changed:
            self._region = values
            self._tell(changed)

    def change(self, values: Mapping[str, Any]) -> None:
        """Changes some, all or none. Raises ParameterError."""
        name = self._hosted.region.name
        own = {key: self._own[key].fit(value) for key, value in values.items() if key in self._own}
        regions = {key: value for key, value in values.items() if key not in self._own}
        if regions:
            fitted = check_parameters(name, self._hosted.region.Parameters, regions)
            self._hosted.apply(regions)
            self._region = replace(self._region, **{key: getattr(fitted, key) for key in regions})
        for key, value in own.items():
            self._own[key].set(value)
        self._hosted.corrected(values)
        self._tell(values)

    def _tell(self, changed: Container[str]) -> None:
        now = self.values()
        self._events.send(parameter_services.changed(self._hosted.fqn, time_message(self._hosted.clock()),
                                                     {key: now[key] for key in now if key in changed}))

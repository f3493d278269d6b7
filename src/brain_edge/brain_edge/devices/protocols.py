# SPDX-License-Identifier: Apache-2.0
"""Protocols: which class is the driver of which, those of other packages among them."""
from __future__ import annotations

import difflib
import importlib
import re
from importlib import metadata

from brain_edge.devices.driver import Driver
from brain_edge.devices.models import Device
from brain_edge.devices.owned_files import check_names
from brain_edge.schema import FormProblem, check
from brain_wire.safe_text import quoted

GROUP = "brain.device_drivers"
# Those that come with this package. Their modules load no library before a device is opened.
OWN = {"modbus-tcp": "brain_edge.devices.drivers.pymodbus_tcp:Modbus",
       "mqtt": "brain_edge.devices.drivers.paho_mqtt:Mqtt",
       "ros-topic": "brain_edge.devices.drivers.ros_topic:RosTopic",
       "zenoh": "brain_edge.devices.drivers.zenoh_keys:ZenohKeys"}


def installed() -> dict[str, str]:
    """``module:Class`` of every protocol that is installed here, by name."""
    found = {point.name: point.value for point in metadata.entry_points(group=GROUP)}
    return {**dict(sorted(found.items())), **OWN}


def find(protocol: str, named: bool) -> type[Driver]:
    """The driver of a protocol. Loads its module, which may be anybody's: in the driver's own process only.

    Args:
        protocol: a name, or ``module:Class``.
        named: only names of installed drivers: what the cloud orders must not choose what code is loaded.

    Raises:
        FormProblem: there is none, or it is no driver.
    """
    known = installed()
    place = known.get(protocol)
    if place is None:
        if ":" not in protocol:
            near = difflib.get_close_matches(protocol, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise FormProblem(f"there is no protocol {quoted(protocol)} here; {hint}")
        if named:
            raise FormProblem(f"the protocol {quoted(protocol)} is a class, which `brain devices run` takes, but no "
                              f"order: install it on the robot under a name, as an entry point of the group {GROUP}")
        place = protocol
    module, _, name = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise FormProblem(f"the driver {quoted(place)} cannot be imported ({error})") from error
    if not (isinstance(found, type) and issubclass(found, Driver)):
        raise FormProblem(f"{quoted(place)} is no class that inherits brain_edge.devices.driver.Driver")
    return found


def checked(device: Device, named: bool) -> type[Driver]:
    """The driver of a device, whose settings and visitors are such as that takes. Loads its module, as :func:`find`.

    Args:
        named: they are an order's, which says names of drivers and files, and neither classes nor paths.

    Raises:
        FormProblem: there is no such driver, or it does not take them; names the field.
    """
    driver = find(device.protocol, named)
    check(device.settings, driver.settings_form, "spec.settings")
    if named:
        check_names(driver.settings_form, device.settings, "spec.settings")
    for name, mapped in device.properties.items():
        place = f"spec.properties.{name}.visitor"
        check(mapped.visitor, driver.visitor_form, place)
        if named:
            check_names(driver.visitor_form, mapped.visitor, place)
        try:
            driver.check(mapped.visitor, mapped.property.writable)
        except ValueError as problem:
            raise FormProblem(f"{place}: {re.sub(r'^spec[.]', '', str(problem))}") from None
    try:
        driver.check_together(device.settings, device.visitors)
    except ValueError as problem:
        raise FormProblem(f"spec: {problem}") from None
    return driver

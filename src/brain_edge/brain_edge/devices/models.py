# SPDX-License-Identifier: Apache-2.0
"""Device models and devices: what a device has, and where on a wire each property of it is found."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Mapping

from brain_edge.devices.reserved import PLAIN, check_said
from brain_edge.schema import FormProblem
from brain_edge.state.kinds import check_spec
from brain_wire import messages
from brain_wire.names import NameProblem, expand
from brain_wire.safe_text import quoted

PERIOD = 1.0        # s between two samples
STALE = 3           # periods for which a value is fresh
LEAST = 1.0         # s for which it is, however short the period is
PATIENCE = 10.0     # s that a driver may be busy without a word
REPORT = 5.0        # s between two reports of values to the cloud
LONGEST = 256       # characters of a text
# Types of a message's fields, by the type of the property that goes into them.
FITS: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,), "integer": (int, float), "float": (float,), "string": (str,)}
LONGEST_SOURCE = 56     # characters of a name that stands in sensor/features


@dataclass(frozen=True)
class Property:
    """Definition of a property that all devices of a model have.

    Attributes:
        type: boolean, integer, float or string.
        unit: as it is shown; nothing is computed from it.
        minimum, maximum: in that unit; of numbers only.
        longest: characters of a text.
        writable: whether it can be set.
    """

    name: str
    type: str
    unit: str = ""
    minimum: float = -math.inf
    maximum: float = math.inf
    longest: int = LONGEST
    writable: bool = False

    @property
    def number(self) -> bool:
        """True where its values are numbers."""
        return self.type in ("integer", "float")


@dataclass(frozen=True)
class Topic:
    """Topic on which a property is published on the robot."""

    name: str
    type: str
    field: str


@dataclass(frozen=True)
class Mapped:
    """A property of one device, and where it is found.

    Attributes:
        visitor: what the driver finds it by: a register, a topic, a key.
        scale, offset: the value is ``raw * scale + offset``.
        period: s between two samples.
        fresh_for: s for which a value is one of now.
        topic: None: it is not published.
    """

    property: Property
    visitor: Mapping[str, Any]
    scale: float = 1.0
    offset: float = 0.0
    period: float = PERIOD
    fresh_for: float = STALE * PERIOD
    topic: Topic | None = None

    def scaled(self) -> bool:
        """Tells whether there is a scale or an offset to apply."""
        return (self.scale, self.offset) != (1.0, 0.0)


@dataclass(frozen=True)
class Patch:
    """Directions of ``sensor/features`` that a property tells of.

    Attributes:
        map: hazard or novelty.
        azimuth, width: of the middle, and how wide (rad, base_link, counter-clockwise).
        begin, end: values of the property at which the map is 0, and 1.
    """

    property: str
    map: str
    azimuth: float
    width: float
    begin: float
    end: float


@dataclass(frozen=True)
class Features:
    """Features that a device publishes on ``sensor/features``."""

    modality: str
    confidence: float
    patches: tuple[Patch, ...]


@dataclass(frozen=True)
class Device:
    """One device.

    Attributes:
        settings: of its protocol.
        patience: s that its driver may be busy without a word before it counts as hung.
        report: s between two reports of its values to the cloud.
    """

    name: str
    model: str
    protocol: str
    settings: Mapping[str, Any]
    properties: Mapping[str, Mapped]
    features: Features | None = None
    patience: float = PATIENCE
    report: float = REPORT
    spec: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def visitors(self) -> dict[str, Mapping[str, Any]]:
        """Visitors by property."""
        return {name: mapped.visitor for name, mapped in self.properties.items()}


def read_model(spec: Mapping[str, Any]) -> dict[str, Property]:
    """The properties of a model.

    Raises:
        FormProblem: it cannot be meant so; names the field.
    """
    check_spec("DeviceModel", spec)
    found = {}
    for name, about in spec["properties"].items():
        place = f"spec.properties.{name}"
        made = Property(name, about["type"], about.get("unit", ""), about.get("minimum", -math.inf),
                        about.get("maximum", math.inf), about.get("longest", LONGEST),
                        about.get("access", "ReadOnly") == "ReadWrite")
        if not made.number and ("minimum" in about or "maximum" in about):
            raise FormProblem(f"{place} is a {made.type}, which has neither minimum nor maximum")
        if made.type != "string" and "longest" in about:
            raise FormProblem(f"{place} is no string, so it has no longest")
        if made.minimum > made.maximum:
            raise FormProblem(f"{place}.minimum is {made.minimum:g}, more than its maximum, {made.maximum:g}")
        found[name] = made
    if not found:
        raise FormProblem("spec.properties is empty; a model has at least one")
    return found


def read_device(name: str, spec: Mapping[str, Any], model: Mapping[str, Property]) -> Device:
    """A device of a model.

    Raises:
        FormProblem: it cannot be meant so, or does not fit its model; names the field.
    """
    check_spec("Device", spec)
    if not spec["properties"]:
        raise FormProblem("spec.properties is empty; a device shows at least one")
    properties = {}
    for one, about in spec["properties"].items():
        if one not in model:
            raise FormProblem(f"spec.properties.{one}: the model {spec['model']} has no such property; it has "
                              f"{', '.join(model)}")
        properties[one] = _mapped(name, model[one], about, f"spec.properties.{one}")
    if "features" in spec and len(name) > LONGEST_SOURCE:
        raise FormProblem(f"a device with features has a name of at most {LONGEST_SOURCE} characters")
    features = None if "features" not in spec else _features(spec["features"], properties)
    return Device(name, spec["model"], spec["protocol"], spec.get("settings", {}), properties, features,
                  float(spec.get("patience", PATIENCE)), float(spec.get("report", REPORT)), spec)


def _mapped(device: str, known: Property, about: Mapping[str, Any], place: str) -> Mapped:
    scale, offset = float(about.get("scale", 1.0)), float(about.get("offset", 0.0))
    if not known.number and ("scale" in about or "offset" in about):
        raise FormProblem(f"{place} is a {known.type}, which is neither scaled nor offset")
    if scale == 0.0:
        raise FormProblem(f"{place}.scale is 0, so that every value would be the same")
    unit = about.get("unit", known.unit)
    if unit != known.unit:
        raise FormProblem(f"{place}.unit is {quoted(unit)}, and the model's is {quoted(known.unit)}; give the scale "
                          f"and offset that lead from the device's to the model's, and take the unit away")
    topic = None
    if "topic" in about:
        topic = _topic(device, known, about["topic"], f"{place}.topic")
    period = float(about.get("period", PERIOD))
    return Mapped(known, about["visitor"], scale, offset, period,
                  float(about.get("fresh_for", max(STALE * period, LEAST))), topic)


def _topic(device: str, known: Property, about: Mapping[str, Any], place: str) -> Topic:
    name = about.get("name", f"devices/{device.replace('-', '_')}/{known.name}")
    kind, member = about.get("type", PLAIN[known.type]), about.get("field", "data")
    try:
        check_said(expand(name, "/", "device"), kind)   # as far as it is known before it is opened
        if not messages.has_field(kind, member):
            names = ", ".join(one for one, _ in messages.fields_of(kind))
            raise FormProblem(f"{kind} has no field {member}; it has {names}")
        plain = type(getattr(messages.message_class(kind)(), member))
        if plain not in FITS[known.type]:
            raise FormProblem(f"{known.name} is a {known.type}, which does not go into {member} of {kind}")
    except (FormProblem, NameProblem, messages.MessageError) as problem:
        raise FormProblem(f"{place}: {problem}") from None
    return Topic(name, kind, member)


def _features(about: Mapping[str, Any], properties: Mapping[str, Mapped]) -> Features:
    patches = []
    for number, one in enumerate(about["maps"]):
        place, name = f"spec.features.maps[{number}]", one["property"]
        if name not in properties:
            raise FormProblem(f"{place}.property: the device shows no {quoted(name)}; it shows {', '.join(properties)}")
        if properties[name].property.type == "string":
            raise FormProblem(f"{place}.property: {name} is a string, and a map is made of numbers")
        if one["from"] == one["to"]:
            raise FormProblem(f"{place}: from and to are the same, {one['from']:g}")
        patches.append(Patch(name, one["map"], float(one.get("azimuth", 0.0)), float(one.get("width", 0.0)),
                             float(one["from"]), float(one["to"])))
    return Features(about["modality"], float(about.get("confidence", 1.0)), tuple(patches))


def node_name(device: str) -> str:
    """Name of a device's node."""
    return f"device_{device.replace('-', '_')}"


def link_name(device: str) -> str:
    """Name of the node by which its driver, of the protocol ros-topic, hears and says topics."""
    return f"{node_name(device)}_link"

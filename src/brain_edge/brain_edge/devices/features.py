# SPDX-License-Identifier: Apache-2.0
"""Messages of a device: a property on its topic, and what its properties mean by direction on sensor/features."""
from __future__ import annotations

import time
from typing import Any, Mapping

import numpy as np

from brain_edge.devices.models import Device, Features
from brain_runtime.contract.azimuth import BINS, CENTERS, WIDTH, wrap
from brain_runtime.contract.ports import Out
from brain_wire import messages
from brain_wire.qos import FEATURE

FEATURES = Out("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE.with_depth(10))
SOURCE = "device/"  # before a device's name, so that none can take a region's place on a topic that many share


def _stamp(at: float) -> Any:
    return messages.time_message(time.time() - (time.monotonic() - at))


def value_message(kind: str, member: str, value: Any, at: float) -> Any:
    """The message of a property.

    Args:
        kind: type of the message.
        member: field that takes the value.
        value: of the property.
        at: steady time at which it was read (s).

    Raises:
        MessageError: the value does not go into the field.
    """
    fields = {member: value}
    if messages.has_field(kind, "header"):
        fields["header"] = messages.make("std_msgs/msg/Header", stamp=_stamp(at), frame_id="base_link")
    found = messages.make(kind, **fields)
    messages.encode(found)      # it may be larger than the type allows
    return found


def features_of(device: Device, features: Features, fresh: Mapping[str, Any], at: float) -> Any:
    """The message of a device: in each direction the largest of what its properties say; 0 where none is fresh.

    Args:
        device: that says it.
        features: of the device.
        fresh: good values by property.
        at: steady time of the newest (s).
    """
    maps = {"hazard": np.zeros(BINS, np.float32), "novelty": np.zeros(BINS, np.float32)}
    for patch in features.patches:
        if patch.property not in fresh:
            continue
        share = (float(fresh[patch.property]) - patch.begin) / (patch.end - patch.begin)
        # The bins whose middle lies within the patch, and the one in which its own middle lies, be it ever so narrow.
        where = np.abs(wrap(CENTERS - patch.azimuth)) <= max(patch.width, WIDTH) / 2 + 1e-6
        found = maps[patch.map]
        found[where] = np.maximum(found[where], min(max(share, 0.0), 1.0))
    return messages.make(FEATURES.type, header=messages.make("std_msgs/msg/Header", stamp=_stamp(at),
                                                             frame_id="base_link"),
                         source=SOURCE + device.name, modality=features.modality, confidence=features.confidence,
                         **maps)

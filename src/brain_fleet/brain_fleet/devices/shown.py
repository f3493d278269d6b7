# SPDX-License-Identifier: Apache-2.0
"""Publishes what devices say on the robot: properties on topics, and what they mean by direction on sensor/features."""
from __future__ import annotations

import logging
import threading
import time
from typing import Any, Mapping, NamedTuple

import numpy as np

from brain_fleet.devices.models import Device, Features
from brain_fleet.devices.reserved import Topics
from brain_fleet.schema import FormProblem
from brain_runtime.azimuth import BINS, CENTERS, WIDTH, wrap
from brain_wire import Node, NoRouter, Publisher, SessionProblem, messages, open_session
from brain_wire.credentials import EDGE
from brain_wire.qos import FEATURE
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.wakeup import Signal

TOPIC, TYPE = "sensor/features", "brain_interfaces/msg/SensorFeatures"
AGAIN = 1.0         # s until a router that is not there is tried again
LOOK = 1.0          # s between two looks at whether the brain takes commands on a topic of a device
NODE = "brain_devices"
SOURCE = "device/"  # before a device's name, so that none can take a region's place on a topic that many share

log = logging.getLogger("brain.devices")
limited_log = RateLimitedLog(log)


class News(NamedTuple):
    """A good value: what all of the device is, and when it was read (steady, s)."""

    device: Device
    fresh: Mapping[str, Any]
    at: float


class Shown:
    """A thread with a node of its own; nobody waits for it.

    Args:
        router, namespace: of the brain.
    """

    def __init__(self, router: str | None, namespace: str) -> None:
        self._router, self._namespace = router, namespace
        self._lock, self._wake = threading.Lock(), Signal()
        self._news: dict[tuple[str, str], News] = {}    # the newest of each property: who cannot be told misses it
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="shown", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends."""
        self._stopping = True
        self._wake.set()
        self._thread.join(5.0)

    def fresh(self, device: Device, name: str, fresh: Mapping[str, Any], at: float) -> None:
        """A property has a good value; from any thread."""
        if device.properties[name].topic is None and device.features is None:
            return
        with self._lock:
            self._news[device.name, name] = News(device, fresh, at)
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            if not self._wake.wait(AGAIN) or self._stopping:
                continue    # nothing to say, and no session for it
            try:
                with open_session(self._router, identity=EDGE, patience=0.0) as session, \
                        Node(session, NODE, self._namespace) as node:
                    self._publish(node)
            except (NoRouter, SessionProblem) as problem:
                limited_log("router", f"what devices say is not published: {problem}")
                time.sleep(AGAIN)
            except Exception:   # whatever one value brings about, the next is published
                limited_log("shown", "what devices say could not be published", trace=True, level=logging.ERROR)
                time.sleep(AGAIN)

    def _publish(self, node: Node) -> None:
        publishers: dict[tuple[str, str], Publisher] = {}
        topics, again = Topics(node), 0.0
        bad: dict[str, str] = {}    # topics that are open and must not be any more, and why

        def publisher(topic: str, kind: str) -> Publisher:
            if (topic, kind) not in publishers:
                publishers[topic, kind] = topics.publisher(topic, kind)
                bad.update(topics.look())       # before anything is said
            found = publishers[topic, kind]
            if found.endpoint.topic in bad:
                raise FormProblem(bad[found.endpoint.topic])
            return found

        maps = None
        while not self._stopping:
            if time.monotonic() >= again:
                bad, again = topics.look(), time.monotonic() + LOOK
            with self._lock:
                news, self._news = self._news, {}
            for (_, name), one in news.items():
                topic = one.device.properties[name].topic
                if topic is None or name not in one.fresh:
                    continue
                try:
                    message = _message(topic.type, topic.field, one.fresh[name], one.at)
                    publisher(topic.name, topic.type).publish(message)
                except (FormProblem, messages.MessageError) as problem:     # it may be larger than the type allows
                    limited_log(topic.name, f"{name} of {one.device.name} is not published: {problem}")
            # Of a device that has several new values one map, the newest.
            for one in {one.device.name: one for one in sorted(news.values(), key=lambda n: n.at)}.values():
                features = one.device.features
                if features is not None and any(patch.property in one.fresh for patch in features.patches):
                    message = features_of(one.device, features, one.fresh, one.at)
                    maps = maps or node.publisher(TOPIC, TYPE, FEATURE.with_depth(10))
                    maps.publish(message)
            self._wake.wait()


def _stamp(at: float) -> Any:
    return messages.time_message(time.time() - (time.monotonic() - at))


def _message(kind: str, member: str, value: Any, at: float) -> Any:
    fields = {member: value}
    if messages.has_field(kind, "header"):
        fields["header"] = messages.make("std_msgs/msg/Header", stamp=_stamp(at), frame_id="base_link")
    return messages.make(kind, **fields)


def features_of(device: Device, features: Features, fresh: Mapping[str, Any], at: float) -> Any:
    """The message of a device: in each direction the largest of what its properties say; 0 where none is fresh.

    Args:
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
    return messages.make(TYPE, header=messages.make("std_msgs/msg/Header", stamp=_stamp(at), frame_id="base_link"),
                         source=SOURCE + device.name, modality=features.modality, confidence=features.confidence,
                         **maps)

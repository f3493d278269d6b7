# SPDX-License-Identifier: Apache-2.0
"""Listening: takes in what a robot, its frames and its brain tell within some seconds; it asks nobody anything."""
from __future__ import annotations

import time
import zlib
from typing import Any

import zenoh
from zenoh.handlers import RingChannel

from brain_observe.doctor.heard import DEVICES, IMAGE, Beats, Came, Heard
from brain_runtime.supervision.listen import Ear
from brain_wire import Node, Subscription, Watch, messages, names
from brain_wire.attachment import AttachmentProblem
from brain_wire.qos import LATCHED, STREAM

DEPTH = 50              # messages that may wait between two looks
MOST = 2000             # messages of a topic, and transforms, that are kept
KEPT = 24               # pictures that are kept whole, besides the newest,
BETWEEN = 0.25          # s from one of them to the next
BROKEN = 100            # reasons that are kept
DOMAINS, NODES = 16, 64     # other domains, and nodes of each, that are told of
LOOK = 0.05             # s between two looks
TF, TEXT, JPEG = "tf2_msgs/msg/TFMessage", "std_msgs/msg/String", "sensor_msgs/msg/CompressedImage"


def listen(node: Node, heard: Heard, seconds: float) -> None:
    """Fills in all that is heard through a node, whose namespace is the brain's, within some seconds."""
    hear = node.subscription
    devices = {name: hear(heard.topic(name), device.type, device.qos.with_depth(DEPTH))
               for name, device in DEVICES.items()}
    places = sorted({names.expand("tf", heard.namespace, node.name), "/tf"})
    fixed = [hear(f"{place}_static", TF, LATCHED.with_depth(DEPTH)) for place in places]
    moving = [hear(place, TF, STREAM.with_depth(DEPTH)) for place in places]
    described = [hear(place.removesuffix("tf") + "robot_description", TEXT, LATCHED) for place in places]
    compressed: Subscription | None = None
    ear = Ear(node, on_beat=lambda beat: _beat(heard, beat))
    strangers = node.session.zenoh.liveliness().declare_subscriber(f"{names.TOKEN_SPACE}/**", RingChannel(4 * MOST),
                                                                   history=True)
    watch = Watch(node.session, node.domain, warn=lambda text: None)
    ahead = time.time() - time.monotonic()
    begin = time.monotonic()
    while (left := begin + seconds - time.monotonic()) > 0.0:
        ear.listen(min(LOOK, left))
        watch.poll()
        for name, subscription in devices.items():
            _take(heard, name, subscription, ahead)
        for subscriptions, transforms in ((fixed, heard.static), (moving, heard.moving)):
            for message in _messages(subscriptions):
                transforms += message.transforms[:max(MOST - len(transforms), 0)]
        heard.description = next((m.data for m in _messages(described)), heard.description)
        jpeg = f"{heard.topic(IMAGE)}/compressed"
        if compressed is None and any(e.type == JPEG for e in watch.endpoints(jpeg, names.PUBLISHER)):
            compressed = hear(jpeg, JPEG, DEVICES[IMAGE].qos)   # nobody is made to compress where nobody does
        for message in _messages([compressed] if compressed is not None else []):
            heard.compressed = message
    heard.until, heard.seconds = time.monotonic(), seconds
    heard.endpoints = [e for e in watch.endpoints() if e.zid != node.session.zid]
    _elsewhere(heard, strangers)
    strangers.undeclare()
    watch.close()
    ear.close()


def _take(heard: Heard, name: str, subscription: Subscription, ahead: float) -> None:
    """Takes in messages of a robot's topic; of pictures, only a few stay."""
    came, broken = heard.came[name], heard.broken.setdefault(name, [])
    broken += list(subscription.refused)[:BROKEN - len(broken)]
    subscription.refused.clear()
    for arrival in subscription.take():
        try:
            message = messages.decode(arrival.data, subscription.type)
        except messages.MessageError as error:
            if len(broken) < BROKEN:
                broken.append(str(error))
            continue
        try:
            sent = arrival.attachment.source_timestamp * 1e-9
        except AttachmentProblem:
            sent = None
        mark = 0
        if name == IMAGE:
            mark = zlib.crc32(message.data)
            kept = [one.at for one in came[:-1] if one.message is not None]
            if kept and (len(kept) >= KEPT or came[-1].at < kept[-1] + BETWEEN):
                came[-1] = came[-1]._replace(message=None)
        if len(came) < MOST:
            stamp = messages.time_seconds(message.header.stamp)
            came.append(Came(arrival.received, arrival.received + ahead, sent, stamp, arrival.size, mark, message))


def _messages(subscriptions: list[Subscription]) -> list[Any]:
    """Messages that can be read, of those that came."""
    found = []
    for subscription in subscriptions:
        for arrival in subscription.take():
            try:
                found.append(messages.decode(arrival.data, subscription.type))
            except messages.MessageError:
                continue    # of others than the robot's own; what is missing is told
    return found


def _beat(heard: Heard, beat: Any) -> None:
    now, before = time.monotonic(), heard.beats.get(beat.name)
    if before is not None:
        heard.beats[beat.name] = before._replace(newest=beat, newest_at=now)
    elif len(heard.beats) < MOST:
        heard.beats[beat.name] = Beats(beat, now, beat, now)


def _elsewhere(heard: Heard, strangers: Any) -> None:
    """Takes in nodes of other domains, by their tokens."""
    while (sample := strangers.handler.try_recv()) is not None:
        try:
            endpoint = names.parse_token(str(sample.key_expr))
        except names.NameProblem:
            continue
        if endpoint.kind != names.NODE or endpoint.domain == heard.domain or sample.kind != zenoh.SampleKind.PUT:
            continue
        if endpoint.domain in heard.elsewhere or len(heard.elsewhere) < DOMAINS:
            nodes = heard.elsewhere.setdefault(endpoint.domain, set())
            if len(nodes) < NODES:
                nodes.add(endpoint.name)

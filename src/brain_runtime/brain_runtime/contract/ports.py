# SPDX-License-Identifier: Apache-2.0
"""Ports: what a region hears and says, declared as attributes of its class."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Hashable

from brain_runtime.contract import port_codecs
from brain_wire import messages
from brain_wire.qos import FEATURE, QoS


@dataclass(frozen=True)
class Port:
    """One topic of a region.

    Attributes:
        topic: relative name (``vision/objects``), so that a namespace moves the whole brain; a host may remap it.
        type: message type, ``package/msg/Type``; left out where a codec says it.
        qos: how it is delivered.
        codec: what the region exchanges there instead of messages, as ``tensor:float32[*,3]`` or ``json``; see
            :mod:`brain_runtime.contract.port_codecs`. Empty: messages.
    """

    topic: str
    type: str = ""
    qos: QoS = FEATURE
    codec: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.codec and self.type not in ("", port_codecs.message_type(self.codec)):
            raise ValueError(f"topic {self.topic} has codec {self.codec!r}, which makes "
                             f"{port_codecs.message_type(self.codec)} and no {self.type}; leave the type out")
        if self.codec:
            object.__setattr__(self, "type", port_codecs.message_type(self.codec))
        if not self.topic or self.topic.startswith("/") or "//" in self.topic:
            raise ValueError(f"topic {self.topic!r} must be a relative name such as 'vision/objects'")
        if self.type.count("/") != 2:
            raise ValueError(f"type {self.type!r} of topic {self.topic} must be written package/msg/Type")


@dataclass(frozen=True)
class In(Port):
    """A topic that a region hears.

    Attributes:
        trigger: a new message makes the region step.
        key: field that names the publisher, where many share the topic (``source``): the inbox then holds the newest
            message of each.
        epoch: field that grows with each start of a publisher, beside ``key``. Of two publishers that share a key the
            inbox holds the messages of the later start alone, until that has been silent for a second.
        every: the inbox holds every message since the last step, not only the newest; for what must not be missed. As
            many are kept until a step as the QoS's depth says.
        device: the topic comes from outside the brain (a sensor, a person, another program), so that nobody in the
            graph needs to publish it.
        feeds: names of the outputs on demand that it is needed for. It is heard only while one of them is wanted, and
            empty otherwise; ``()``: it is always heard.
        origin: what comes makes the region's messages, so that they carry its time among their origins.
    """

    trigger: bool = False
    key: str | None = None
    epoch: str | None = None
    every: bool = False
    device: bool = False
    feeds: tuple[str, ...] = ()
    origin: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epoch is not None and self.key is None:
            raise ValueError(f"topic {self.topic} names the field {self.epoch!r} of starts, but no key by which its "
                             f"publishers are told apart; give key too")

    def needed(self, wanted: frozenset[str]) -> bool:
        """Tells whether it is to be heard while these outputs on demand are wanted."""
        return not self.feeds or not wanted.isdisjoint(self.feeds)


@dataclass(frozen=True)
class Gated:
    """Rules by which an output waits when its region's energy budget is short; see :mod:`.energy`.

    Attributes:
        urgent: messages for which this is true never wait.
        gist: what a message says, roughly. A message with the gist of the one that was sent last tells nothing new, and
            is the first to wait. None: every message counts as new.
        key: field that tells the streams on one topic apart (``source``); none of them falls silent for another.
        thin: makes of a message one with about this share (0 to 1) of its content. Such a message is cut to what the
            budget affords, and leaves news what it may need. None: it is sent whole or not at all.
    """

    urgent: Callable[[Any], bool] | None = None
    gist: Callable[[Any], Hashable] | None = None
    key: str | None = None
    thin: Callable[[Any, float], Any] | None = None


@dataclass(frozen=True)
class Out(Port):
    """A topic that a region publishes. Calling it makes a message: ``self.objects(source="vision")``.

    Attributes:
        stamp_from: name of the In whose ``header.stamp`` is carried over (perception: time of acquisition);
            None: the time of publication (commands).
        on_demand: made only while somebody listens: the host says so in :attr:`Region.wanted`, and lets nothing else
            out. For what people look at, so that it costs nothing while nobody does. Never latched: who comes late
            must not depend on who was there before.
        gated: its messages may wait, or be cut, when the region's energy budget is short. None: never. What must not
            wait (a stop, a goal, a command) is not to be gated, and what is latched cannot be.
        alone: nobody else ought to publish the topic; the host warns of whoever does. For actuators.
    """

    stamp_from: str | None = None
    on_demand: bool = False
    gated: Gated | None = None
    alone: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_demand and self.qos.latched:
            raise ValueError(f"topic {self.topic} cannot be both latched and on demand")
        if self.gated is not None and self.qos.latched:
            raise ValueError(f"topic {self.topic} is latched, and what is latched cannot wait for an energy budget; "
                             f"leave gated out")

    def __call__(self, /, *value: Any, **fields: Any) -> Any:
        """A message of the port's type; see :func:`brain_wire.messages.make`.

        Args:
            value: one, where the port has a codec: what the message carries.
            fields: the message's, as ``source``; those that the codec does not fill.

        Raises:
            MessageError: a field that the type has not, or a value that the codec cannot write.
            TypeError: a value without a codec, or a codec without a value.
        """
        if len(value) != bool(self.codec):
            raise TypeError(f"topic {self.topic} has " + (
                f"codec {self.codec!r}; give one value" if self.codec else "no codec; give the fields of its message"))
        if value:
            return port_codecs.find(self.codec).write(*value, **fields)
        return messages.make(self.type, **fields)

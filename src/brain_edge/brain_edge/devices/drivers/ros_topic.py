# SPDX-License-Identifier: Apache-2.0
"""A topic of ROS 2, as rmw_zenoh has it on plain Zenoh: a field of a message is a property."""
from __future__ import annotations

import functools
import time
from typing import Any, Mapping

from brain_edge.devices.driver import TEXT, Teller, form
from brain_edge.devices.drivers.brain_link import BREATH, ROUTER, RouterDriver
from brain_edge.devices.models import link_name
from brain_edge.devices.payloads import PATH, inner
from brain_edge.devices.reserved import Topics, check_heard, check_said
from brain_edge.schema import FormProblem
from brain_wire import messages
from brain_wire.names import NameProblem, absolute, expand

_TOPIC = {"type": "object", "required": ["topic", "type"], "properties": {
    "topic": TEXT, "type": TEXT, "field": {**PATH, "maxLength": 60}}}


class RosTopic(RouterDriver):
    """A device that is a node of ROS 2 already, or that somebody made one."""

    settings_form = form("router", "namespace", router=ROUTER, namespace=TEXT)
    visitor_form = form("field", "command", "best_effort", topic=TEXT, type=TEXT, field=PATH, command=_TOPIC,
                        best_effort={"type": "boolean"})
    _node: Any = None

    @classmethod
    def check(cls, visitor: Mapping[str, Any], writable: bool) -> None:
        """See the base."""
        command = visitor.get("command")
        if writable and command is None:
            raise ValueError("the model says ReadWrite, so a command is needed: the topic on which the device is told")
        try:
            _check_field(visitor["type"], visitor.get("field", "data"))
            if command is not None:
                _check_field(command["type"], command.get("field", "data"))
        except messages.MessageError as problem:
            raise ValueError(str(problem)) from None

    @classmethod
    def check_together(cls, settings: Mapping[str, Any], visitors: Mapping[str, Mapping[str, Any]]) -> None:
        """See the base. The brain's own namespace is not known yet: what counts is what is opened."""
        try:
            for visitor in visitors.values():
                full = functools.partial(expand, namespace=absolute(settings.get("namespace", "/")), node="device")
                check_heard(full(visitor["topic"]), visitor["type"])
                if "command" in visitor:
                    check_said(full(visitor["command"]["topic"]), visitor["command"]["type"])
        except (NameProblem, FormProblem, messages.MessageError) as problem:
            raise ValueError(str(problem)) from None

    def _begin(self, tell: Teller) -> None:
        from brain_wire import Node
        from brain_wire.qos import FEATURE, SENSOR

        self._node = Node(self._session, link_name(self.around.device),
                          self.settings.get("namespace", self.around.namespace))
        self._topics = Topics(self._node)
        self._publishers: dict[tuple[str, str], Any] = {}
        for name, visitor in self.visitors.items():
            # Best effort by default: it hears reliable and other publishers alike.
            qos = SENSOR if visitor.get("best_effort", True) else FEATURE
            heard = self._topics.subscription(visitor["topic"], visitor["type"], qos, max_size=2**22)
            self._session.run(functools.partial(self._hear, name, heard, tell), f"topic {name}")
            command = visitor.get("command")
            if command is not None and (command["topic"], command["type"]) not in self._publishers:
                self._publishers[command["topic"], command["type"]] = self._topics.publisher(
                    command["topic"], command["type"])

    def _hear(self, name: str, heard: Any, tell: Teller) -> None:
        visitor, decode = self.visitors[name], messages.decoder(self.visitors[name]["type"])
        while not self._session.zenoh.is_closed():
            for arrival in heard.wait(1.0):
                try:
                    value = inner(decode(arrival.data), visitor.get("field", "data"))
                    tell.value(name, value.item() if hasattr(value, "item") else value)
                except (ValueError, messages.MessageError) as problem:
                    tell.failed(name, f"a message cannot be read: {problem}")
                time.sleep(BREATH)
            if heard.refused:
                tell.failed(name, heard.refused.popleft())
                heard.refused.clear()

    def write(self, visitor: Mapping[str, Any], value: Any) -> None:
        """See the base."""
        self.look()
        command = visitor["command"]
        kind, member = command["type"], command.get("field", "data")
        now: Any = getattr(messages.message_class(kind)(), member)
        if isinstance(now, int) and not isinstance(now, bool) and isinstance(value, float):
            value = round(value)
        try:
            message = messages.make(kind, **{member: value})
            messages.encode(message)
        except messages.MessageError as problem:
            raise ValueError(f"{value!r} does not go into {member} of {kind} ({problem})") from None
        self._publishers[command["topic"], kind].publish(message)

    def look(self) -> None:
        """See the base."""
        super().look()
        for why in self._topics.look().values():
            raise FormProblem(why)

    def close(self) -> None:
        """See the base."""
        if self._node is not None:
            self._node.close()
        super().close()


def _check_field(kind: str, path: str) -> None:
    """Raises ValueError or MessageError where a type has no such field."""
    first = path.replace("[", ".").partition(".")[0]
    if not messages.has_field(kind, first):
        names = ", ".join(name for name, _ in messages.fields_of(kind))
        raise ValueError(f"{kind} has no field {first}; it has {names}")

# SPDX-License-Identifier: Apache-2.0
"""MQTT (3.1.1 or 5), by paho-mqtt: a topic for what a property is, another for what it shall be."""
from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from typing import Any, ClassVar, Mapping

from brain_edge.devices.driver import FILE, FLAG, LARGEST, TEXT, WHOLE, Driver, Teller, Unreachable, form
from brain_edge.devices.payloads import FIELDS, check_payload, decode, encode
from brain_edge.devices.reserved import check_foreign
from brain_wire.safe_text import quoted

ANSWER = 5.0        # s that the broker gets to answer
KEEPALIVE = 15      # s between two signs of life
MISSING = "MQTT needs paho-mqtt, which is not installed: pip install 'paho-mqtt>=2.2.0,<3'"


class Mqtt(Driver):
    """A device that says what it is to a broker."""

    settings_form = form("port", "version", "username", "password_file", "tls", "ca", host=TEXT,
                         port={**WHOLE, "minimum": 1, "maximum": 65535}, version={"enum": ["3.1.1", "5"]},
                         username=TEXT, password_file=FILE, tls=FLAG, ca=FILE)
    visitor_form = form("command", "qos", "retain", *FIELDS, topic=TEXT, command=TEXT, retain=FLAG,
                        qos={**WHOLE, "minimum": 0, "maximum": 1}, **FIELDS)
    polls: ClassVar[bool] = False
    _client: Any = None

    @classmethod
    def check(cls, visitor: Mapping[str, Any], writable: bool) -> None:
        """See the base."""
        for name in ("topic", "command"):
            if name in visitor and re.search("[+#\x00]", visitor[name]):
                raise ValueError(f"{name} {quoted(visitor[name])} is no single topic: + and # stand for many")
            check_foreign(visitor.get(name, ""))
        if writable and "command" not in visitor:
            raise ValueError("the model says ReadWrite, so a command is needed: the topic on which the device is told")
        check_payload(visitor)

    def open(self, tell: Teller) -> None:
        """See the base."""
        try:
            from paho.mqtt import client as paho
        except ImportError as error:
            raise Unreachable(MISSING) from error
        settings, self._tell = self.settings, tell
        five = settings.get("version", "3.1.1") == "5"
        client = self._client = paho.Client(
            paho.CallbackAPIVersion.VERSION2, reconnect_on_failure=False,
            protocol=paho.MQTTv5 if five else paho.MQTTv311)
        # It says each broken callback there; the driver's process hands that to the log.
        client.enable_logger(logging.getLogger("paho"))
        if "username" in settings:
            client.username_pw_set(settings["username"], _password(settings))
        tls = bool(settings.get("tls", False))
        if tls:
            client.tls_set(ca_certs=settings.get("ca"))
        self._by_topic: dict[str, list[str]] = {}
        for name, visitor in self.visitors.items():
            self._by_topic.setdefault(visitor["topic"], []).append(name)
        self._ready, self._refused = threading.Event(), ""
        client.on_connect, client.on_message = self._connected, self._heard
        client.on_subscribe, client.on_disconnect = self._subscribed, self._disconnected
        more: dict[str, Any] = {"clean_start": True, "properties": _limits()} if five else {}
        host, port = settings["host"], settings.get("port", 8883 if tls else 1883)
        try:
            client.connect_timeout = ANSWER
            client.connect(host, port, KEEPALIVE, **more)
        except (OSError, ValueError) as error:
            raise Unreachable(f"no MQTT broker at {host}, port {port} ({error})") from error
        client.loop_start()
        if not self._ready.wait(ANSWER):
            raise Unreachable(f"the broker at {host}, port {port} does not answer")
        if self._refused:
            raise Unreachable(f"the broker at {host}, port {port} refuses: {self._refused}")

    def write(self, visitor: Mapping[str, Any], value: Any) -> None:
        """See the base."""
        sent = self._client.publish(visitor["command"], encode(value, visitor), qos=1,
                                    retain=visitor.get("retain", False))
        sent.wait_for_publish(ANSWER)
        if not sent.is_published():
            raise Unreachable("the broker does not acknowledge what was sent")

    def close(self) -> None:
        """See the base."""
        if self._client is not None:
            self._client.on_disconnect = None
            self._client.disconnect()
            self._client.loop_stop()

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._refused = str(reason)
            self._ready.set()
            return
        first = {topic: self.visitors[names[0]].get("qos", 0) for topic, names in self._by_topic.items()}
        client.subscribe(list(first.items()))

    def _subscribed(self, client: Any, data: Any, number: int, reasons: Any, properties: Any) -> None:
        bad = [str(reason) for reason in reasons if reason.is_failure]
        if bad:
            self._refused = f"it does not let us hear a topic ({bad[0]})"
        self._ready.set()

    def _disconnected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._tell.gone(f"the broker is gone ({reason})")

    def _heard(self, client: Any, data: Any, message: Any) -> None:
        for name in self._by_topic.get(message.topic, ()):
            try:
                self._tell.value(name, decode(message.payload, self.visitors[name], bool(message.retain)))
            except ValueError as problem:
                self._tell.failed(name, str(problem))


def _password(settings: Mapping[str, Any]) -> str | None:
    """From a file on the robot, so that no order and no log holds it."""
    if "password_file" not in settings:
        return None
    path = Path(settings["password_file"]).expanduser()
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreachable(f"the password cannot be read from {path} ({error})") from error


def _limits() -> Any:
    """MQTT 5 can have a broker keep to itself what would be too large anyway."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    found = Properties(PacketTypes.CONNECT)
    found.MaximumPacketSize = 2 * LARGEST
    return found

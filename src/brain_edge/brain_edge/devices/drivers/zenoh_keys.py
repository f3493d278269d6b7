# SPDX-License-Identifier: Apache-2.0
"""Plain Zenoh: a key for what a property is, another for what it shall be. Topics of ROS 2: ``ros_topic``."""
from __future__ import annotations

import functools
import time
from typing import Any, Mapping

from brain_edge.devices.driver import TEXT, Sample, Teller, form
from brain_edge.devices.drivers.brain_link import BREATH, ROUTER, RouterDriver
from brain_edge.devices.payloads import FIELDS, check_payload, decode, encode
from brain_edge.devices.reserved import check_key

WAITING = 16        # messages of a key


class ZenohKeys(RouterDriver):
    """A device that puts values on keys of Zenoh."""

    settings_form = form("router", router=ROUTER)
    visitor_form = form("command", *FIELDS, key=TEXT, command=TEXT, **FIELDS)

    @classmethod
    def check(cls, visitor: Mapping[str, Any], writable: bool) -> None:
        """See the base."""
        check_key(visitor["key"], said=False)
        if "command" in visitor:
            check_key(visitor["command"], said=True)
        if writable and "command" not in visitor:
            raise ValueError("the model says ReadWrite, so a command is needed: the key on which the device is told")
        check_payload(visitor)

    def _begin(self, tell: Teller) -> None:
        from zenoh.handlers import RingChannel

        for name, visitor in self.visitors.items():
            heard = self._session.zenoh.declare_subscriber(visitor["key"], RingChannel(WAITING))
            self._session.run(functools.partial(self._hear, name, heard, tell), f"key {name}")

    def _hear(self, name: str, heard: Any, tell: Teller) -> None:
        import zenoh

        while True:
            try:
                sample = heard.recv()
            except zenoh.ZError:
                return      # the session is closed
            try:
                tell.value(name, self._sample(sample, self.visitors[name]))
            except ValueError as problem:
                tell.failed(name, str(problem))
            time.sleep(BREATH)

    def _sample(self, sample: Any, visitor: Mapping[str, Any]) -> Sample:
        import zenoh

        if sample.kind == zenoh.SampleKind.DELETE:
            raise ValueError("its value was deleted")
        if len(sample.payload) > 2**16:     # before it is copied
            raise ValueError(f"a payload of {len(sample.payload)} bytes came, and at most {2**16} are looked into")
        return decode(sample.payload.to_bytes(), visitor)

    def write(self, visitor: Mapping[str, Any], value: Any) -> None:
        """See the base."""
        self.look()
        self._session.zenoh.put(visitor["command"], encode(value, visitor))

# SPDX-License-Identifier: Apache-2.0
"""Drivers of what is on the brain's own router: a Zenoh session each."""
from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any, ClassVar, Mapping

from brain_edge.devices.driver import TEXT, Driver, Teller, Unreachable
from brain_edge.devices.models import link_name

# A host and port. Zenoh's other links name devices and files of the robot, and so does what may follow a #.
ROUTER: Mapping[str, Any] = {**TEXT, "pattern": r"(tcp|tls|udp|quic|ws)/[A-Za-z0-9_.:%\[\]-]+:[0-9]{1,5}"}
BREATH = 0.001      # s between two messages that are looked into; of what comes faster the newest count


class RouterDriver(Driver):
    """A driver that is a session with the router of its settings, or with the brain's."""

    polls: ClassVar[bool] = False
    _session: Any = None

    def open(self, tell: Teller) -> None:
        """See the base."""
        from brain_wire import NoRouter, SessionProblem, open_session   # Zenoh, for those that use it

        try:
            self._session = open_session(self.settings.get("router", self.around.router), patience=0.0,
                                         identity=identity(link_name(self.around.device)))
        except (NoRouter, SessionProblem) as problem:
            raise Unreachable(str(problem)) from problem
        self._begin(tell)

    @abstractmethod
    def _begin(self, tell: Teller) -> None:
        """Begins to hear what the device says."""

    def look(self) -> None:
        """See the base."""
        if not self._session.linked:
            raise Unreachable("the Zenoh router is gone")

    def close(self) -> None:
        """See the base."""
        if self._session is not None:
            self._session.close()


def identity(name: str) -> str:
    """Identity of a device's node in a secured brain: its own, or the edge's where there are no keys for it."""
    from brain_wire.credentials import EDGE, place

    folder = place()
    if folder is None or not folder.is_dir() or (folder / f"{name}.json5").exists():
        return name
    logging.getLogger("brain.devices").warning(
        "%s has no keys of its own, and takes the edge's: others cannot ask it anything; `brain keys FOLDER --edge "
        "--device FILE` makes some", name)
    logging.getLogger("brain_security").setLevel(logging.ERROR)     # that says it all
    return EDGE

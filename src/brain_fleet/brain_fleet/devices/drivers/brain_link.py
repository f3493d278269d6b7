# SPDX-License-Identifier: Apache-2.0
"""Zenoh sessions for drivers of what is on the brain's own router."""
from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Mapping

from brain_fleet.devices.driver import TEXT, Driver, Unreachable

if TYPE_CHECKING:
    from brain_wire import Session


# A host and port. Zenoh's other links name devices and files of the robot, and so does what may follow a #.
ROUTER: Mapping[str, Any] = {**TEXT, "pattern": r"(tcp|tls|udp|quic|ws)/[A-Za-z0-9_.:%\[\]-]+:[0-9]{1,5}"}


def linked(driver: Driver, undo: contextlib.ExitStack) -> Session:
    """A session with the driver's router, or the brain's, which ``undo`` closes.

    Raises:
        Unreachable: there is none.
    """
    from brain_wire import NoRouter, SessionProblem, open_session   # Zenoh, for those that use it
    from brain_wire.credentials import EDGE

    try:
        return undo.enter_context(open_session(driver.settings.get("router", driver.around.router), identity=EDGE,
                                               patience=0.0))
    except (NoRouter, SessionProblem) as problem:
        raise Unreachable(str(problem)) from problem

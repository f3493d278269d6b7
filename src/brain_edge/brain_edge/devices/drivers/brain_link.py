# SPDX-License-Identifier: Apache-2.0
"""Zenoh sessions for drivers of what is on the brain's own router."""
from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Mapping

from brain_edge.devices.driver import TEXT, Driver, Unreachable
from brain_edge.devices.names import link_name

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

    try:
        return undo.enter_context(open_session(driver.settings.get("router", driver.around.router), patience=0.0,
                                               identity=identity(link_name(driver.around.device))))
    except (NoRouter, SessionProblem) as problem:
        raise Unreachable(str(problem)) from problem


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

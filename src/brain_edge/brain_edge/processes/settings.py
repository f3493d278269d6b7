# SPDX-License-Identifier: Apache-2.0
"""Settings that the processes of a fleet have in common: endpoints, folders, streams, settings of Zenoh."""
from __future__ import annotations

from importlib import metadata

from brain_edge.messages.outbox import Stream
from brain_edge.state.desired_state import EVENTS, GOALS, REPORTS
from brain_wire import NoRouter
from brain_wire.shared_memory import UNSHARED

PORT = 7460         # beside 7447, which a brain's own router has
CLOUD_AT = f"tcp/localhost:{PORT}"
CLOUD_VARIABLE = "BRAIN_CLOUD"
SECURITY_VARIABLE = "BRAIN_FLEET_SECURITY"
TOKEN_VARIABLE = "BRAIN_FLEET_TOKEN"

# Of a robot: what is done about what is wanted, how goals end, what has happened. Those leave room for reports.
FROM_ROBOT = (Stream(REPORTS, 1, 0.9), Stream(GOALS, 2, 0.7), Stream(EVENTS, 5, 0.5))

ANSWER = 12 * 2**20     # bytes of the cloud's answer to a person
LARGEST = 16 * 2**20    # bytes; Zenoh puts nothing larger together
# Other machines are told, so there is no memory to share.
ZENOH = {"transport/link/rx/max_message_size": LARGEST, **UNSHARED}


def refused(problem: NoRouter) -> bool:
    """Tells whether somebody is there, and does not let a session in; what the problem says then names the remedy."""
    return not str(problem).startswith(("no Zenoh router", "stopped"))


def remedy(problem: NoRouter) -> str:
    """Returns what it says, with the variable that a fleet's credentials are named by; the brain's own is another."""
    return str(problem).replace("BRAIN_SECURITY", SECURITY_VARIABLE)


def software() -> str:
    """The version of this package, which others are told."""
    try:
        return metadata.version("brain-edge")[:40]
    except metadata.PackageNotFoundError:
        return "source tree"

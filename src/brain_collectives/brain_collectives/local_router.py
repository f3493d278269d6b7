# SPDX-License-Identifier: Apache-2.0
"""Whether a router carries messages of this machine alone.

That it is reached by loopback says nothing of who else reaches it: it may listen to a network as well, as rmw_zenohd
does, or be linked with other routers. What it says of itself in its admin space tells; where it says nothing, or not
what is expected, it counts as open.
"""
from __future__ import annotations

import ipaddress
import json
import logging
from typing import Any

import zenoh

from brain_wire.refusal import address
from brain_wire.session import Session

PATIENCE = 2.0      # s for its answer, which takes some ms

log = logging.getLogger(__name__)


def of_this_machine_alone(session: Session) -> bool:
    """Whether the router of a session listens on this machine only, and has no link that leaves it."""
    routers = list(session.zenoh.info.routers_zid())
    if len(routers) != 1:
        return False
    answers = session.zenoh.get(f"@/{routers[0]}/router", target=zenoh.QueryTarget.ALL,
                                consolidation=zenoh.ConsolidationMode.NONE, timeout=PATIENCE)
    try:
        # Of several answers one is not the router's: somebody wants to be believed.
        (reply,) = answers
        return reply.ok is not None and _stays_here(json.loads(reply.ok.payload.to_bytes()))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as problem:
        log.debug("the router %s does not say where it listens: %s", routers[0], problem)
        return False


def _stays_here(said: dict[str, Any]) -> bool:
    links = [link for one in said["sessions"] for link in one["links"]]
    ends = [*said["locators"], *(link[end] for link in links for end in ("src", "dst"))]
    return bool(said["locators"]) and all(map(_is_here, ends)) and all(
        one["whatami"] != "router" for one in said["sessions"])


def _is_here(locator: str) -> bool:
    protocol, host, _ = address(locator)
    return protocol.startswith("unix") or ipaddress.ip_address(host.removeprefix("::ffff:")).is_loopback

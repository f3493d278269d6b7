# SPDX-License-Identifier: Apache-2.0
"""Probe of an endpoint of this machine or another, by Zenoh's first message; needs no Zenoh here."""
from __future__ import annotations

import os
import socket
import ssl

PATIENCE = 1.0      # s for the link, and for the answer
VERSION = 9         # of the protocol, as Zenoh 1 speaks it
INIT, ACK, CLOSE = 0x01, 0x20, 0x03
CLIENT = 2          # what we say that we are; a router says 0, a peer 1
NOBODY, ROUTER, PEER, OTHER = "nobody", "router", "peer", "other"


def who(protocol: str, host: str, port: int) -> str:
    """Tells who listens at a port: :data:`ROUTER`, a Zenoh :data:`PEER`, some :data:`OTHER` program, or :data:`NOBODY`.

    By TLS nothing is asked, since a secured router lets only those in who have credentials: what speaks TLS counts as
    the router.

    Args:
        protocol: ``tcp`` or ``tls``.
        host: name or address.
        port: number of it.
    """
    try:
        with socket.create_connection((host, port), PATIENCE) as link:
            return _by_tls(link) if protocol == "tls" else _asked(link)
    except OSError:
        return NOBODY


def _by_tls(link: socket.socket) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with context.wrap_socket(link):
            return ROUTER
    except OSError:
        return OTHER


def _asked(link: socket.socket) -> str:
    """Opens a session as far as the first answer, which says what the other is, and goes away."""
    zid = os.urandom(16)
    message = bytes([INIT, VERSION, (len(zid) - 1) << 4 | CLIENT]) + zid
    try:
        link.sendall(len(message).to_bytes(2, "little") + message)
        answer = b""
        while len(answer) < 5 and (more := link.recv(1024)):
            answer += more
    except OSError:
        return OTHER
    if len(answer) < 3 or int.from_bytes(answer[:2], "little") > 2048:
        return OTHER
    kind = answer[2] & 0x1f
    if kind == CLOSE:
        return ROUTER       # Zenoh, which does not take this session: only what keeps many sessions refuses one
    if kind != INIT or not answer[2] & ACK or len(answer) < 5:
        return OTHER
    return ROUTER if answer[4] & 0x03 == 0 else PEER

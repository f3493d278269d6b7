# SPDX-License-Identifier: Apache-2.0
"""Zenoh's endpoints, as ``tcp/localhost:7447``. Read without Zenoh: under ROS 2 Python may have none."""
from __future__ import annotations

import re
import socket

PORT = 7447     # of a brain's router
LOOPBACK = ("localhost", "127.", "::1")
# Links that leave the machine; the others (unixsock-stream, serial, ...) do not, or are not a network.
NETWORK = ("tcp", "udp", "ws")


def address(endpoint: str) -> tuple[str, str, int]:
    """Protocol, host and port of an endpoint such as ``tls/[::1]:7447``; port 0 where there is none."""
    protocol, _, rest = endpoint.partition("/")
    rest = rest.partition("?")[0].partition("#")[0]
    host, _, port = rest.rpartition(":")
    number = int(port) if re.fullmatch("[0-9]{1,5}", port) else 0
    return protocol, host.strip("[]"), number if number < 65536 else 0


def malformed(endpoint: str) -> bool:
    """Tells whether something cannot be an endpoint: no protocol, or one of a network and not host and port."""
    protocol, host, _ = address(endpoint)
    if not re.fullmatch("[a-z][a-z0-9_-]*/[^\\s\\x00-\\x1f]+", endpoint):
        return True
    return protocol in (*NETWORK, "tls", "quic") and not (host and re.search(":[0-9]{1,5}([?#].*)?$", endpoint))


def on_this_machine(endpoint: str) -> bool:
    """Tells whether what is at an endpoint is reached without leaving this machine's loopback interface."""
    protocol, host, _ = address(endpoint)
    return protocol in NETWORK and host.startswith(LOOPBACK)


def open_to_a_network(endpoint: str) -> bool:
    """Tells whether an endpoint leaves this machine without encryption and authentication."""
    protocol, host, _ = address(endpoint)
    return protocol in NETWORK and not host.startswith(LOOPBACK)


def loopback_endpoints(port: int = PORT, protocol: str = "tcp") -> list[str]:
    """Endpoints for this machine only: 127.0.0.1, and ::1 where there is IPv6."""
    endpoints = [f"{protocol}/127.0.0.1:{port}"]
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return endpoints
    return [*endpoints, f"{protocol}/[::1]:{port}"]

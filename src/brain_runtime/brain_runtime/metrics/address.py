# SPDX-License-Identifier: Apache-2.0
"""Address at which figures are shown: ``[HOST:]PORT``."""
from __future__ import annotations

from brain_wire.safe_text import quoted

HERE = "127.0.0.1"
HELP = ("Show figures to Prometheus at http://HOST:PORT/metrics. HOST is 127.0.0.1 unless it is named; there are no "
        "credentials, so name another only behind a firewall.")


class MetricsProblem(RuntimeError):
    """Figures cannot be shown; says why, and the remedy, in a line."""


def read_address(text: str) -> tuple[str, int]:
    """Host and port of ``[HOST:]PORT``, ``[::1]:9460`` too.

    Raises:
        MetricsProblem: it is none.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535 or ":" in text and not host:
        raise MetricsProblem(f"metrics cannot be served at {quoted(text[:80])}: give a port, as 9460, or a host and a "
                             f"port, as 127.0.0.1:9460")
    return host or HERE, int(port)


def shown_address(address: tuple[str, int]) -> str:
    """An address as people write it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

# SPDX-License-Identifier: Apache-2.0
"""Where figures are shown: ``[HOST:]PORT``; and how a process that is asked for it comes to a server."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brain_runtime.metrics.prometheus_server import MetricsServer

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
        raise MetricsProblem(f"--metrics {text[:80]}: give a port, as 9460, or a host and a port, as 127.0.0.1:9460")
    return host or HERE, int(port)


def shown_address(address: tuple[str, int]) -> str:
    """An address as people write it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def open_server(text: str) -> MetricsServer:
    """A server that listens at ``[HOST:]PORT``, and answers once it is started.

    Raises:
        MetricsProblem: the text is none, nobody can listen there, or prometheus_client is not installed.
    """
    address = read_address(text)
    try:
        from brain_runtime.metrics.prometheus_server import MetricsServer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        raise MetricsProblem(f"metrics need the package prometheus_client, which is not installed for "
                             f"{sys.executable}: pip install prometheus_client, or leave --metrics out") from None
    return MetricsServer(address)

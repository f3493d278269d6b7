# SPDX-License-Identifier: Apache-2.0
"""Opening of a server where a process is asked for its figures, with what is missing where there can be none."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from brain_runtime.metrics.address import MetricsProblem, read_address

if TYPE_CHECKING:
    from brain_runtime.metrics.prometheus_server import MetricsServer


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
                             f"{sys.executable}: pip install prometheus_client") from None
    return MetricsServer(address)

# SPDX-License-Identifier: Apache-2.0
"""Shows figures to Prometheus over HTTP, in threads of its own.

Who asks is hostile: so many connections at once and no more, each with a deadline; and however often somebody asks,
figures are made anew only as often as leaves the process five sixths of its time. Nothing here takes a lock of who
has them.
"""
from __future__ import annotations

import contextlib
import http.server
import logging
import socket
import sys
import threading
import time
from typing import Any, Callable, Iterable, Iterator

import prometheus_client
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import CollectorRegistry

from brain_runtime.metrics.address import MetricsProblem, shown_address
from brain_runtime.metrics.families import COUNTER, HISTOGRAM, SUMMARY, Family
from brain_wire.rate_limited_log import RateLimitedLog

AT_ONCE = 8             # connections
DEADLINE = 5.0          # s for a request, and for an answer to be taken
FRESH = 0.2             # s in which the same figures are shown again
SHARE = 5.0             # times that making them took, in which they are shown again
PATH = "/metrics"
OPEN = "application/openmetrics-text"

limited_log = RateLimitedLog(logging.getLogger(__name__))


class _Collector:
    """Collector that prometheus_client asks for figures."""

    def __init__(self, collect: Callable[[], Iterable[Family]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Any]:
        for family in self._collect():
            made: Any
            if family.kind == HISTOGRAM:
                made = HistogramMetricFamily(family.name, family.help, labels=family.labels)
                for labels, (buckets, total) in family.rows:
                    made.add_metric(labels, buckets, total)
            elif family.kind == SUMMARY:
                made = Metric(family.name, family.help, SUMMARY)
                for labels, value in family.rows:
                    made.add_sample(family.name, dict(zip(family.labels, labels)), value)
            else:
                kind = CounterMetricFamily if family.kind == COUNTER else GaugeMetricFamily
                made = kind(family.name, family.help, labels=family.labels)
                for labels, value in family.rows:
                    made.add_metric(labels, value)
            yield made


class MetricsServer:
    """Serves figures until it is closed; binds at once, answers once started.

    Args:
        address: host and port; port 0: any that is free.

    Raises:
        MetricsProblem: nobody can listen there.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        try:
            self._server = _Server(address, self)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise MetricsProblem(f"metrics cannot be served at {shown_address(address)}: {why}; name another "
                                 f"port") from None
        self.address = self._server.server_name, self._server.server_port
        self._made: dict[str, tuple[float, bytes, str]] = {}
        self._lock = threading.Lock()
        self._registry: CollectorRegistry | None = None

    def start(self, collect: Callable[[], Iterable[Family]]) -> None:
        """Answers from now on.

        Args:
            collect: makes the figures, in a thread of ours.
        """
        registry = CollectorRegistry(auto_describe=False)
        prometheus_client.ProcessCollector(registry=registry)
        registry.register(_Collector(collect))
        self._registry = registry
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def text(self, accept: str) -> tuple[bytes, str]:
        """The figures in a format that is accepted, and what it is called."""
        # Two formats there are, and what a client names besides makes no third: each is made, and kept, by itself.
        encode, kind = choose_encoder(f"{OPEN}; version=1.0.0" if OPEN in accept else "")
        with self._lock:    # one scrape after the other
            until, made, _ = self._made.get(kind, (0.0, b"", kind))
            began = time.monotonic()
            if began >= until and self._registry is not None:
                made = encode(self._registry)
                ended = time.monotonic()
                self._made[kind] = ended + max(FRESH, 2 * SHARE * (ended - began)), made, kind
            return made, kind

    def close(self) -> None:
        """Listens no more."""
        if self._registry is not None:
            self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], metrics: MetricsServer) -> None:
        found = socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self.metrics = metrics
        self._open: dict[int, socket.socket] = {}
        self._lock = threading.Lock()
        super().__init__(found[0][4][:2], _Handler)     # type: ignore[arg-type]

    def server_bind(self) -> None:
        # HTTPServer would ask a name server what this machine is called, which may take long
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= AT_ONCE:      # the slowest gives way, so that nobody can keep others out
                limited_log("places", f"more than {AT_ONCE} connections ask for metrics at once; the oldest is closed")
                with contextlib.suppress(OSError):      # it has gone by itself
                    self._open.pop(next(iter(self._open))).shutdown(socket.SHUT_RDWR)
            self._open[id(request)] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):      # a client that went away is its own affair
            limited_log("request", "a request for metrics failed", trace=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = DEADLINE
    server_version, sys_version = "brain", ""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PATH:
            self._answer(404, f"figures are at {PATH}\n".encode(), "text/plain; charset=utf-8")
            return
        try:
            body, kind = self.server.metrics.text(self.headers.get("Accept", ""))   # type: ignore[attr-defined]
        except Exception as error:  # whatever is wrong with one figure, the process goes on
            limited_log("collect", "metrics could not be made", trace=True)
            self._answer(500, f"metrics could not be made: {type(error).__name__}; the log says more\n".encode(),
                         "text/plain; charset=utf-8")
            return
        self._answer(200, body, kind)

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, form: str, *values: Any) -> None:
        """Says nothing: who asks, and how often, is no news."""

# SPDX-License-Identifier: Apache-2.0
"""HTTP server for reports of Sedna's workers: ``POST $LC_SERVER/sedna/workers/NAME/info``, on this machine alone.

The address holds a word that only workers are told, so that no other user of the machine reports for them.
"""
from __future__ import annotations

import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable

from brain_edge.schema import FormProblem, check, read_json

LONGEST = 2**20     # bytes of a report
PATIENCE = 10.0     # s that a worker gets to send one
_TEXT = {"type": ["string", "null"], "maxLength": 253}
_REPORT = {"type": "object", "required": ["name", "ownerName", "ownerKind", "kind", "status"], "properties": {
    "name": {"type": "string", "maxLength": 253}, "ownerName": {"type": "string", "maxLength": 253},
    "ownerKind": {"type": "string", "maxLength": 253}, "kind": {"type": "string", "maxLength": 40},
    "status": {"type": "string", "maxLength": 40}, "namespace": _TEXT,
    "ownerInfo": {"type": ["object", "null"], "additionalProperties": True},
    "results": {"type": ["array", "null"], "items": {"type": "object", "additionalProperties": True}}}}


class Reports:
    """Listens until it is closed.

    Args:
        hear: called, in a thread of its own, with each report that can be meant so.

    Attributes:
        address: that workers are given.
    """

    def __init__(self, hear: Callable[[dict[str, Any]], None]) -> None:
        word = secrets.token_urlsafe(16)

        class Handler(BaseHTTPRequestHandler):
            timeout = PATIENCE

            def do_POST(self) -> None:
                self._answer(*_heard(self, word, hear))

            def _answer(self, status: int, message: str) -> None:
                body = json.dumps({"status": status, "message": message}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
                """Reports are told as events."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/{word}"
        threading.Thread(target=self._server.serve_forever, name="reports", daemon=True).start()

    def close(self) -> None:
        """Listens no more."""
        self._server.shutdown()
        self._server.server_close()


def _heard(request: BaseHTTPRequestHandler, word: str, hear: Callable[[dict[str, Any]], None]) -> tuple[int, str]:
    parts = request.path.split("/")
    if len(parts) != 6 or not secrets.compare_digest(parts[1].encode(), word.encode()) or parts[2:4] != [
            "sedna", "workers"] or parts[5] != "info":
        return 404, "reports go to $LC_SERVER/sedna/workers/$WORKER_NAME/info"
    try:
        length = int(request.headers.get("Content-Length", ""))
    except ValueError:
        return 411, "Content-Length is missing"
    if not 0 <= length <= LONGEST:
        return 413, f"a report has at most {LONGEST} bytes"
    try:
        found = read_json(request.rfile.read(length), LONGEST)
        check(found, _REPORT)
    except FormProblem as problem:
        return 400, str(problem)
    except OSError:
        return 408, "the report did not come in time"
    if found["name"] != parts[4]:
        return 400, "the name in the report is not that of the address"
    hear(found)
    return 200, "OK"

# SPDX-License-Identifier: Apache-2.0
"""The side of a process that takes orders from :class:`experiments.processes.Peer`, as lines of JSON by a local socket.

It imports nothing of ours, so that what is run by its path in an environment without the brain has it, too.
"""
import json
import os
import socket

PORT = "BENCH_ORDERS"       # what names the port of who gives the orders


class Orders:
    """Orders as they come, until there are no more."""

    def __init__(self):
        self._stream = socket.create_connection(("127.0.0.1", int(os.environ[PORT]))).makefile("rw", encoding="utf-8")

    def __iter__(self):
        return map(json.loads, self._stream)

    def tell(self, **answer):
        """Answers an order, or says what was not asked for yet. What begins with ``error`` ends the measurement."""
        self._stream.write(json.dumps(answer) + "\n")
        self._stream.flush()

    def close(self):
        """Lets go of them, as a forked process does that another one asks."""
        self._stream.close()

# SPDX-License-Identifier: Apache-2.0
"""A link that can be cut: hands bytes on between TCP connections, and drops them all when it is told to."""
from __future__ import annotations

import contextlib
import socket
import struct
import threading

CHUNK = 1 << 16
# Zero seconds to linger: the connection is reset, and what was under way is lost, as when a radio link breaks down.
RESET = struct.pack("ii", 1, 0)


class Relay:
    """Listens on a port of this machine, and connects each who comes to another.

    Args:
        to: port of this machine.

    Attributes:
        port: where it listens.
        cuts: how often it cut at least one connection.
    """

    def __init__(self, to: int) -> None:
        self._to, self.cuts = to, 0
        self._open = True
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return      # it was closed
            try:
                if not self._open:
                    raise ConnectionError("the link is cut")
                far = socket.create_connection(("127.0.0.1", self._to), timeout=5.0)
                far.settimeout(None)
            except OSError:
                _reset(near)
                continue
            pair = near, far
            with self._lock:
                self._pairs.add(pair)
            for source, target in (pair, pair[::-1]):
                threading.Thread(target=self._hand_on, args=(source, target, pair), daemon=True).start()

    def _hand_on(self, source: socket.socket, target: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        with contextlib.suppress(OSError):      # either end went, or was cut
            while data := source.recv(CHUNK):
                target.sendall(data)
        self._drop(pair)

    def _drop(self, pair: tuple[socket.socket, socket.socket]) -> bool:
        with self._lock:
            if pair not in self._pairs:
                return False
            self._pairs.discard(pair)
        for one in pair:
            _reset(one)
        return True

    def cut(self, stay: bool = False) -> bool:
        """Cuts all connections; whether there were any.

        Args:
            stay: nobody gets through any more, until :meth:`mend`.
        """
        self._open = not stay
        with self._lock:
            pairs = list(self._pairs)
        cut = sum(self._drop(pair) for pair in pairs)
        self.cuts += cut > 0
        return cut > 0

    def linked(self) -> bool:
        """Tells whether there is a connection just now."""
        with self._lock:
            return bool(self._pairs)

    def mend(self) -> None:
        """Lets connections through again."""
        self._open = True

    def close(self) -> None:
        """Ends it, and all connections."""
        self._listening.close()
        self.cut(stay=True)


def _reset(one: socket.socket) -> None:
    with contextlib.suppress(OSError):      # it is gone already
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        one.shutdown(socket.SHUT_RDWR)
    one.close()

# SPDX-License-Identifier: Apache-2.0
"""Relay: a link between two processes of this machine that can be cut."""
from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Callable

CHUNK = 1 << 16         # bytes that are read at once
NO_LINGER = struct.pack("ii", 1, 0)     # zero seconds: the connection is reset

Pair = tuple[socket.socket, socket.socket]


class Relay:
    """Listens on a port of this machine, and connects each who comes to another; the link can be cut.

    Args:
        to: port of this machine.
        listen: port of this machine; 0: any that is free.

    Raises:
        OSError: it cannot listen there.

    Attributes:
        port: where it listens.
        cuts: times that it cut at least one connection.
    """

    def __init__(self, to: int, listen: int = 0) -> None:
        self._to, self.cuts = to, 0
        self._open = True
        self._pairs: set[Pair] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", listen))
        self.port: int = self._listening.getsockname()[1]
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="relay", daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

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
            except OSError:
                _reset(near)
                continue
            far.settimeout(None)
            pair = near, far
            with self._lock:
                self._pairs.add(pair)
                through = self._open
            if through:
                self._link(pair)
            else:       # it was cut meanwhile
                self._drop(pair)

    def _link(self, pair: Pair) -> None:
        """Has what comes from either end handed on."""
        for source, target in (pair, pair[::-1]):
            self._start(self._hand_on, source, target, pair)

    def _hand_on(self, source: socket.socket, target: socket.socket, pair: Pair) -> None:
        with contextlib.suppress(OSError):      # either end went, or was cut
            while data := source.recv(CHUNK):
                target.sendall(data)
        self._drop(pair)

    def _drop(self, pair: Pair) -> bool:
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
        with self._lock:
            self._open = not stay
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
        # accept() in another thread does not see that its socket is closed, but it does see the end of listening
        with contextlib.suppress(OSError):      # it is closed already
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut(stay=True)
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(5.0)


def _reset(one: socket.socket) -> None:
    """Closes a connection in one go: what was under way is lost, as when a radio link breaks down."""
    with contextlib.suppress(OSError):      # it is gone already
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        one.shutdown(socket.SHUT_RDWR)
    one.close()

# SPDX-License-Identifier: Apache-2.0
"""A link between two processes of this machine that is as late, uneven, narrow and lossy as one between two tiers.

What comes over a TCP connection is handed on by :class:`brain_cloud.placement.channel.Channel`, the same that predicts.
A lost segment is a stop of the whole connection until it would have come again, since the connection itself runs over
this machine's loopback, which loses nothing.
"""
from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from typing import Any, Callable

from brain_cloud.checks.relay import CHUNK, Pair, Relay
from brain_cloud.placement.channel import Channel, Way

LONGEST_QUEUE = 1 << 22     # bytes under way, beyond which nothing more is read: the sender's TCP then waits


class SlowRelay(Relay):
    """A relay that is as slow as a link between two tiers.

    Args:
        to: port of this machine.
        way: what the link is like, in both directions.
        seed: of what is drawn.
        listen: port of this machine; 0: any that is free.

    Raises:
        OSError: it cannot listen there.

    Attributes:
        carried: bytes that came in, towards ``to`` and back.
    """

    def __init__(self, to: int, way: Way, seed: int = 0, listen: int = 0) -> None:
        self._way, self._seed, self.carried = way, seed, [0, 0]
        super().__init__(to, listen)

    def _link(self, pair: Pair) -> None:
        self._seed += 2
        for number, (source, target) in enumerate((pair, pair[::-1])):
            with contextlib.suppress(OSError):      # it is cut already
                target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = _Line(target)
            self._start(line.hand_on)
            self._start(self._read, source, line, Channel(self._way, self._seed + number), number)

    def _read(self, source: socket.socket, line: _Line, channel: Channel, number: int) -> None:
        with contextlib.suppress(OSError):      # either end went
            while data := source.recv(CHUNK):
                self.carried[number] += len(data)
                line.put(channel.arrival(time.monotonic(), len(data)), data)
        line.end()


class _Line:
    """Queue of what is under way to a socket, in order, each piece until its time has come."""

    def __init__(self, target: socket.socket) -> None:
        self._target = target
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._size, self._over = 0, False
        self._changed = threading.Condition()

    def put(self, due: float, data: bytes) -> None:
        """Takes a piece that arrives at ``due`` (s, steady)."""
        with self._changed:
            self._changed.wait_for(lambda: self._size < LONGEST_QUEUE or self._over)
            self._under_way.append((due, data))
            self._size += len(data)
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more comes."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def hand_on(self) -> None:
        """Delivers until the end; then the other side's connection ends too."""
        with contextlib.suppress(OSError):      # who was to get it went
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._under_way or self._over)
                    if not self._under_way:
                        break
                    due, data = self._under_way.popleft()
                    self._size -= len(data)
                    self._changed.notify_all()
                time.sleep(max(0.0, due - time.monotonic()))
                self._target.sendall(data)
        self.end()      # who still puts must not wait for ever
        with contextlib.suppress(OSError):
            self._target.shutdown(socket.SHUT_RDWR)


def relay(to: int, listen: int, way: Way, seed: int, tell: Callable[[Any], None]) -> None:
    """Relays until its process is ended; see :class:`SlowRelay`. It tells nothing."""
    SlowRelay(to, way, seed, listen)
    threading.Event().wait()

# SPDX-License-Identifier: Apache-2.0
"""Links between two processes of this machine: one that can be cut, and one that is as slow as between two tiers.

The slow one is late, uneven, narrow and lossy, and also a process: ``python -m brain_cloud.placement.relay``. What
comes over a TCP connection it hands on by :class:`.channel.Channel`, the same that predicts. A lost segment is a stop
of the whole connection until it would have come again, since the connection itself runs over this machine's loopback,
which loses nothing.
"""
from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import struct
import sys
import threading
import time
from collections import deque
from dataclasses import asdict, fields
from typing import Callable, Sequence

from brain_cloud.placement.channel import Channel, Way
from brain_wire.wakeup import Flag

CHUNK = 1 << 16         # bytes that are read at once
LONGEST_QUEUE = 1 << 22     # bytes under way, beyond which nothing more is read: the sender's TCP then waits
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


class SlowRelay(Relay):
    """The same, as slow as a link between two tiers.

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


def _reset(one: socket.socket) -> None:
    """Closes a connection in one go: what was under way is lost, as when a radio link breaks down."""
    with contextlib.suppress(OSError):      # it is gone already
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        one.shutdown(socket.SHUT_RDWR)
    one.close()


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


def command(to: int, listen: int, way: Way, seed: int) -> tuple[str, ...]:
    """The command line of a relay as a process; see :class:`SlowRelay`."""
    given = {"to": to, "listen": listen, "seed": seed, **asdict(way)}
    return (sys.executable, "-m", "brain_cloud.placement.relay",
            *(word for name, value in given.items() for word in (f"--{name}", repr(value))))


def main(argv: Sequence[str] | None = None) -> int:
    """Relays until SIGINT or SIGTERM. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m brain_cloud.placement.relay", description=__doc__.split("\n")[0])
    for name in ("to", "listen", "seed"):
        parser.add_argument(f"--{name}", type=int, required=name == "to", default=0)
    for field in fields(Way):
        parser.add_argument(f"--{field.name}", type=float, required=True)
    given = vars(parser.parse_args(argv))
    stop = Flag()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    to, listen, seed = (given.pop(name) for name in ("to", "listen", "seed"))
    try:
        relay = SlowRelay(to, Way(**given), seed, listen)
    except OSError as error:
        print(f"cannot listen at port {listen}: {error.strerror or error}; choose another with --listen",
              file=sys.stderr)
        return 1
    stop.wait()
    relay.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Large messages in shared memory, where both ends are on one machine and of one user.

Zenoh tells a session and its router, when they link, whether each can read what the other shares; where not, it copies
the bytes out and sends them as ever. So who publishes need not know who hears, and a node without shared memory, or on
another machine, gets the same message. Its own keys say whether and how: ``transport/shared_memory/enabled``, and in
``transport/shared_memory/transport_optimization`` ``pool_size`` and ``message_size_threshold`` (bytes).

Zenoh itself would copy large messages into a pool too (``transport_optimization/enabled``). Here that is done where
it can be counted, and where memory that a killed process held is taken back.
"""
from __future__ import annotations

import ctypes
import functools
import json
import logging
import mmap
import resource
import threading
import time
from typing import Any

import zenoh

from brain_wire.messages import MessageError

ENABLED = "transport/shared_memory/enabled"
POOL_SIZE = "transport/shared_memory/transport_optimization/pool_size"
THRESHOLD = "transport/shared_memory/transport_optimization/message_size_threshold"
# Bytes. Through a router on one machine (two busy cores), there and 16 bytes back, medians: 208 against 225 us at
# 12 KiB, 275 against 251 us at 64 KiB, 2171 against 669 us at 1 MiB.
WORTH = 1 << 16
SETTINGS: dict[str, Any] = {ENABLED: True, "transport/shared_memory/transport_optimization/enabled": False,
                            THRESHOLD: WORTH}
UNSHARED = {ENABLED: False}
LOOK_AT = 512           # bytes from which on a message may have come in shared memory, whoever sent it
RECLAIM = 1.0           # s without room, after which memory is taken back from who has not been alive meanwhile
NEVER = 1 << 62         # bytes that no message has
# Bytes that a process must be allowed to lock in memory. Zenoh locks the pools of all whose messages come, 16 MiB each,
# and of a message whose pool it cannot lock nobody hears anything: with the 8 MiB that Linux allows by default, of nine
# messages of three publishers, with pools of 4 MiB, three came.
LOCKABLE = 1 << 30
TRIED = 1 << 26         # bytes up to which it is tried whether more than the limit can be locked

log = logging.getLogger(__name__)
_told = threading.Event()


@functools.cache
def may_lock() -> bool:
    """Checks whether this process may lock as much memory as shared memory takes: see :data:`LOCKABLE`."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit == resource.RLIM_INFINITY or limit >= LOCKABLE:
        return True
    # Root is above the limit, but not in every container, whatever its capabilities are said to be: it is tried.
    return limit <= TRIED and _can_lock(limit + 2 * mmap.PAGESIZE)


def _can_lock(size: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(-1, size) as memory:
        start = ctypes.c_char.from_buffer(memory)
        try:
            address, length = ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size)
            locked = libc.mlock(address, length) == 0
            if locked:
                libc.munlock(address, length)
        finally:
            del start       # the memory cannot be given back before; not even at Ctrl-C
    return locked


def open_zenoh(config: zenoh.Config) -> zenoh.Session:
    """Opens a session; without shared memory where there is none to be had, as with a read-only /dev/shm.

    Whether it has any, ``config`` says afterwards.

    Raises:
        zenoh.ZError: it cannot be opened.
    """
    if json.loads(config.get_json(ENABLED)) and not may_lock():
        log.info("no shared memory: this process may lock too little in memory (ulimit -l); large messages are sent as "
                 "others are")
        config.insert_json5(ENABLED, "false")
    try:
        return zenoh.open(config)
    except zenoh.ZError as error:
        if "shm" not in str(error) or not json.loads(config.get_json(ENABLED)):
            raise
        if not _told.is_set():
            _told.set()
            log.warning("no shared memory: %s; large messages are sent as others are", str(error).partition(" at /")[0])
    config.insert_json5(ENABLED, "false")
    return zenoh.open(config)


class Pool:
    """Shared memory for a session's large messages. It is taken when the first of them is published.

    Args:
        config: of the session.

    Attributes:
        threshold: bytes from which on a message is put into it; more than any message has where none is shared.
        shared: messages that were.
        unshared: messages that were sent as others are, since there was no room, or no memory to be had.
    """

    def __init__(self, config: zenoh.Config | None = None) -> None:
        self.threshold = NEVER
        self.shared = self.unshared = 0
        self._size = 0
        self._provider: Any = None
        self._full_since: float | None = None
        self._lock = threading.Lock()
        if config is not None and json.loads(config.get_json(ENABLED)):
            self.threshold = int(json.loads(config.get_json(THRESHOLD)))
            self._size = int(json.loads(config.get_json(POOL_SIZE)))

    def share(self, data: bytes | bytearray) -> Any:
        """Shares a message from :attr:`threshold` bytes on: returns its buffer, or ``data`` if there is no room."""
        with self._lock:
            buffer = self._buffer(len(data))
            if buffer is None:
                self.unshared += 1
                return data
            self.shared += 1
        buffer[0:len(data)] = bytes(data)
        return buffer

    def _buffer(self, size: int) -> Any:
        if size > self._size:
            return None
        try:
            if self._provider is None:
                self._provider = zenoh.shm.ShmProvider.default_backend(self._size)
            buffer = self._provider.alloc(size, zenoh.shm.GarbageCollect())
        except BaseException as error:
            panicked = type(error).__module__ == "pyo3_runtime"     # as where the pool finds room, but not its books
            if not panicked and not isinstance(error, zenoh.ZError):
                raise
            if self._provider is None or panicked:
                self.threshold = NEVER      # it will not be there the next time either
                log.warning("no shared memory of %d bytes: %s; large messages are sent as others are", self._size,
                            str(error).partition(" at /")[0])
            else:
                self._reclaim()
            return None
        self._full_since = None
        return buffer

    def _reclaim(self) -> None:
        """Takes back what processes hold that have been killed: nobody else does.

        Of those that only did not run for a while, too, which then find that what they hold is gone: see
        :func:`read`. So it is not done before there has been no room for a while.
        """
        now = time.monotonic()
        if self._full_since is None:
            self._full_since = now
        elif now - self._full_since > RECLAIM:
            self._full_since = None
            self._provider.garbage_collect_unsafe()


def read(payload: zenoh.ZBytes) -> bytes:
    """The bytes of a message, copied, since the memory is used again.

    Raises:
        MessageError: it was in shared memory that its publisher has taken back since, as it does when this process has
            not run for a while; the bytes may be another message's.
    """
    data = payload.to_bytes()
    if len(data) >= LOOK_AT:
        buffer = payload.as_shm()
        if buffer is not None and not buffer.is_valid():    # asked after the copy: then it was whole while copied
            raise MessageError("the shared memory that it came in is its publisher's again; this process did not run "
                               "for a while")
    return data

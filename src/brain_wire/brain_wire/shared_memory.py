# SPDX-License-Identifier: Apache-2.0
"""Large messages in shared memory, where both ends are on one machine and of one user.

Zenoh tells a session and its router, when they link, whether each can read what the other shares; where not, it copies
the bytes out and sends them as ever. So who publishes need not know who hears, and a node without shared memory, or on
another machine, gets the same message. Its own keys say whether and how: ``transport/shared_memory/enabled``, and in
``transport/shared_memory/transport_optimization`` ``pool_size`` and ``message_size_threshold`` (bytes).

Zenoh itself would copy large messages into a pool too (``transport_optimization/enabled``). Here that is done where
it can be counted, and where memory that a killed process held is taken back; and so that a message is copied once: its
parts to where they are read. Zenoh's binding for Python only copies in and out of such memory, so its address is taken
from the binding's own objects, once it is known by what lies there where it stands in them. Where that is not found,
messages are copied as the binding does.
"""
from __future__ import annotations

import ctypes
import functools
import json
import logging
import mmap
import os
import re
import resource
import threading
import time
from typing import Any, Callable, Sequence

import numpy as np
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
KNOWN = 64              # bytes, by which the address of a session's first shared memory is known
SEGMENT = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) .* /dev/shm/\S+\.zenoh$", re.MULTILINE)   # in /proc/self/maps
REMEDY = ("large messages are sent as others are, which takes longer. Give /dev/shm more room (docker: "
          "--shm-size=256m; mount -o remount,size=256m /dev/shm), or take a smaller "
          f"{POOL_SIZE} in ZENOH_CONFIG_OVERRIDE")

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
        log.info("no shared memory: this process may lock too little in memory; large messages are sent as others are, "
                 "which takes longer. Let it lock 1 GiB: ulimit -l 1048576, LimitMEMLOCK=, docker: --ulimit memlock=-1")
        config.insert_json5(ENABLED, "false")
    try:
        return zenoh.open(config)
    except zenoh.ZError as error:
        if "shm" not in str(error) or not json.loads(config.get_json(ENABLED)):
            raise
        if not _told.is_set():
            _told.set()
            log.warning("no shared memory: %s; %s", str(error).partition(" at /")[0], REMEDY)
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
        self._within = (0, 0)       # addresses of it
        self._full_since: float | None = None
        self._lock = threading.Lock()
        if config is not None and json.loads(config.get_json(ENABLED)):
            self.threshold = int(json.loads(config.get_json(THRESHOLD)))
            self._size = int(json.loads(config.get_json(POOL_SIZE)))

    def share(self, parts: Sequence[Any]) -> Any:
        """Shares a message of at least :attr:`threshold` bytes, whose parts (bytes, arrays) are copied to their places.

        Returns:
            The buffer, or the bytes if there is no room.
        """
        views = [memoryview(part).cast("B") for part in parts if len(part)]     # an empty one cannot be cast
        size = sum(map(len, views))
        with self._lock:
            buffer = self._buffer(size)
            if buffer is None:
                self.unshared += 1
            else:
                self.shared += 1
        if buffer is None:
            return b"".join(views)
        address = _address(buffer, self._within, size)
        if address is None:
            buffer[0:size] = b"".join(views)
            return buffer
        memory, at = np.asarray(_Memory(buffer, address, size, False)).data, 0
        for view in views:
            memory[at:at + len(view)] = view
            at += len(view)
        return buffer

    def _buffer(self, size: int) -> Any:
        if size > self._size:
            return None
        try:
            if self._provider is None:
                self._provider = zenoh.shm.ShmProvider.default_backend(self._size)
                self._within = self._segment()
            self._provider.garbage_collect()    # so that what was just let go is used again, while caches hold it
            buffer = self._provider.alloc(size, zenoh.shm.GarbageCollect())
        except BaseException as error:
            panicked = type(error).__module__ == "pyo3_runtime"     # as where the pool finds room, but not its books
            if not panicked and not isinstance(error, zenoh.ZError):
                raise
            if self._provider is None or panicked:
                self.threshold = NEVER      # it will not be there the next time either
                log.warning("no shared memory of %d bytes: %s; %s", self._size, str(error).partition(" at /")[0],
                            REMEDY)
            else:
                self._reclaim()
            return None
        self._full_since = None
        return buffer

    def _segment(self) -> tuple[int, int]:
        """Finds the addresses between which the pool lies, by writing something there; none, if it is not seen."""
        buffer, known = self._provider.alloc(KNOWN), os.urandom(KNOWN)
        buffer[0:KNOWN] = known
        address = _address(buffer, None, KNOWN, lambda: known)
        return next(((start, end) for start, end in _segments() if address and start <= address < end), (0, 0))

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


class _Memory:
    """Memory for numpy, which holds ``keep`` while it has any of it."""

    def __init__(self, keep: Any, address: int, size: int, fixed: bool) -> None:
        self._keep = keep
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (address, fixed)}


_places: dict[type, int | None] = {}    # by class of the binding, the word of its objects in which the address stands


def _segments() -> list[tuple[int, int]]:
    """Lists the addresses between which this process has mapped shared memory of Zenoh."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return [(int(start, 16), int(end, 16)) for start, end in SEGMENT.findall(maps.read())]
    except OSError:
        return []


def _address(buffer: Any, within: tuple[int, int] | None, size: int, known: Callable[[], bytes] | None = None
             ) -> int | None:
    """Finds where the ``size`` bytes of a buffer lie; None if that is not known.

    Args:
        buffer: an object of the binding.
        within: addresses between which they must lie; None: anywhere.
        size: of the buffer (bytes).
        known: gives what lies there, by which the address is known among the words of the first object of its class;
            None: nothing is looked for.
    """
    kind = type(buffer)
    words = (ctypes.c_size_t * (kind.__basicsize__ // ctypes.sizeof(ctypes.c_size_t))).from_address(id(buffer))
    if kind not in _places:
        if known is None:
            return None
        segments, bytes_ = _segments(), known()
        found = [place for place, word in enumerate(words[:-1]) if words[place + 1] == size and any(
            start <= word and word + size <= end for start, end in segments) and ctypes.string_at(word, size) == bytes_]
        _places[kind] = found[0] if len(found) == 1 else None
    place = _places[kind]
    if place is None or words[place + 1] != size:   # behind the address stands how many bytes there are
        return None
    address = words[place]
    return address if within is None or within[0] <= address <= within[1] - size else None


def view(payload: zenoh.ZBytes) -> bytes | memoryview:
    """The bytes of a message, of a large one in shared memory where they lie, which stay there while they are held.

    They change under who holds them where :func:`read` raises.

    Raises:
        MessageError: as :func:`read`.
    """
    size = len(payload)
    buffer = payload.as_shm() if size >= WORTH else None
    if buffer is None:
        return read(payload)
    address = _address(buffer, None, size, payload.to_bytes)
    if address is None:
        return read(payload)
    _check(buffer)
    return np.asarray(_Memory(buffer, address, size, True)).data


def read(payload: zenoh.ZBytes) -> bytes:
    """The bytes of a message, copied, since the memory is used again.

    Raises:
        MessageError: it was in shared memory that its publisher has taken back since, as it does when this process has
            not run for a while; the bytes may be another message's.
    """
    data = payload.to_bytes()
    if len(data) >= LOOK_AT:
        buffer = payload.as_shm()
        if buffer is not None:
            _check(buffer)      # after the copy: then it was whole while copied
    return data


def _check(buffer: Any) -> None:
    if not buffer.is_valid():
        raise MessageError("the shared memory that it came in is its publisher's again; this process did not run for a "
                           "while")

# SPDX-License-Identifier: Apache-2.0
"""Messages sent last, in case a link is lost: a router that dies takes along what it had not yet forwarded."""
from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import zenoh

TO_ALL = -1


class Sent(NamedTuple):
    """A message that was sent."""

    header: bytes
    payload: zenoh.ZBytes


class Kept:
    """Messages that were sent last, as many as fit.

    Args:
        most: B of payload that are kept; the memory is the payloads' own, nothing is copied.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._kept: OrderedDict[tuple[int, ...], Sent] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, key: tuple[int, ...], header: bytes, payload: zenoh.ZBytes) -> None:
        """Keeps a message and lets the oldest go."""
        with self._lock:
            self._kept[key] = Sent(header, payload)
            self._size += len(payload) + len(header)
            while self._size > self._most and len(self._kept) > 1:
                _, old = self._kept.popitem(last=False)
                self._size -= len(old.payload) + len(old.header)

    def find(self, *keys: tuple[int, ...]) -> Sent | None:
        """The first that is still kept."""
        with self._lock:
            return next((self._kept[key] for key in keys if key in self._kept), None)

# SPDX-License-Identifier: Apache-2.0
"""Taught things of a vision that runs: its heads are made anew when the robot's file changes, and vision goes on.

A head is made by looks at all pictures of the file, which takes a second or two: in a thread of its own.
"""
from __future__ import annotations

import logging
import threading
from typing import Any, Mapping, Sequence

import numpy as np

from brain_regions.vision import taught
from brain_regions.vision.decode import Found
from brain_regions.vision.network import Looking
from brain_runtime.contract.taught import TaughtError, file

EVERY = 20      # pictures from one look at the file to the next

log = logging.getLogger(__name__)


class Lessons:
    """Taught things of one vision.

    Args:
        kept: there may be a file; else nothing is taught.
    """

    def __init__(self, kept: bool) -> None:
        self._kept, self._pictures, self._known = kept, 0, (0, 0)
        self._tensors: Mapping[str, np.ndarray] = {}
        self._taught: taught.Taught | None = None
        self._thread: threading.Thread | None = None

    def use(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Takes other weights."""
        self._tensors, self._pictures, self._known, self._taught = tensors, 0, (0, 0), None

    def find(self, picture: np.ndarray, trains: Sequence[np.ndarray], answer: np.ndarray, height: float
             ) -> list[Found]:
        """Finds taught things in a picture; see :meth:`.taught.Taught.find`, but for the spikes of all layers."""
        if not self._kept:
            return []
        if self._pictures % EVERY == 0:
            self._look()
        self._pictures += 1
        made = self._taught
        return [] if made is None or not made.heads else made.find(
            taught.Looked(picture, taught.rates(trains), answer), height)

    def _look(self) -> None:
        try:
            told = file().stat()
            known = told.st_mtime_ns, told.st_size
        except OSError:
            known = 0, 0
        if known == self._known or self._thread is not None and self._thread.is_alive():
            return
        self._known = known
        if known == (0, 0):
            self._taught = None
            return
        self._thread = threading.Thread(target=self._learn, args=(self._tensors,), daemon=True, name="taught things")
        self._thread.start()

    def _learn(self, tensors: Mapping[str, np.ndarray]) -> None:
        made: Any = None
        try:
            made = taught.Taught(Looking(tensors), taught.load(file()))
        except TaughtError as error:
            log.error("%s", error)
        if tensors is self._tensors:
            self._taught = made

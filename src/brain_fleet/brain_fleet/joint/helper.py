# SPDX-License-Identifier: Apache-2.0
"""Holds the process that answers hard pictures: the cloud's own needs no torch, and what dies is started again."""
from __future__ import annotations

import json
import logging
import queue
import subprocess
import sys
import threading
import time

from brain_fleet.joint import piped
from brain_fleet.messages.pace import RETRY
from brain_wire.rate_limited_log import RateLimitedLog

CLASS = "brain_regions.vision.second:SecondVision"
START = 120.0       # s that it may take to load what it computes with
ANSWER = 5.0        # s for one; a robot has long stopped waiting by then

log = logging.getLogger("brain.second")
limited_log = RateLimitedLog(log)


class HelperProblem(RuntimeError):
    """The process that answers cannot be used; says why."""


class Helper:
    """The process, until it is closed. One question at a time.

    Args:
        weights: file of the large network.
        cls: of the region that answers, as ``package.module:Class``.

    Raises:
        HelperProblem: it cannot answer: the weights, or what it needs, are not there.
    """

    def __init__(self, weights: str, cls: str = CLASS) -> None:
        self._command = [sys.executable, "-m", "brain_fleet.joint.worker", "--class", cls, "--weights", weights]
        self._lock, self._closed, self._failed, self._next = threading.Lock(), False, 0, 0.0
        self._process, self._frames = self._start()
        self._await_ready()

    def _start(self) -> tuple[subprocess.Popen[bytes], queue.Queue[bytes | None]]:
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   start_new_session=True)     # Ctrl-C is the cloud's; it ends with its input
        frames: queue.Queue[bytes | None] = queue.Queue()

        def hear() -> None:
            assert process.stdout is not None
            while (frame := piped.read(process.stdout)) is not None:
                frames.put(frame)
            frames.put(None)

        threading.Thread(target=hear, name="second", daemon=True).start()
        return process, frames

    def _await_ready(self) -> None:
        try:
            told = json.loads(self._frames.get(timeout=START) or b"{}")
        except (queue.Empty, ValueError):
            told = {}
        if "ready" not in told:
            self._end()
            raise HelperProblem(told.get("problem") or "the process that answers hard pictures did not start; what it "
                                "printed says why")
        self._failed = 0

    def ask(self, question: bytes) -> bytes:
        """The answer; empty: what was asked is no question.

        Raises:
            HelperProblem: there is none just now.
        """
        with self._lock:
            if self._closed:
                raise HelperProblem("it is closed")
            if self._process.poll() is not None:
                self._again()
            try:
                assert self._process.stdin is not None
                piped.write(self._process.stdin, question)
                answer = self._frames.get(timeout=ANSWER)
            except (OSError, queue.Empty):
                answer = None
            if answer is None:
                self._end()     # whatever it still says is about another question
                raise HelperProblem("the process that answers hard pictures has ended, or hangs; it is started again")
            return answer

    def _again(self) -> None:
        if time.monotonic() < self._next:
            raise HelperProblem("the process that answers hard pictures is not up yet")
        self._failed += 1
        self._next = time.monotonic() + RETRY.delay(self._failed)
        limited_log("again", "the process that answers hard pictures is started again")
        self._process, self._frames = self._start()
        if self._closed:    # meanwhile; whoever closes has ended the one before
            self._end()
            raise HelperProblem("it is closed")
        self._await_ready()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends the process; who waits for an answer, or for it to be up, is told at once that there is none."""
        self._closed = True
        self._process.kill()
        with self._lock:
            self._end()

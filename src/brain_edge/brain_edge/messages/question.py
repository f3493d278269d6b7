# SPDX-License-Identifier: Apache-2.0
"""Questions that one side of a fleet asks the other on a key: one answer, or why there is none.

The counterpart is :mod:`.answering`. Whoever asks waits for one answer; a link that was cut tells nobody.
"""
from __future__ import annotations

import threading
import time
from typing import Callable, TypeVar

import zenoh
from zenoh.handlers import Callback

from brain_edge.messages.rate_limit import RETRY
from brain_wire import Session
from brain_wire.safe_text import quoted

LARGEST = 2 * 2**20     # bytes of an answer
WAIT = "wait"           # what is told to who asks for more than it may just now
NOTHING = "no cloud answers"
LOOK = 0.5              # s between two looks at whether to go on

T = TypeVar("T")


class NoAnswer(ConnectionError):
    """The cloud cannot be reached just now."""


class NotGiven(RuntimeError):
    """The cloud is there, and refuses; says why.

    Attributes:
        why: its own words; empty where they are none of its.
    """

    def __init__(self, text: str, why: str = "") -> None:
        super().__init__(text)
        self.why = why


def ask(session: Session, key: str, payload: bytes, patience: float, *, attachment: bytes | None = None,
        done: threading.Event | None = None, most: int = LARGEST) -> bytes:
    """Asks once.

    Args:
        patience: s for the answer.
        attachment: bytes that go with it.
        done: ends the waiting when set, as by who knows that the cloud has been started again meanwhile.
        most: bytes of the answer.

    Raises:
        NoAnswer: none came. NotGiven: it is refused, or the answer is too large.
    """
    came: list[zenoh.Reply] = []
    done = threading.Event() if done is None else done
    try:
        session.zenoh.get(key, handler=Callback(came.append, done.set, indirect=False), payload=payload,
                          attachment=attachment, target=zenoh.QueryTarget.ALL, timeout=patience,
                          consolidation=zenoh.ConsolidationMode.NONE)
    except zenoh.ZError as error:
        raise NoAnswer(f"the cloud cannot be asked ({quoted(str(error)[:80])})") from None
    done.wait(patience)
    for reply in list(came):
        if reply.ok is not None:
            if len(reply.ok.payload) > most:
                raise NotGiven(f"the cloud answers with {len(reply.ok.payload)} bytes")
            return reply.ok.payload.to_bytes()
        why = b"" if reply.err is None else reply.err.payload.to_bytes()[:2000]
        if why not in (b"", b"Timeout", WAIT.encode()):
            text = why.decode("utf-8", "replace")
            raise NotGiven(f"the cloud refuses: {quoted(text[:500])}", text)
    raise NoAnswer(NOTHING)


def insist(asked: Callable[[], T], tries: int, going: Callable[[], bool] = lambda: True) -> T:
    """An answer, asked for again through cuts.

    Args:
        tries: how often.
        going: whether to go on.

    Raises:
        NoAnswer: it stayed away through all tries.
    """
    failures = 0
    while True:
        try:
            return asked()
        except NoAnswer:
            failures += 1
            if failures >= tries or not going():
                raise
            rest(RETRY.delay(failures), going)


def rest(seconds: float, going: Callable[[], bool]) -> None:
    """Waits, in parts: as long as it is to go on."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0.0 and going():
        time.sleep(min(left, LOOK))

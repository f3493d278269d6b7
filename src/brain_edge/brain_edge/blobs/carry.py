# SPDX-License-Identifier: Apache-2.0
"""Carries blobs between a robot and its cloud over Zenoh, piece by piece; what has come is gone on from after a cut.

The robot asks on the key with its own name (:func:`brain_security.fleet_keys.blobs`), one question at a time, so it
works behind any router. A question is a JSON object, :data:`QUESTION`; the bytes of a piece that goes up are its
attachment. The answer is a piece (``get``), or a JSON object (``about``, ``put``). Each can be asked again without
harm. An error is a refusal in one line, or :data:`brain_edge.messages.question.WAIT`.
"""
from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any, BinaryIO, Callable, ContextManager, Mapping

from brain_edge.blobs.store import PATTERN, PIECE, BlobProblem, Blobs, NoRoom
from brain_edge.messages import question
from brain_edge.messages.question import NoAnswer, NotGiven, insist, rest
from brain_edge.schema import FormProblem, check, read_json
from brain_security.fleet_keys import blobs
from brain_wire import Session

PATIENCE = 15.0         # s for an answer, on a thin link too
LONGEST = 4000          # bytes of a question, without its piece
LARGEST = 10**13        # bytes of a blob
LONGEST_WAIT = 60.0     # s that one waits who is told to
MODELS, CLIPS, LEARNING = "models", "clips", "learning"     # collections
QUESTION: dict[str, Any] = {"type": "object", "required": ["of", "do", "digest"], "properties": {
    "of": {"type": "string", "pattern": "[a-z]{1,20}"}, "do": {"enum": ["about", "get", "put"]},
    "digest": {"type": "string", "pattern": PATTERN},
    "offset": {"type": "integer", "minimum": 0, "maximum": LARGEST},
    "size": {"type": "integer", "minimum": 0, "maximum": LARGEST},
    "about": {"type": "object", "maxProperties": 10, "additionalProperties": True}}}
TAKEN: dict[str, Any] = {"type": "object", "required": ["have"], "additionalProperties": True, "properties": {
    "have": {"type": "integer", "minimum": 0}, "wait_s": {"type": "number", "minimum": 0}}}

Guard = Callable[[int], ContextManager[Mapping[str, Any]]]     # what raises before a byte goes; given its size


class Carrier:
    """One robot's way to blobs of one collection.

    Args:
        robot: its name.
        of: name of the collection.
        session: open session that reaches the cloud's router; None: there is none yet.
        patience: s for an answer.
        tries: of each piece, through cuts.
        guard: within it a blob is handed in: it raises where that may not be, before the first byte goes, or returns
            values that the cloud is told besides, as for how long it may keep it.
    """

    def __init__(self, robot: str, of: str, session: Session | None = None, *, patience: float = PATIENCE,
                 tries: int = 1, guard: Guard = lambda size: contextlib.nullcontext({})) -> None:
        self._key, self._of, self._patience, self._tries, self._guard = blobs(robot), of, patience, tries, guard
        self.session = session
        self._asked = threading.Event()

    def again(self) -> None:
        """The cloud is back: it knows nothing of what was asked before the cut."""
        self._asked.set()

    def about(self, digest: str) -> Any:
        """Plain values that the cloud tells of a blob. Raises NoAnswer, NotGiven, BlobProblem (it does not read)."""
        return self._json(insist(lambda: self.ask("about", digest), self._tries), digest)

    def fetch(self, digest: str, size: int, into: Blobs, going: Callable[[], bool] = lambda: True,
              told: Callable[[int], None] = lambda have: None) -> Path | None:
        """Fetches what is missing of a blob.

        Args:
            size: bytes of all of it.
            going: whether to go on, asked before each piece.
            told: called with the bytes that have come.

        Returns:
            The file of the blob; None: it was not to go on.

        Raises:
            NoAnswer: nobody answers; what has come stays. NotGiven: the cloud refuses, or what has come was torn and
                is let go of. BlobProblem: it comes otherwise than was said of it. NoRoom: see :class:`Blobs`.
        """
        have = into.have(digest)
        while have < size and going():
            data = insist(lambda: self.ask("get", digest, offset=have), self._tries, going)
            if not 0 < len(data) <= min(4 * PIECE, size - have):
                raise BlobProblem(f"{digest[:19]} comes otherwise than was said of it: {len(data)} bytes after {have} "
                                  f"of {size}")
            have = into.write(digest, have, data)
            told(have)
        try:
            return into.finish(digest, size)
        except NoRoom:
            raise
        except BlobProblem as problem:
            # a disk, or the way, has torn it: that is no fault of the blob's
            raise NotGiven(f"{problem}, and fetched anew") from None

    def hand_in(self, digest: str, size: int, file: BinaryIO, about: Mapping[str, Any],
                going: Callable[[], bool] = lambda: True) -> Mapping[str, Any]:
        """Hands a blob to the cloud; see :func:`push`.

        Args:
            about: plain values of few bytes, for the collection.

        Raises:
            NoAnswer: nobody answers. NotGiven: the cloud takes no more. BlobProblem: its answer does not read.
            OSError: the file cannot be read. What the guard raises.
        """
        with self._guard(size) as more:
            told = {"size": size, "about": {**about, **more}}
            return push(lambda have, data: self._json(insist(
                lambda: self.ask("put", digest, data, offset=have, **told), self._tries, going), digest, TAKEN),
                file, size, going)

    def _json(self, answer: bytes, digest: str, schema: Mapping[str, Any] | None = None) -> Any:
        try:
            found = read_json(answer, question.LARGEST)
            if schema is not None:
                check(found, schema)
            return found
        except FormProblem as problem:
            raise BlobProblem(f"what the cloud says of {digest[:19]} does not read: {problem}") from None

    def ask(self, do: str, digest: str, data: bytes = b"", **more: Any) -> bytes:
        """Asks once.

        Raises:
            NoAnswer: nothing just now. NotGiven: it is refused.
        """
        if self.session is None:
            raise NoAnswer("there is no link to the cloud")
        self._asked = threading.Event()
        return question.ask(self.session, self._key, json.dumps({"of": self._of, "do": do, "digest": digest, **more}
                                                                ).encode(), self._patience, attachment=data or None,
                            done=self._asked)


def push(put: Callable[[int, bytes], Mapping[str, Any]], file: BinaryIO, size: int,
         going: Callable[[], bool] = lambda: True) -> Mapping[str, Any]:
    """Hands a file over, from where the other side has it; again and again the same one goes once.

    Args:
        put: hands over a piece from an offset on, first an empty one; answers with ``have``, the bytes that are there,
            and with ``wait_s`` where it is to be tried again later.
        size: bytes of ``file``.
        going: whether to go on, asked before each piece.

    Returns:
        The last answer; its ``have`` is ``size`` where all is there.

    Raises:
        NotGiven: the file has become shorter, or nothing is kept of it. OSError: it cannot be read.
        What ``put`` raises.
    """
    have, data, sent = 0, b"", 0
    found: Mapping[str, Any] = {"have": 0}
    while going():
        found = put(have, data)
        if "wait_s" in found:
            rest(min(found["wait_s"], LONGEST_WAIT), going)
            continue
        if found["have"] >= size:
            break
        have = found["have"]
        file.seek(have)
        data = file.read(min(PIECE, size - have))   # it may grow meanwhile
        sent += len(data)
        if not data:
            raise NotGiven(f"the file has become shorter while it was sent: {have} of {size} bytes are there")
        if sent > 2 * size + PIECE:     # no more leaves than a guard was told of, but for what was lost
            raise NotGiven("what is sent is not kept")
    return found

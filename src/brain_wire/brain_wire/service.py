# SPDX-License-Identifier: Apache-2.0
"""Services on the wire: a queryable that waits for requests, a querier that asks, and the tokens that announce both.

A request is a query on the service's data key, answered on the same key; both carry an attachment, and the answer
repeats the number and the id of the client that the request had, by which rmw_zenoh tells answers apart.
"""
from __future__ import annotations

import itertools
import logging
import math
import time
from collections import deque
from typing import Any, Callable

import zenoh
from zenoh.handlers import Callback

from brain_wire import messages, safe_text
from brain_wire import names
from brain_wire.attachment import AttachmentProblem, pack, read
from brain_wire.qos import QoS
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.services import ServiceType
from brain_wire.session import Session
from brain_wire.wakeup import Signal

limited_log = RateLimitedLog(logging.getLogger(__name__))

QUALITY = QoS(reliable=True, latched=False, depth=10)   # of services, as ROS 2 has it
WAITING = 64            # requests that wait to be answered; older ones are refused
MAX_REQUEST = 2**16     # bytes; all parameters of a region take a tenth of it
MAX_ANSWER = 16 * 2**20    # bytes
MAX_REFUSAL = 500       # bytes of why a request was refused


class NoAnswer(TimeoutError):
    """Nobody answered a request in time, or it was refused; names the service, and why if that is known."""


class Request:
    """A request that waits for its answer.

    Attributes:
        message: as decoded.
    """

    def __init__(self, query: zenoh.Query, key: str, message: Any, sequence: int, gid: bytes,
                 encode: Callable[[Any], bytes]) -> None:
        self.message = message
        self._query, self._key, self._encode = query, key, encode
        self._sequence, self._gid = sequence, gid

    def reply(self, response: Any) -> None:
        """Answers, once.

        Raises:
            MessageError: the response does not fit its type.
        """
        data = self._encode(response)
        with self._query as query:      # the asking side waits until the query is let go of
            query.reply(self._key, data, attachment=pack(self._sequence, time.time_ns(), self._gid))

    def refuse(self, why: str) -> None:
        """Answers that there will be no answer, and why."""
        _refuse(self._query, why)


def _refuse(query: zenoh.Query, why: str) -> None:
    """Ends a query with an error. Who asked may have gone, or the session: then there is nobody to be told."""
    try:
        with query:
            query.reply_err(messages.clip_utf8(why, MAX_REFUSAL))
    except zenoh.ZError as error:
        limited_log("refusal", f"a refusal could not be sent: {error}")


class Service:
    """Keeps requests until they are taken. Made by :meth:`Node.service`.

    Attributes:
        endpoint: what its token says.
        type: of the service.
    """

    def __init__(self, session: Session, endpoint: names.Endpoint, key: str, kind: ServiceType,
                 arrived: Callable[[], None]) -> None:
        self.endpoint = endpoint
        self.type = kind
        self._key = key
        self._arrived = arrived
        self._queries: deque[zenoh.Query] = deque(maxlen=WAITING)
        self._decode, self._encode = messages.decoder(kind.request), messages.encoder(kind.response)
        # Called in Zenoh's own thread, since one more for each of a node's dozen services would be too many; what is
        # called only puts aside.
        self._queryable = session.zenoh.declare_queryable(key, Callback(self._receive, indirect=False), complete=True)
        self._token = session.zenoh.liveliness().declare_token(endpoint.token())

    def _receive(self, query: zenoh.Query) -> None:
        if len(self._queries) >= WAITING and (oldest := self._oldest()) is not None:
            _refuse(oldest, f"more than {WAITING} requests wait; ask again later")
        self._queries.append(query)
        self._arrived()

    def _oldest(self) -> zenoh.Query | None:
        """Takes the query that has waited longest; None where none waits (another thread may have it by now)."""
        try:
            return self._queries.popleft()
        except IndexError:
            return None

    def take(self) -> list[Request]:
        """All requests since the last time, oldest first. Those that cannot be read are refused here."""
        return [request for _ in range(len(self._queries)) if (request := self._next()) is not None]

    def _next(self) -> Request | None:
        """The oldest request that waits; None where there is none or it cannot be read."""
        query = self._oldest()
        if query is None:
            return None
        try:
            return self._read(query)
        except Exception as problem:    # whatever one request holds, the next one is answered
            known = isinstance(problem, (messages.MessageError, AttachmentProblem))
            why = str(problem) if known else f"it could not be read: {type(problem).__name__}"
            limited_log(self.endpoint.topic, f"{self.endpoint.topic}: refused a request: {safe_text.quoted(why)}",
                        trace=not known)
            _refuse(query, why)
            return None

    def _read(self, query: zenoh.Query) -> Request:
        if query.attachment is None:
            raise AttachmentProblem("it has no attachment, so it is from no ROS 2 client; ask with a wire.Client")
        attachment = read(query.attachment)
        if query.payload is None or len(query.payload) > MAX_REQUEST:
            raise messages.MessageError(f"it must be a {self.type.request} of at most {MAX_REQUEST} bytes")
        message = self._decode(query.payload.to_bytes())
        return Request(query, self._key, message, attachment.sequence, attachment.gid, self._encode)

    def answer(self, handler: Callable[[Any], Any], until: float = math.inf) -> None:
        """Answers each request that waits with what ``handler`` makes of its message.

        A request whose handler raises is refused, and the exception logged: the next one is answered.

        Args:
            until: steady time (s) from which on the others go on waiting.
        """
        for _ in range(len(self._queries)):
            if time.monotonic() >= until:
                return
            request = self._next()
            if request is None:
                continue
            try:
                request.reply(handler(request.message))
            except Exception as error:
                limited_log(f"{self.endpoint.topic} failed", f"{self.endpoint.topic}: a request could not be answered",
                            trace=True, level=logging.ERROR)
                request.refuse(f"it could not be answered: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Takes the token back; what still waits is refused."""
        self._token.undeclare()
        self._queryable.undeclare()
        while (query := self._oldest()) is not None:
            _refuse(query, f"{self.endpoint.name} ends")


class Client:
    """Asks a service. Made by :meth:`Node.client`.

    Attributes:
        endpoint: what its token says.
        type: of the service.
        forbidden: why the router will not let the request through; None where it will.
    """

    def __init__(self, session: Session, endpoint: names.Endpoint, key: str, kind: ServiceType, timeout: float) -> None:
        self.endpoint = endpoint
        self.type = kind
        self.forbidden = session.missing_right(endpoint)
        # A router tells whom it does not let through nothing of a service either.
        self._or_not_allowed = ", or the router does not let this session call it" if "tls/" in session.endpoint else ""
        self.gid = names.gid(endpoint.token())
        self._timeout = timeout
        self._numbers = itertools.count(1)
        self._encode, self._decode = messages.encoder(kind.request), messages.decoder(kind.response)
        self._querier = session.zenoh.declare_querier(
            key, target=zenoh.QueryTarget.ALL_COMPLETE, consolidation=zenoh.ConsolidationMode.NONE, timeout=timeout)
        self._token = session.zenoh.liveliness().declare_token(endpoint.token())

    def wait(self, timeout: float) -> bool:
        """Waits up to ``timeout`` s for somebody who serves; whether there is one."""
        until = time.monotonic() + timeout
        while not self._querier.matching_status.matching:    # type: ignore[attr-defined] # zenoh's stub says bool
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        return True

    def call(self, request: Any, timeout: float = 5.0) -> Any:
        """The answer to a request.

        Args:
            request: of the service's request type.
            timeout: s to wait for a server, and then for its answer.

        Raises:
            NoAnswer: nobody serves, or the answer did not come in time, or it was refused, by the server or for want
                of a right; says which.
            MessageError: the request or the answer does not fit its type.
        """
        data = self._encode(request)
        if self.forbidden:
            raise NoAnswer(f"{self.forbidden}; take the credentials of one who may, or `brain keys` again")
        if not self.wait(timeout):
            raise NoAnswer(f"nobody serves {self.endpoint.topic} ({self.type.name})" + self._or_not_allowed)
        answers: deque[zenoh.Reply] = deque(maxlen=WAITING)
        came, ended = Signal(), Signal()

        def receive(reply: zenoh.Reply) -> None:
            answers.append(reply)
            came.set()

        def end() -> None:
            ended.set()
            came.set()

        number = next(self._numbers)
        until = time.monotonic() + timeout
        self._querier.get(Callback(receive, end, indirect=False), payload=data,
                          attachment=pack(number, time.time_ns(), self.gid))
        problem: Exception | None = None
        while came.wait(until - time.monotonic()):
            over = ended.wait(0.0)
            while answers:  # whoever else declares the service may answer too, and what it says is not believed
                try:
                    return self._read(answers.popleft(), number)
                except (NoAnswer, messages.MessageError) as error:
                    problem = error
            if over:
                raise problem or NoAnswer(f"{self.endpoint.topic} let the request go without an answer: its node "
                                          f"ended, or a router does not let the request or the answer through")
        raise problem or NoAnswer(f"no answer of {self.endpoint.topic} within {timeout:g} s")

    def _read(self, reply: zenoh.Reply, number: int) -> Any:
        """The answer in a reply. Raises NoAnswer, MessageError."""
        if reply.ok is None:
            why = (b"" if reply.err is None else reply.err.payload.to_bytes())[:MAX_REFUSAL].decode("utf-8", "replace")
            raise NoAnswer(f"{self.endpoint.topic} refused: {why if why.isprintable() else safe_text.quoted(why)}")
        if len(reply.ok.payload) > MAX_ANSWER:
            raise messages.MessageError(f"{self.endpoint.topic} answered with {len(reply.ok.payload)} bytes")
        try:
            attachment = read(reply.ok.attachment) if reply.ok.attachment is not None else None
        except AttachmentProblem as problem:
            raise messages.MessageError(f"{self.endpoint.topic} answered with {problem}") from problem
        if attachment is None or (attachment.sequence, attachment.gid) != (number, self.gid):
            raise messages.MessageError(f"{self.endpoint.topic} answered, but not this request")
        return self._decode(reply.ok.payload.to_bytes())

    def close(self) -> None:
        """Takes the token back and asks no more."""
        self._token.undeclare()
        self._querier.undeclare()

# SPDX-License-Identifier: Apache-2.0
"""Services on the wire: a queryable that waits for requests, a querier that asks, and the tokens that announce both.

A request is a query on the service's data key, answered on the same key; both carry an attachment, and the answer
repeats the number and the id of the client that the request had, by which rmw_zenoh tells answers apart.
"""
from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from typing import Any, Callable

import zenoh
from zenoh.handlers import Callback

from brain_runtime import messages
from brain_runtime.qos import QoS
from brain_runtime.services import ServiceType
from brain_runtime.waking import Signal
from brain_runtime.wire import names
from brain_runtime.wire.attachment import AttachmentProblem, pack, unpack
from brain_runtime.wire.session import Session

log = logging.getLogger(__name__)

QUALITY = QoS(reliable=True, latched=False, depth=10)   # of services, as ROS 2 has it
WAITING = 64            # requests that wait to be answered; older ones go without an answer
MAX_REQUEST = 2**20     # bytes


class NoAnswer(TimeoutError):
    """Nobody answered a request in time; names the service."""


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
        self._queries.append(query)
        self._arrived()

    def take(self) -> list[Request]:
        """All requests since the last time, oldest first. Those that cannot be read are refused here."""
        requests = []
        while self._queries:
            query = self._queries.popleft()
            try:
                requests.append(self._read(query))
            except (messages.MessageError, AttachmentProblem) as problem:
                log.warning("%s: refused a request: %s", self.endpoint.topic, problem)
                with query:
                    query.reply_err(str(problem))
        return requests

    def _read(self, query: zenoh.Query) -> Request:
        if query.attachment is None:
            raise AttachmentProblem("it has no attachment, so it is from no ROS 2 client; ask with a wire.Client")
        attachment = unpack(query.attachment.to_bytes())
        if query.payload is None or len(query.payload) > MAX_REQUEST:
            raise messages.MessageError(f"it must be a {self.type.request} of at most {MAX_REQUEST} bytes")
        message = self._decode(query.payload.to_bytes())
        return Request(query, self._key, message, attachment.sequence, attachment.gid, self._encode)

    def answer(self, handler: Callable[[Any], Any]) -> None:
        """Answers each request that waits with what ``handler`` makes of its message. Raises what that raises."""
        for request in self.take():
            request.reply(handler(request.message))

    def close(self) -> None:
        """Takes the token back; what still waits goes without an answer."""
        self._token.undeclare()
        self._queryable.undeclare()
        self._queries.clear()


class Client:
    """Asks a service. Made by :meth:`Node.client`.

    Attributes:
        endpoint: what its token says.
        type: of the service.
    """

    def __init__(self, session: Session, endpoint: names.Endpoint, key: str, kind: ServiceType, timeout: float) -> None:
        self.endpoint = endpoint
        self.type = kind
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
        while not self._querier.matching_status.matching:
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
            NoAnswer: nobody serves, or the answer did not come in time, or it was refused; says which.
            MessageError: the request or the answer does not fit its type.
        """
        data = self._encode(request)
        if not self.wait(timeout):
            raise NoAnswer(f"nobody serves {self.endpoint.topic} ({self.type.name})")
        answers: deque[zenoh.Reply] = deque()
        came = Signal()

        def receive(reply: zenoh.Reply) -> None:
            answers.append(reply)
            came.set()

        self._querier.get(Callback(receive, indirect=False), payload=data,
                          attachment=pack(next(self._numbers), time.time_ns(), self.gid))
        if not came.wait(timeout):
            raise NoAnswer(f"no answer of {self.endpoint.topic} within {timeout:g} s")
        reply = answers[0]
        if reply.ok is None:
            raise NoAnswer(f"{self.endpoint.topic} refused: {reply.err.payload.to_string()}")
        return self._decode(reply.ok.payload.to_bytes())

    def close(self) -> None:
        """Takes the token back and asks no more."""
        self._token.undeclare()
        self._querier.undeclare()

# SPDX-License-Identifier: Apache-2.0
"""Topics on the wire: publishers that put, and subscriptions that wait in ring buffers.

No code of a user runs in a callback of the wire. Each subscription has a ring channel, in which Zenoh keeps the newest
samples without asking Python, and one thread that moves them to a ring buffer and notes when they came: a ring channel
can only be waited for by a thread of its own, and a callback would hold up everything else of its session.
"""
from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections import deque
from typing import Any, Callable, Iterator, NamedTuple

import zenoh
from zenoh.handlers import RingChannel

from brain_wire import messages, names, shared_memory, safe_text
from brain_wire.attachment import GID_SIZE, LAYOUT, SIZE, Attachment, AttachmentProblem, read
from brain_wire.latency import Hop, Hops
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.session import CLOSING, Session
from brain_wire.wakeup import Signal

MAX_SIZE = 16 * 2**20       # bytes; a larger message is refused before it is decoded
MAX_PUBLISHERS = 64         # kept apart on one subscription
KEYED_CHANNEL = 256         # samples that wait in Zenoh where publishers are kept apart
BREATH = 0.001              # s; a subscription that is flooded takes at most this many messages a second: 1 / BREATH
AT_ONCE = 20e-6             # s; a message that is there sooner was waiting already
BURST = 32                  # messages in a row that were waiting, after which it counts as flooded
HEARTBEAT = 0.5             # s, of reliable latched publishers, as rmw_zenoh has it

AtOnce = Callable[[zenoh.ZBytes, float], bool]
"""Given a payload, for :func:`.shared_memory.read`, and its time of receipt (steady, s); whether it is dealt with."""

limited_log = RateLimitedLog(logging.getLogger(__name__))


class Arrival(NamedTuple):
    """A message as it came.

    Attributes:
        payload: the CDR bytes, where Zenoh has them.
        received: time of receipt on the steady clock (``time.monotonic``, s).
        sample: all that Zenoh tells of it.
        hop: what is noted of its publisher; None where nothing is.
    """

    payload: zenoh.ZBytes
    received: float
    sample: zenoh.Sample
    hop: Hop | None = None

    @property
    def size(self) -> int:
        """Bytes of the message."""
        return len(self.payload)

    @property
    def data(self) -> bytes:
        """The CDR bytes.

        Raises:
            MessageError: they are gone; see :func:`brain_wire.shared_memory.read`.
        """
        return shared_memory.read(self.payload)

    @property
    def attachment(self) -> Attachment:
        """Attachment of the message: its publisher, sequence number and time.

        Raises:
            AttachmentProblem: there is none, or one of another layout.
        """
        attachment = self.sample.attachment
        if attachment is None:
            raise AttachmentProblem("no attachment, so the publisher is no ROS 2 node; publish with a wire.Node")
        return read(attachment)


class ArrivalInPlace(Arrival):
    """A message as it came, whose bytes are not copied out of shared memory."""

    @property
    def data(self) -> bytes | memoryview:   # type: ignore[override]
        """The CDR bytes, where they lie: see :func:`brain_wire.shared_memory.view`. Raises MessageError."""
        return shared_memory.view(self.payload)


class Publisher:
    """Publishes on one topic. Made by :meth:`Node.publisher`.

    Attributes:
        endpoint: what its token says.
        gid: global id, 16 bytes.
    """

    def __init__(self, session: Session, endpoint: names.Endpoint, key: str, type_name: str) -> None:
        qos = endpoint.qos
        assert qos is not None, "a publisher has a QoS"
        self.endpoint = endpoint
        self.type = type_name
        self.gid = names.gid(endpoint.token())
        self._encode = messages.encoder(type_name)
        self._sequence = itertools.count(1)
        self._lock = threading.Lock()
        # As rmw_zenoh has it. Not express: that sends each message in a batch of its own, of which a link has few, and
        # what finds none within a millisecond is dropped. A batch waits for more only while the link is busy anyway.
        settings: dict[str, Any] = dict(
            congestion_control=zenoh.CongestionControl.DROP, express=False,
            reliability=zenoh.Reliability.RELIABLE if qos.reliable else zenoh.Reliability.BEST_EFFORT)
        self._publisher: Any    # of zenoh or of zenoh.ext, which have no class in common
        if qos.latched:
            detection = zenoh.ext.MissDetectionConfig(heartbeat=None, sporadic_heartbeat=HEARTBEAT)
            self._publisher = zenoh.ext.declare_advanced_publisher(
                session.zenoh, key, **settings, cache=zenoh.ext.CacheConfig(max_samples=qos.depth),
                publisher_detection=True, sample_miss_detection=detection if qos.reliable else None)
        else:
            self._publisher = session.zenoh.declare_publisher(key, **settings)
        self._put = self._publisher.put
        # What is latched is answered with later too, and would hold memory until then.
        self._pool = shared_memory.Pool() if qos.latched else session.pool
        self._share = self._pool.share
        self._token = session.zenoh.liveliness().declare_token(endpoint.token())

    def publish(self, message: Any) -> None:
        """Encodes and publishes a message of the topic's type. While there is no router it goes nowhere.

        Raises:
            MessageError: the message is of another type, or a field holds what it cannot.
        """
        if message.__msgtype__ != self.type:
            raise messages.MessageError(f"{self.endpoint.topic} carries {self.type}, not {message.__msgtype__}")
        try:
            cdr = self._encode(message, self._share, self._pool.threshold)
        except messages.MessageError as error:
            raise messages.MessageError(f"{self.endpoint.topic}: {error}") from error
        with self._lock:  # so that the numbers leave in their order
            self._put(cdr, attachment=LAYOUT.pack(next(self._sequence), time.time_ns(), GID_SIZE, self.gid))

    @property
    def heard(self) -> bool:
        """True while anybody subscribes to the topic, ROS 2 node or not.

        Not to be had of a latched one, which keeps its messages for whoever may come.
        """
        return self._publisher.matching_status.matching

    def publish_bytes(self, cdr: bytes | bytearray) -> None:
        """Publishes a message that is encoded already."""
        if len(cdr) >= self._pool.threshold:
            cdr = self._share((cdr,))
        with self._lock:
            self._put(cdr, attachment=LAYOUT.pack(next(self._sequence), time.time_ns(), GID_SIZE, self.gid))

    def close(self) -> None:
        """Takes the token back and ends publishing."""
        self._token.undeclare()
        self._publisher.undeclare()


class Subscription:
    """Keeps the newest messages of a topic until they are taken. Made by :meth:`Node.subscription`.

    Attributes:
        endpoint: what its token says.
        gid: global id, 16 bytes.
        last_received: steady time of the newest arrival (s); ``-inf`` before the first.
        overwritten: messages that were replaced by newer ones before anybody took them.
        refused: messages that were too large, or whose attachment was not sound where publishers are kept apart.
        hops: what is noted of each publisher; None where nothing is.
    """

    def __init__(self, session: Session, endpoint: names.Endpoint, key: str, type_name: str, *, wake: Signal | None,
                 arrived: Callable[[], object] | None, at_once: AtOnce | None, by_publisher: bool, max_size: int,
                 hops: bool, in_place: bool = False) -> None:
        self.endpoint = endpoint
        self.type = type_name
        self.gid = names.gid(endpoint.token())
        self.signal = wake or Signal()
        self._arrived = arrived or self.signal.set
        self._at_once = at_once
        self._made = ArrivalInPlace if in_place else Arrival
        self.last_received = -math.inf
        self.overwritten = 0
        self.refused: deque[str] = deque(maxlen=1000)
        self._by_publisher = by_publisher
        self._max_size = max_size
        qos = endpoint.qos
        assert qos is not None, "a subscription has a QoS"
        self._depth = qos.depth
        self.hops = Hops(qos.depth if qos.latched else 0) if hops else None
        self._rings: dict[bytes, deque[Arrival]] = {}
        self._ring: deque[Arrival] = deque(maxlen=self._depth)
        self._lock = threading.Lock()
        kept = max(KEYED_CHANNEL, self._depth) if by_publisher else self._depth
        # One more than the depth, where hops are noted: then it is seen whether what is missing gave way there.
        channel: RingChannel[zenoh.Sample] = RingChannel(kept + (hops and not by_publisher))
        self._subscriber: Any   # of zenoh or of zenoh.ext, as a publisher's
        if qos.latched:
            recovery = zenoh.ext.RecoveryConfig(periodic_queries=None, heartbeat=True)
            self._subscriber = zenoh.ext.declare_advanced_subscriber(
                session.zenoh, key, channel, subscriber_detection=True,
                history=zenoh.ext.HistoryConfig(detect_late_publishers=True, max_samples=self._depth),
                recovery=recovery if qos.reliable else None)
        else:
            self._subscriber = session.zenoh.declare_subscriber(key, channel)
        self._token = session.zenoh.liveliness().declare_token(endpoint.token())
        self._thread = session.run(self._receive, f"wire {endpoint.topic}")

    def _receive(self) -> None:
        intake = _Intake(self._subscriber.handler, self.hops, None if self._by_publisher else self._depth)
        receive, settle = intake.receive, intake.settle
        ring = None if self._by_publisher else self._ring
        monotonic, time_ns, wake, at_once = time.monotonic, time.time_ns, self._arrived, self._at_once
        max_size, depth, made = self._max_size, self._depth, self._made
        make = tuple.__new__    # NamedTuple's own constructor is Python code, and takes a microsecond more
        arrival: Any
        sample: Any
        payload: Any
        waiting = 0     # messages in a row that were there already
        while True:
            begin = monotonic()
            try:
                sample, hop, unnoted = receive()
            except zenoh.ZError:
                break  # the subscription or its session was closed
            now, came = monotonic(), time_ns()
            full = False
            try:
                payload = sample.payload
                if len(payload) > max_size:
                    self.refused.append(f"{len(payload)} bytes are more than the {max_size} that are allowed; publish "
                                        "less at a time")
                    if unnoted:
                        settle(sample, now, came, True)
                    del sample, payload
                    wake()
                    time.sleep(BREATH)
                    continue
                if at_once is not None and at_once(payload, now):
                    if unnoted:     # the books are kept after what leaves in answer has left
                        settle(sample, now, came, True)
                else:
                    if unnoted:
                        hop = settle(sample, now, came, False)
                    arrival = make(made, (payload, now, sample, hop))
                    if ring is None:
                        full = self._keep_by_publisher(arrival)
                    else:
                        full = len(ring) == depth
                        if full:
                            _gives_way(ring)
                        ring.append(arrival)
                    wake()
                    self.overwritten += full
            except Exception as error:  # whatever one message brings about, the next one is received
                limited_log(self.endpoint.topic, f"{self.endpoint.topic}: a message could not be taken in: "
                            f"{type(error).__name__}: {safe_text.quoted(str(error))}", trace=True)
            self.last_received = now
            sample = payload = arrival = None   # freed while nobody waits, and not when the next one has come
            waiting = waiting + 1 if now - begin < AT_ONCE else 0
            if full or waiting > BURST:
                # Nobody keeps up; what comes meanwhile waits in the channel, where the oldest is dropped for free.
                time.sleep(BREATH)

    def _keep_by_publisher(self, arrival: Arrival) -> bool:
        try:
            gid = arrival.attachment.gid
        except AttachmentProblem as problem:
            self.refused.append(str(problem))
            return False
        with self._lock:
            ring = self._rings.get(gid)
            if ring is None:
                if len(self._rings) >= MAX_PUBLISHERS:  # the one that has been silent longest
                    del self._rings[next(iter(self._rings))]
                ring = self._rings[gid] = deque(maxlen=self._depth)
            else:
                self._rings[gid] = self._rings.pop(gid)
            full = len(ring) == self._depth
            if full:
                _gives_way(ring)
            ring.append(arrival)
        return full

    def take(self) -> list[Arrival]:
        """All that came since the last time, oldest first, at most the QoS's depth (of each publisher if apart)."""
        if self._by_publisher:
            with self._lock:
                taken = [arrival for ring in self._rings.values() for arrival in ring]
                for ring in self._rings.values():
                    ring.clear()
            taken.sort(key=lambda a: a.received)
            return taken
        taken = []
        ring = self._ring
        while ring:  # only this thread takes, so what is there stays until taken or replaced
            taken.append(ring.popleft())
        return taken

    def wait(self, timeout: float = math.inf) -> list[Arrival]:
        """Like :meth:`take`, waiting up to ``timeout`` s for the first."""
        until = time.monotonic() + timeout
        while not (taken := self.take()):
            if not self.signal.wait(until - time.monotonic()):
                return self.take()
        return taken

    def messages(self, timeout: float = math.inf) -> Iterator[Any]:
        """Decoded messages as they come, for ``timeout`` s altogether; a broken one is left out, with a warning."""
        until = time.monotonic() + timeout
        while (left := until - time.monotonic()) > 0:
            for arrival in self.wait(left):
                try:
                    message = messages.decode(arrival.data, self.type)
                except messages.MessageError as problem:
                    limited_log(self.endpoint.topic, f"{self.endpoint.topic}: left out a message: "
                                f"{safe_text.quoted(str(problem))}")
                    continue
                yield message

    def close(self) -> None:
        """Takes the token back and ends receiving."""
        self._token.undeclare()
        self._subscriber.undeclare()
        self._thread.join(CLOSING)


class _Intake:
    """Takes samples out of a channel and notes them, so that none is missing unseen.

    Args:
        handler: of the channel, which holds one more than ``depth`` where hops are noted.
        hops: where to note; None: nowhere.
        depth: samples that may wait; older ones give way, as in the channel itself. None: as many as there are.
    """

    def __init__(self, handler: Any, hops: Hops | None, depth: int | None) -> None:
        self._recv, self._try_recv = handler.recv, handler.try_recv
        self._hops, self._depth = hops, depth
        self._waiting: deque[tuple[zenoh.Sample, Hop | None]] = deque()

    def receive(self) -> tuple[zenoh.Sample, Hop | None, bool]:
        """The next sample, what is noted of its publisher, and whether that is still to be done, by :meth:`settle`.

        Raises:
            ZError: the subscription was closed.
        """
        if self._waiting:
            return *self._waiting.popleft(), False
        if self._hops is not None and self._depth is None and (sample := self._try_recv()) is not None:
            return sample, self._noted(sample, True), False
        return self._recv(), None, self._hops is not None

    def settle(self, sample: zenoh.Sample, received: float, came: int, later: bool) -> Hop | None:
        """Notes a sample, and takes out of the channel what has come since, as far as it does not give way.

        Args:
            sample: that :meth:`receive` has given last.
            received, came: times of its receipt, see :meth:`Hops.note`.
            later: it need not be noted at once: nobody is to know its publisher.
        """
        found: list[zenoh.Sample] = []
        most = 0 if self._depth is None else self._depth + 1    # as many as the channel holds
        try:
            while len(found) < most and (newer := self._try_recv()) is not None:
                found.append(newer)
        except zenoh.ZError:
            pass    # the subscription was closed, as the next receive() finds
        if not found and later and self._hops is not None:
            self._hops.note_later(sample.attachment, received, came)
            return None
        # Where the channel was not full, nothing gave way in it, and what is missing was lost before.
        hop = self._note(sample, len(found) >= max(1, most - 1), received, came)
        for newer in found:
            if len(self._waiting) == self._depth:
                older = self._waiting.popleft()[1]
                if older is not None:
                    older.full += 1
            self._waiting.append((newer, self._noted(newer, len(found) == most)))
        return hop

    def _noted(self, sample: zenoh.Sample, full: bool) -> Hop | None:
        return self._note(sample, full, time.monotonic(), time.time_ns())

    def _note(self, sample: zenoh.Sample, full: bool, received: float, came: int) -> Hop | None:
        if self._hops is None:
            return None
        try:
            attachment = sample.attachment
            return self._hops.note(None if attachment is None or len(attachment) != SIZE else attachment.to_bytes(),
                                   received, full, came)
        except Exception as error:  # the books must not keep a message from whom it is for
            limited_log("hops", f"a message could not be noted: {type(error).__name__}", trace=True)
            return None


def _gives_way(ring: deque[Arrival]) -> None:
    """Counts the oldest arrival of a full ring, unless somebody takes it at this moment."""
    try:
        hop = ring[0].hop
    except IndexError:
        return
    if hop is not None:
        hop.full += 1

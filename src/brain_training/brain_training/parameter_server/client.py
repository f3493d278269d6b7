# SPDX-License-Identifier: Apache-2.0
"""A worker's end of the links to all servers of a training. Servers may die and come back meanwhile."""
from __future__ import annotations

import json
import math
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import grpc
import torch
from torch import Tensor

from brain_training.parameter_server import tensors as wire
from brain_training.parameter_server.credentials import Keys, why_not
from brain_training.parameter_server.messages import (CurriculumHeader, CurriculumPart, DescribeRequest, METHODS,
                                                      PROTOCOL, PullRequest, PushHeader, PushPart, RegisterRequest,
                                                      Round, SERVICE, Step)
from brain_training.parameter_server.server import LARGEST_MESSAGE, PATIENCE
from brain_training.parameter_server.shard import differ
from brain_training.task import TrainingError
from brain_wire.backoff import Backoff

DEADLINE = 60.0     # s of one call, beside what the server waits for others
AGAIN = Backoff(first=0.02, most=0.5)   # between two tries
RETRIED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
OPTIONS = (("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.max_send_message_length", -1),
           ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50),
           ("grpc.max_reconnect_backoff_ms", 500), ("grpc.enable_http_proxy", 0))


class StaleError(RuntimeError):
    """Gradients are of parameters that are too old; says how old."""


class RefusedError(TrainingError):
    """A server refuses.

    Args:
        status: name of gRPC's status.
        why: one sentence, with the server's address.
    """

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class Pulled(NamedTuple):
    """Answer of one server to a pull.

    Attributes:
        header: a ``PullHeader``.
        tensors: parameters and buffers by name.
    """

    header: Any
    tensors: dict[str, Tensor]


class Link:
    """The link to one server.

    Args:
        address: HOST:PORT.
        keys: of this worker; None: the server is not secured.
        patience: s that a server which does not answer is waited for.
    """

    def __init__(self, address: str, keys: Keys | None, patience: float) -> None:
        self.address, self.patience, self._keys, self._answered = address, patience, keys, False
        if keys is None:
            self._channel = grpc.insecure_channel(address, OPTIONS)
        else:
            self._channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(
                keys.authority, keys.pair.key, keys.pair.certificate), OPTIONS)
        kinds = {(False, False): self._channel.unary_unary, (True, False): self._channel.stream_unary,
                 (False, True): self._channel.unary_stream}
        self._calls = {name: kinds[method.many](
            f"/{SERVICE}/{name}", request_serializer=method.asks.SerializeToString,
            response_deserializer=method.answers.FromString) for name, method in METHODS.items()}

    def ask(self, name: str, request: Any) -> Any:
        """A method that answers once; a stream of requests is given as a function that makes it anew for each try.

        Raises:
            StaleError: the server says so.
            TrainingError: it refuses, or does not answer for as long as the patience lasts.
        """
        return self._again(lambda: self._calls[name](
            request() if callable(request) else request, timeout=DEADLINE + PATIENCE))

    def read(self, name: str, request: Any) -> tuple[Any, bytearray]:
        """A method that answers with a stream: its header, and the bytes behind it."""
        def once() -> tuple[Any, bytearray]:
            header, data = None, bytearray()
            for part in self._calls[name](request, timeout=DEADLINE + PATIENCE):
                if part.WhichOneof("part") == "header":
                    header = part.header
                else:
                    data += part.data
            if header is None or len(data) and wire.crc([data]) != header.crc32:
                raise TrainingError(f"what the parameter server at {self.address} sends for {name} is damaged")
            return header, data

        return self._again(once)

    def _again(self, once: Callable[[], Any]) -> Any:
        begin, failures = time.monotonic(), 0
        while True:
            try:
                answer = once()
                self._answered = True
                return answer
            except grpc.RpcError as error:
                code, why = error.code(), error.details()
                if code == grpc.StatusCode.ABORTED:
                    raise StaleError(why) from None
                # gRPC's own word, and none of the server
                busy = code == grpc.StatusCode.RESOURCE_EXHAUSTED and "Concurrent RPC limit" in (why or "")
                if code not in RETRIED and not busy:
                    raise RefusedError(code.name, f"the parameter server at {self.address} refuses ({code.name}): {why}"
                                       ) from None
                if not self._answered and (found := why_not(self.address, self._keys)):
                    raise TrainingError(found) from None
                if time.monotonic() - begin > self.patience:
                    raise TrainingError(f"the parameter server at {self.address} has not answered for "
                                        f"{self.patience:.0f} s ({code.name}: {why}); start it again with its folder, "
                                        f"and the training goes on") from None
            failures += 1
            time.sleep(AGAIN.delay(failures))

    def close(self) -> None:
        """Closes the link."""
        self._channel.close()


class Servers:
    """All servers of a training.

    Args:
        addresses: of each, HOST:PORT, in any order.
        keys: of this worker.
        patience: s that a server which does not answer is waited for.

    Attributes:
        descriptions: what each says of itself, in their order.
        mode: of the training.
        workers: places.

    Raises:
        TrainingError: they are not all of one training, or one does not answer.
    """

    def __init__(self, addresses: Sequence[str], keys: Keys | None = None, patience: float = 120.0) -> None:
        links = [Link(address, keys, patience) for address in addresses]
        said = [link.ask("Describe", DescribeRequest()) for link in links]
        first = said[0]
        for link, one in zip(links, said):
            if one.protocol != PROTOCOL:
                raise TrainingError(f"the parameter server at {link.address} speaks version {one.protocol} of the "
                                    f"protocol, and this worker {PROTOCOL}; install the same version on both")
            what = ("about", "servers", "workers", "mode")
            for field in what:
                if getattr(one, field) != getattr(first, field):
                    raise TrainingError(f"the parameter servers at {links[0].address} and {link.address} are of two "
                                        f"trainings: {field} is {getattr(first, field)!r} and {getattr(one, field)!r}")
        if sorted(one.server for one in said) != list(range(first.servers)):
            raise TrainingError(f"a training of {first.servers} servers needs the addresses of all; these are of "
                                f"{', '.join(str(one.server) for one in said)}")
        order = sorted(range(len(said)), key=lambda place: said[place].server)
        self.links, self.descriptions = [links[place] for place in order], [said[place] for place in order]
        self.mode, self.workers = first.mode, first.workers
        self.where = {spec.name: number for number, one in enumerate(self.descriptions) for spec in one.parameters}
        self.member: Any = None
        self.registrations: list[Any] = []
        self._pool = ThreadPoolExecutor(len(links))
        self._over = threading.Event()

    def _each(self, work: Callable[[int], Any], numbers: Iterable[int] | None = None) -> dict[int, Any]:
        """``work`` with the number of each server, at once."""
        numbers = list(range(len(self.links)) if numbers is None else numbers)
        return dict(zip(numbers, self._pool.map(work, numbers)))

    def check(self, about: Mapping[str, Any]) -> None:
        """Raises TrainingError where the servers are of another training."""
        why = differ(about, json.loads(self.descriptions[0].about))
        if why:
            raise TrainingError(f"the parameter server at {self.links[0].address} is of another training: {why}")

    def join(self, about: Mapping[str, Any], steps: int, identity: str | None = None) -> None:
        """Takes a place at all servers, and keeps it until :meth:`leave`; waits where none is free.

        Args:
            about: what is trained.
            steps: how many there are.
            identity: of this worker; one that died gives its place to the next of the same identity at once. None: one
                of its own.

        Raises:
            TrainingError: a server refuses, or no place became free for as long as the patience lasts.
        """
        request = RegisterRequest(protocol=PROTOCOL, about=json.dumps(about), steps=steps,
                                  identity=identity or uuid.uuid4().hex)
        begin = time.monotonic()
        while True:
            try:
                first = self.links[0].ask("Register", request)
                break
            except RefusedError as error:
                if error.status != "RESOURCE_EXHAUSTED" or time.monotonic() - begin > self.links[0].patience:
                    raise
            time.sleep(AGAIN.most)
        self.member = first.member
        request.member.CopyFrom(first.member)
        rest = self._each(lambda number: self.links[number].ask("Register", request), range(1, len(self.links)))
        self.registrations = [first, *(rest[number] for number in sorted(rest))]
        for link, one in zip(self.links, self.registrations):   # each: one that stands still keeps no word from others
            threading.Thread(target=self._renew, args=(link, one.lease_s / 3), daemon=True).start()

    def _renew(self, link: Link, period: float) -> None:
        while not self._over.wait(period):
            try:
                link.ask("Renew", self.member)
            except TrainingError:
                return      # the next call of the worker says why

    def leave(self) -> None:
        """Gives the place back."""
        self._over.set()
        self._each(lambda number: self.links[number].ask("Leave", self.member))

    def close(self) -> None:
        """Closes all links."""
        self._over.set()
        self._pool.shutdown()
        for link in self.links:
            link.close()

    # -- parameters ------------------------------------------------------------------------------------------------

    def pull(self, version: int, known: int, like: Mapping[str, Tensor], waits: Callable[[str], None] | None = None
             ) -> tuple[list[Pulled], list[Any]]:
        """Parameters of all servers, when they have reached a version, and the reports after the first ``known``."""
        def one(number: int) -> tuple[Pulled, list[Any]]:
            at, reports = known if number == 0 else 0, []
            while True:
                header, data = self.links[number].read("PullParameters", PullRequest(
                    member=self.member, min_version=version, known_reports=at))
                reports += header.reports
                at += len(header.reports)
                if header.ready and not header.more:
                    specs = [*header.tensors, *header.buffers]
                    return Pulled(header, wire.decode(specs, data, like)), reports
                if not header.ready and waits:
                    waits(f"server {number} is at step {header.version}")

        found = self._each(one)
        return [found[number][0] for number in sorted(found)], found[0][1]

    def push(self, step: int, versions: Sequence[int], gradients: Mapping[str, Tensor], buffers: Mapping[str, Tensor],
             report: Any, *, norm: float = 0.0, sparse: Mapping[str, tuple[Tensor, Tensor]] | None = None,
             numbers: Iterable[int] | None = None) -> tuple[dict[int, str], int]:
        """Pushes gradients of a step to all servers, or to some.

        Args:
            step: number of it.
            versions: of the parameters that they are of, of each server.
            gradients: by parameter.
            buffers: that have changed; for server 0.
            report: for server 0.
            norm: of all gradients, in modes other than sync.
            sparse: places and values of gradients that are sent instead of the dense ones.
            numbers: of the servers; None: all.

        Returns:
            Why servers find them too old, by number; bytes that were sent.
        """
        sent = [0] * len(self.links)

        def one(number: int) -> str | None:
            header = PushHeader(member=self.member, sequence=step, base_version=versions[number], norm=norm)
            parts: list[Any] = []
            for name, value in gradients.items():
                if self.where[name] != number:
                    continue
                if sparse and name in sparse:
                    places, kept = sparse[name]
                    header.tensors.append(wire.spec_of(name, value, len(places)))
                    parts += [wire.raw(places), wire.raw(kept)]
                else:
                    header.tensors.append(wire.spec_of(name, value))
                    parts.append(wire.raw(value))
            if number == 0:
                header.report.CopyFrom(report)
                for name, value in buffers.items():
                    header.buffers.append(wire.spec_of(name, value))
                    parts.append(wire.raw(value))
            header.crc32 = wire.crc(parts)
            sent[number] = sum(map(len, parts)) + header.ByteSize()
            try:
                self.links[number].ask("PushGradients", lambda: _stream(PushPart, header, parts))
            except StaleError as error:
                return str(error)
            return None

        answers = self._each(one, numbers)
        return {number: why for number, why in answers.items() if why}, sum(sent)

    # -- steps of mode sync ----------------------------------------------------------------------------------------

    def share(self, parts: Any) -> Any:
        """Tells server 0 parts of sums, and asks for those of all workers."""
        return self.links[0].ask("ShareParts", parts)

    def finish(self, step: int, order: Sequence[str], dtype: torch.dtype, waits: Callable[[str], None] | None = None
               ) -> float:
        """Exchanges the norm of a step that all workers push for, and has all servers do it; returns the norm.

        Args:
            step: number of it.
            order: names of all parameters in the network's order, in which norms are taken as one process would.
            dtype: of the norm.
            waits: told who is waited for.
        """
        def norms(number: int) -> Any:
            while True:
                found = self.links[number].ask("AwaitNorms", Round(member=self.member, sequence=step))
                if found.ready:
                    return found
                if waits:
                    waits(found.reason)

        found = self._each(norms)
        applied = [one.norm for one in found.values() if one.applied]
        if applied:
            norm = applied[0]
        else:
            by_name = {name: value for one in found.values() for name, value in zip(one.names, one.norms)}
            parts = [torch.tensor(by_name[name], dtype=dtype) for name in order if name in by_name]
            norm = float(torch.linalg.vector_norm(torch.stack(parts))) if parts else 0.0
        if not math.isfinite(norm):
            raise TrainingError(f"the norm of the gradient of step {step} is {norm}; lower the learning rate of the "
                                f"recipe")
        self.apply(step, norm, [number for number, one in found.items() if not one.applied])
        return norm

    def apply(self, step: int, norm: float, numbers: Iterable[int]) -> None:
        """Has servers do a step that is complete."""
        self._each(lambda number: self.links[number].ask("ApplyStep", Step(
            member=self.member, sequence=step, norm=norm)), numbers)

    def take(self, waits: Callable[[str], None] | None = None) -> int | None:
        """The step to compute next, in modes other than sync; None: there are no more."""
        while True:
            found = self.links[0].ask("TakeStep", self.member)
            if found.finished:
                return None
            if not found.wait:
                return int(found.step)
            if waits:
                waits(found.reason)

    # -- the curriculum --------------------------------------------------------------------------------------------

    def push_curriculum(self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Leaves with server 0 what the task has learned about its samples."""
        parts = [wire.raw(value) for value in tensors.values()]
        header = CurriculumHeader(member=self.member, step=step, values=json.dumps(values), crc32=wire.crc(parts),
                                  tensors=[wire.spec_of(name, value) for name, value in tensors.items()])
        self.links[0].ask("PushCurriculum", lambda: _stream(CurriculumPart, header, parts))

    def pull_curriculum(self) -> tuple[int, dict[str, Tensor], dict[str, Any]]:
        """Pulls the curriculum from server 0: the step before which it was so, tensors and values."""
        header, data = self.links[0].read("PullCurriculum", self.member)
        like = {spec.name: torch.empty(tuple(spec.shape), dtype=wire.DTYPES[spec.dtype]) for spec in header.tensors}
        return int(header.step), wire.decode(header.tensors, data, like), json.loads(header.values)


def _stream(kind: Any, header: Any, parts: Sequence[Any]) -> Iterator[Any]:
    yield kind(header=header)
    for piece in wire.chunks(parts):
        yield kind(data=piece)

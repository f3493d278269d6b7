# SPDX-License-Identifier: Apache-2.0
"""A parameter server: the service of ``parameters.proto`` over a durable shard.

All that changes it runs in one thread, the loop's, so that the log has one order.
"""
from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Callable, Sequence

import grpc

from brain_training.parameter_server import curriculum, tensors as wire
from brain_training.parameter_server.credentials import WORKER, Keys
from brain_training.parameter_server.durable import Durable
from brain_training.parameter_server.messages import (CurriculumHeader, CurriculumPart, Description, METHODS, Norms,
                                                      PROTOCOL, PullHeader, PullPart, Pushed, Registration, SERVICE,
                                                      Standing, Taken)
from brain_training.parameter_server.refused import Refused, unfit, wrong
from brain_training.parameter_server.shard import Shard, differ
from brain_training.parameter_server.shares import Shares

LEASE = 15.0            # s
LATE = 120.0            # s that one whose training is over waits for a worker that writes the weights
PATIENCE = 5.0          # s that an answer waits for others before it says so
STALLED = 30.0          # s between two parts of a push
REPORTS = 2000          # that one answer holds
LARGEST_MESSAGE = 8 << 20       # bytes: headers; all that is large comes in chunks
AT_ONCE = 256           # requests
MOST_EPOCHS = 1 << 32
OPTIONS = (("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.max_send_message_length", -1),
           ("grpc.so_reuseport", 0), ("grpc.max_concurrent_streams", 64),
           ("grpc.keepalive_permit_without_calls", 1))


class Server:
    """Serves one shard.

    Args:
        held: the shard and its folder.
        keys: certificate of this server; None: nothing is secured.
        allowed: names of whose certificates workers may have; by default the operator's.
        lease: s.
        tell: told what happens, in lines.
    """

    def __init__(self, held: Durable, *, keys: Keys | None = None, allowed: Sequence[str] = (WORKER,),
                 lease: float = LEASE, tell: Callable[[str], None] | None = None) -> None:
        self._held, self._shard, self._keys, self._lease = held, held.shard, keys, lease
        self._allowed = {name if name.startswith("/") else f"{keys.namespace}/{name}" for name in allowed
                         } if keys else set()
        self._tell, self._shares = tell or (lambda line: None), Shares(self._shard.workers)
        now = time.monotonic()
        self._heard = {rank: now for rank in self._shard.places.ranks()}    # a resumed server gives them time
        self._changed = asyncio.Condition()
        self._server: Any = None
        self._came = False

    async def start(self, address: str) -> int:
        """Begins to listen; returns the port.

        Raises:
            OSError: the address cannot be had.
        """
        self._server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=AT_ONCE)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            SERVICE, {name: self._handler(name) for name in METHODS}),))
        try:
            if self._keys is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, grpc.ssl_server_credentials(
                    [(self._keys.pair.key, self._keys.pair.certificate)], self._keys.authority,
                    require_client_auth=True))
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}: another program does, or it is no address of this machine"
                          ) from error
        await self._server.start()
        return port

    async def run(self, stay: bool = False) -> None:
        """Serves until the training is over and all workers have left; or for ever."""
        begin, over = time.monotonic(), self._shard.finished    # started again after the end: for the weights
        while stay or not (self._shard.finished and not self._alive()) or (
                over and not self._came and time.monotonic() - begin < LATE):
            await asyncio.sleep(min(0.5, self._lease / 4))
            async with self._changed:
                for rank in self._gone():
                    for step in self._shard.deal.held_by(rank):
                        try:
                            self._held.lose(step)
                        except Refused:     # the disk is full: it is tried again
                            continue
                        self._tell(f"step {step} is lost: the lease of worker {rank} has ended")
                        self._changed.notify_all()

    async def stop(self, grace: float = 1.0) -> None:
        """Stops listening, and writes a checkpoint."""
        if self._server is not None:
            await self._server.stop(grace)
        self._held.close()

    # -- who may, and who is there ---------------------------------------------------------------------------------

    def _handler(self, name: str) -> Any:
        method = METHODS[name]
        behave = getattr(self, "_on" + re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name))

        async def check(context: Any) -> None:
            if self._keys is not None:
                who = {value.decode("utf-8", "replace") for value in context.auth_context().get("x509_common_name", ())}
                if not who & self._allowed:
                    await context.abort(grpc.StatusCode.PERMISSION_DENIED, (
                        f"the certificate of {', '.join(sorted(who))} does not allow to train with this server; "
                        f"{', '.join(sorted(self._allowed))} may, and others by --allow NAME of the server"))

        async def once(request: Any, context: Any) -> Any:
            await check(context)
            try:
                return await behave(request)
            except Refused as error:
                await context.abort(grpc.StatusCode[error.status], str(error))

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            await check(context)
            try:
                async for part in behave(request):
                    yield part
            except Refused as error:
                await context.abort(grpc.StatusCode[error.status], str(error))

        make = {(False, False): grpc.unary_unary_rpc_method_handler,
                (True, False): grpc.stream_unary_rpc_method_handler,
                (False, True): grpc.unary_stream_rpc_method_handler}[method.many]
        return make(stream if method.many[1] else once, request_deserializer=method.asks.FromString,
                    response_serializer=method.answers.SerializeToString)

    def _member(self, member: Any) -> int:
        rank = self._shard.places.check(member)
        self._heard[rank] = time.monotonic()
        return rank

    def _gone(self) -> set[int]:
        now = time.monotonic()
        return {rank for rank in self._shard.places.ranks() if now - self._heard.get(rank, 0.0) > self._lease}

    def _alive(self) -> set[int]:
        return set(self._shard.places.ranks()) - self._gone()

    async def _wait(self, ready: Callable[[], bool]) -> bool:
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(ready), PATIENCE)
            except TimeoutError:
                return ready()
        return True

    async def _tell_all(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _standing(self) -> Any:
        return Standing(version=self._shard.version, finished=self._shard.finished)

    async def _on_describe(self, request: Any) -> Any:
        shard = self._shard
        specs = lambda known: [wire.spec_of(name, value) for name, value in known.items()]  # noqa: E731
        return Description(protocol=PROTOCOL, about=json.dumps(shard.about), server=shard.server, servers=shard.servers,
                           workers=shard.workers, mode=str(shard.mode), version=shard.version, steps=shard.steps,
                           parameters=specs(shard.parameters), buffers=specs(shard.buffers), clip=shard.task.clip,
                           rate=shard.rate)

    async def _on_register(self, request: Any) -> Any:
        shard = self._shard
        if request.protocol != PROTOCOL:
            raise unfit(f"the worker speaks version {request.protocol} of the protocol, and this server {PROTOCOL}; "
                        f"install the same version of the brain on both")
        if not request.identity or len(request.identity) > 64:
            raise wrong("the worker's identity must have 1 to 64 characters")
        try:
            theirs = json.loads(request.about)
        except (ValueError, RecursionError):
            theirs = None
        why = differ(shard.about, theirs)
        if why:
            raise unfit(f"the worker is of another training: {why}")
        shard.check_steps(request.steps)
        known = shard.places.of(request.identity)
        if request.HasField("member") and shard.server == 0 and known != (request.member.rank, request.member.epoch):
            raise wrong("server 0 gives places, and takes none that it has not given; ask without a member")
        if request.member.epoch >= MOST_EPOCHS:
            raise wrong(f"{request.member.epoch} is no epoch that server 0 gives")
        if request.HasField("member"):
            rank, epoch = request.member.rank, request.member.epoch
        elif shard.server != 0:
            raise wrong(f"server {shard.server} gives no places; ask server 0, and show its answer here")
        elif known:
            rank, epoch = known
        else:
            rank, epoch = shard.places.free(self._gone()), shard.places.epoch + 1
        if known != (rank, epoch):
            ended = rank in self._gone()
            shard.places.check_join(rank, epoch, request.identity, ended)
            for step in shard.deal.held_by(rank):
                self._held.lose(step)   # of who had the place before
            self._held.join(rank, epoch, request.identity, request.steps, ended)
            self._tell(f"worker {rank} has joined (epoch {epoch})")
        self._heard[rank], self._came = time.monotonic(), True
        await self._tell_all()
        kept = self._held.curriculum
        return Registration(member={"rank": rank, "epoch": epoch}, lease_s=self._lease, version=shard.version,
                            last_norm=shard.norm, has_curriculum=kept is not None,
                            curriculum_step=kept[0] if kept else 0)

    async def _on_renew(self, request: Any) -> Any:
        self._member(request)
        return self._standing()

    async def _on_leave(self, request: Any) -> Any:
        rank = self._member(request)
        for step in self._shard.deal.held_by(rank):
            self._held.lose(step)
        self._held.leave(request)
        self._tell(f"worker {rank} has left")
        await self._tell_all()
        return self._standing()

    # -- steps -----------------------------------------------------------------------------------------------------

    async def _on_take_step(self, request: Any) -> Any:
        shard, deal = self._shard, self._shard.deal
        rank = self._member(request)
        if shard.mode.together or shard.server != 0:
            raise wrong("steps are dealt out by server 0, in the modes async and stale")
        if held := deal.held_by(rank):      # the answer was lost
            return Taken(step=held[0])
        near = lambda: shard.mode.bound is None or deal.ahead() <= shard.mode.bound  # noqa: E731
        ready = await self._wait(lambda: deal.next >= shard.steps or near())
        self._member(request)
        if deal.next >= shard.steps:
            return Taken(finished=True)
        if not ready:
            oldest = min(deal.given)
            return Taken(wait=True, reason=f"step {oldest} of worker {deal.given[oldest][0]} is still to come, and the "
                                           f"mode is {shard.mode}")
        step = deal.next
        self._held.give(step, request)
        return Taken(step=step)

    async def _on_push_gradients(self, parts: AsyncIterator[Any]) -> Any:
        header = await self._first(parts, "PushHeader")
        self._member(header.member)
        if self._shard.check(header):
            return Pushed(version=self._shard.version, duplicate=True)
        size = sum(map(wire.size_of, (*header.tensors, *header.buffers)))
        data = await self._rest(parts, size, f"the push of step {header.sequence} of worker {header.member.rank}")
        self._member(header.member)
        duplicate = self._held.push(header, data)
        await self._tell_all()
        return Pushed(version=self._shard.version, duplicate=duplicate)

    @staticmethod
    async def _next(parts: AsyncIterator[Any]) -> Any:
        try:
            return await asyncio.wait_for(anext(parts, None), STALLED)
        except TimeoutError:
            raise wrong(f"nothing came for {STALLED:.0f} s in the middle of a stream; send it again") from None

    async def _first(self, parts: AsyncIterator[Any], what: str) -> Any:
        first = await self._next(parts)
        if first is None or first.WhichOneof("part") != "header":
            raise wrong(f"a stream must begin with a {what}")
        return first.header

    async def _rest(self, parts: AsyncIterator[Any], size: int, what: str) -> bytearray:
        """The bytes behind a header, as many as that said."""
        data = bytearray()
        while (part := await self._next(parts)) is not None:
            if part.WhichOneof("part") != "data" or len(part.data) > wire.CHUNK:
                raise wrong(f"{what} has another part than chunks of at most {wire.CHUNK} bytes behind its header")
            data += part.data
            if len(data) > size:
                raise wrong(f"{what} has more bytes than the {size} that its header says")
        if len(data) != size:
            raise wrong(f"{what} has {len(data)} bytes, and its header says {size}")
        return data

    async def _on_share_parts(self, request: Any) -> Any:
        rank = self._member(request.member)
        return await self._shares.answer(request, rank, self._shard, self._wait, self._tell_all)

    async def _on_await_norms(self, request: Any) -> Any:
        shard = self._shard
        self._member(request.member)
        if not shard.mode.together or request.sequence > shard.version:
            raise wrong(f"server {shard.server} is at step {shard.version} (mode {shard.mode}), and has no norms of "
                        f"step {request.sequence}")
        ready = lambda: shard.version > request.sequence or not shard.missing()  # noqa: E731
        if not await self._wait(ready):
            gone = self._gone()
            missing = [f"worker {rank}{' (its lease has ended)' if rank in gone else ''}" for rank in shard.missing()]
            return Norms(ready=False, reason=f"step {request.sequence} waits for {', '.join(missing)}")
        if shard.version > request.sequence:
            if shard.version > request.sequence + 1:
                raise unfit(f"step {request.sequence} is over for long: server {shard.server} is at {shard.version}")
            return Norms(ready=True, applied=True, norm=shard.norm)
        norms = shard.norms()
        return Norms(ready=True, names=norms.keys(), norms=norms.values())

    async def _on_apply_step(self, request: Any) -> Any:
        self._member(request.member)
        if not self._shard.mode.together:
            raise wrong(f"each push is a step of its own, since the mode is {self._shard.mode}")
        self._held.apply(request)
        await self._tell_all()
        return self._standing()

    async def _on_pull_parameters(self, request: Any) -> AsyncIterator[Any]:
        shard = self._shard
        if request.HasField("member"):
            self._member(request.member)
        if not await self._wait(lambda: shard.version >= request.min_version):
            yield PullPart(header=PullHeader(ready=False, version=shard.version))
            return
        known = {**shard.parameters, **shard.buffers}
        data = b"".join(wire.raw(value) for value in known.values())   # a copy: steps go on while it is sent
        spec = [wire.spec_of(name, value) for name, value in known.items()]
        reports = shard.reports_from(request.known_reports, REPORTS, LARGEST_MESSAGE // 2)
        yield PullPart(header=PullHeader(
            ready=True, version=shard.version, rate=shard.rate, tensors=spec[:len(shard.parameters)],
            buffers=spec[len(shard.parameters):], finished=shard.finished, crc32=wire.crc([data]),
            reports=reports, more=request.known_reports + len(reports) < len(shard.reports)))
        for piece in wire.chunks([data]):
            yield PullPart(data=piece)

    # -- the curriculum --------------------------------------------------------------------------------------------

    async def _on_push_curriculum(self, parts: AsyncIterator[Any]) -> Any:
        header = await self._first(parts, "CurriculumHeader")
        rank = self._member(header.member)
        if self._shard.server != 0 or rank != 0:
            raise wrong("the curriculum is that of worker 0, at server 0")
        size = curriculum.size_of(header, rank)
        data = await self._rest(parts, size, f"the curriculum of worker {rank}")
        self._member(header.member)
        tensors = curriculum.tensors_of(header, data, rank)
        self._held.keep_curriculum(header.step, header.values, tensors)
        return self._standing()

    async def _on_pull_curriculum(self, request: Any) -> AsyncIterator[Any]:
        self._member(request)
        if self._held.curriculum is None:
            raise wrong(f"server {self._shard.server} has no curriculum")
        step, values, known = self._held.curriculum
        data = [wire.raw(value) for value in known.values()]
        yield CurriculumPart(header=CurriculumHeader(
            step=step, values=values, tensors=[wire.spec_of(name, value) for name, value in known.items()],
            crc32=wire.crc(data)))
        for piece in wire.chunks(data):
            yield CurriculumPart(data=piece)


async def serve(shard: Shard, address: str, folder: Path | None, ready: Callable[[int], None], *,
                every: int, until: asyncio.Event | None = None, stay: bool = False, **options: Any) -> None:
    """Serves a shard until its training is over.

    Args:
        shard: as it begins.
        address: to listen at, HOST:PORT; port 0: any.
        folder: of checkpoint and log; None: nothing is kept.
        ready: told the port.
        every: steps between two checkpoints.
        until: ends it before that.
        stay: serves on when the training is over, until it is ended.
        options: of :class:`Server`.

    Raises:
        CheckpointError: see :class:`.durable.Durable`.
        OSError: the address cannot be had, or the folder not be written.
    """
    held = Durable(shard, folder, every)
    server = Server(held, **options)
    try:
        ready(await server.start(address))
        jobs = [asyncio.create_task(server.run(stay))]
        if until is not None:
            jobs.append(asyncio.create_task(until.wait()))
        done, left = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        for job in left:
            job.cancel()
        for job in done:
            job.result()
    finally:
        await server.stop()

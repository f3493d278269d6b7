# SPDX-License-Identifier: Apache-2.0
"""A parameter server on the wire: a client from its .proto alone, garbage on its port, and certificates."""
from __future__ import annotations

import errno
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import zlib
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest

from forked import Forked
from brain_runtime.graph.resolved import Resolved, ResolvedRegion
from brain_security.certificates import Pair, make_pair
from brain_security.folder import fill
from brain_security.rights import OPERATOR, rights_of
from brain_training import parameter_server
from brain_training.parameter_server.client import Servers
from brain_training.parameter_server.credentials import SERVER, WORKER, read_keys
from brain_training.parameter_server.shard import about
from brain_training.task import TrainingError
from brain_wire.credentials import CredentialsProblem

pytestmark = pytest.mark.slow
PATIENCE = 240.0     # s; only against waiting for ever
VERB = "import typer; from brain_training.parameter_server.command import {0}; typer.run({0})"
STEPS = 39


class Process:
    """A verb as a process, and the lines that it says."""

    def __init__(self, verb, *arguments, **environment):
        self.process = Forked("-c", VERB.format(verb), *map(str, arguments),
                              environment={**os.environ, "BRAIN_SECURITY": "", **environment})
        self.lines, self.all = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def until(self, pattern):
        """The match of the first line that has a pattern."""
        while (line := self.lines.get(timeout=PATIENCE)) is not None:
            self.all.append(line)
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"it ended with {self.process.wait()} and said {''.join(self.all)}")

    def end(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait(PATIENCE)


@pytest.fixture
def start():
    """Starts a verb; all are ended with the test."""
    found = []

    def run(*arguments, **environment):
        found.append(Process(*arguments, **environment))
        return found[-1]

    yield run
    for one in found:
        if one.process.poll() is None:
            one.end()
        one.process.stdout.close()


def served_language(start, folder, *arguments, port=0, host="127.0.0.1", **environment):
    process = start("server", "--listen", f"{host}:{port}", "--task", "language", "--quick", "--folder", folder,
                    *arguments, **environment)
    return at_port(process, host)


def at_port(server, host="127.0.0.1"):
    """A server, once it has said where it listens."""
    server.port = int(server.until(r"listens at .*:(\d+)")[1])
    server.address = f"{host}:{server.port}"
    return server


@pytest.fixture
def generated(tmp_path, monkeypatch):
    """What protoc makes of the .proto, in a folder where nothing else is."""
    proto = Path(parameter_server.__file__).with_name("parameters.proto")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "theirs.proto").write_text(proto.read_text())
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "--grpc_python_out=.",
                    "theirs.proto"], cwd=tmp_path / "made", check=True)
    monkeypatch.syspath_prepend(str(tmp_path / "made"))
    messages, stubs = __import__("theirs_pb2"), __import__("theirs_pb2_grpc")
    return SimpleNamespace(**{name: getattr(messages, name) for name in messages.DESCRIPTOR.message_types_by_name},
                           stub=lambda channel: stubs.ParameterServerStub(channel))


def refusal(call, *arguments):
    with pytest.raises(grpc.RpcError) as error:
        found = call(*arguments, timeout=PATIENCE)
        list(found) if hasattr(found, "__iter__") else None
    return error.value.code().name, error.value.details()


@pytest.mark.extended
def test_a_client_that_is_written_from_the_proto_alone(start, tmp_path, generated):
    t = generated
    server = served_language(start, tmp_path / "s")
    with grpc.insecure_channel(server.address) as channel:
        s = t.stub(channel)
        here = s.Describe(t.DescribeRequest(), timeout=PATIENCE)
        assert (here.protocol, here.server, here.servers, here.mode, here.version) == (2, 0, 1, "sync", 0)
        assert json.loads(here.about)["task"] == "language" and len(here.parameters) > 10
        ask = t.RegisterRequest(protocol=2, about=here.about, steps=STEPS, identity="mine")
        for change, said in (({"protocol": 1}, "speaks version 1 of the protocol, and this server 2"),
                             ({"about": "[]"}, "another training"), ({"steps": 0}, "0 is no number of steps"),
                             ({"about": here.about.replace('"seed": 0', '"seed": 9')}, "its seed is 9, and 0 here"),
                             ({"identity": ""}, "identity must have")):
            other = t.RegisterRequest()
            other.CopyFrom(ask)
            for name, value in change.items():
                setattr(other, name, value)
            assert said in refusal(s.Register, other)[1]
        mine = s.Register(ask, timeout=PATIENCE).member
        assert s.Register(ask, timeout=PATIENCE).member == mine     # asked again, it is the same place
        ask.identity = "another"
        assert refusal(s.Register, ask)[0] == "RESOURCE_EXHAUSTED"

        def pulled():
            header, *parts = s.PullParameters(t.PullRequest(member=mine), timeout=PATIENCE)
            data = b"".join(part.data for part in parts)
            assert zlib.crc32(data) == header.header.crc32 and max(len(part.data) for part in parts) <= 1 << 20
            values, at = {}, 0
            for spec in (*header.header.tensors, *header.header.buffers):
                assert spec.dtype == "F32"
                size = int(np.prod(spec.shape, dtype=int))
                values[spec.name] = np.frombuffer(data, np.float32, size, at).reshape(tuple(spec.shape))
                at += 4 * size
            assert at == len(data)
            return header.header, values

        def push(step, base, fill=0.25):
            tensors = list(here.parameters)
            data = b"".join(np.full(spec.shape, fill, np.float32).tobytes() for spec in tensors)
            header = t.PushHeader(member=mine, sequence=step, base_version=base, tensors=tensors,
                                  crc32=zlib.crc32(data), report=t.Report(step=step, rank=mine.rank, loss=2.0))
            yield t.PushPart(header=header)
            for at in range(0, len(data), 1 << 20):
                yield t.PushPart(data=data[at:at + (1 << 20)])

        before = pulled()
        assert before[0].version == 0 and set(before[1]) == {
            spec.name for spec in (*here.parameters, *here.buffers)}
        first = here.parameters[0].name
        assert f"worker 0 pushes for parameter {first}" in refusal(s.PushGradients, push(0, 0, fill=np.nan))[1]
        assert "a gradient of norm" in refusal(s.PushGradients, push(0, 0, fill=3e38))[1]
        bad = t.CurriculumHeader(member=mine, values="{}", crc32=zlib.crc32(bytes(4)), tensors=[
            t.TensorSpec(name="__metadata__", dtype="F32", shape=[1])])
        assert "is called __metadata__, which a file keeps for itself" in refusal(s.PushCurriculum, iter([
            t.CurriculumPart(header=bad), t.CurriculumPart(data=bytes(4))]))[1]
        shared = s.ShareParts(t.Parts(member=mine, sequence=0, round=0, parts=[b"sum"], wait=True), timeout=PATIENCE)
        assert shared.ready and list(shared.parts) == [b"sum"] and shared.known == 1
        assert s.PushGradients(push(0, 0), timeout=PATIENCE).duplicate is False
        assert s.PushGradients(push(0, 0), timeout=PATIENCE).duplicate is True
        norms = s.AwaitNorms(t.Round(member=mine, sequence=0), timeout=PATIENCE)
        assert norms.ready and not norms.applied and list(norms.names) == [spec.name for spec in here.parameters]
        norm = sum(value**2 for value in norms.norms)**0.5
        step = t.Step(member=mine, sequence=0, norm=norm)
        assert s.ApplyStep(step, timeout=PATIENCE).version == 1
        assert s.ApplyStep(step, timeout=PATIENCE).version == 1     # told twice, done once
        assert s.ShareParts(t.Parts(member=mine, sequence=0, parts=[b"sum"]), timeout=PATIENCE).passed
        after = pulled()
        assert after[0].version == 1 and [one.loss for one in after[0].reports] == [2.0]
        assert all((after[1][spec.name] < before[1][spec.name]).all() for spec in here.parameters)
        assert "needs those of version 1" in refusal(s.PushGradients, push(1, 0))[1]
        assert s.PushGradients(push(1, 1), timeout=PATIENCE).version == 1
        # Killed, it has what it acknowledged: the step, and the push of the next.
        server.end()
        again = served_language(start, tmp_path / "s", port=server.port)
    with grpc.insecure_channel(again.address) as channel:
        s = t.stub(channel)
        header, values = pulled()
        assert header.version == 1 and all((values[name] == after[1][name]).all() for name in values)
        assert s.PushGradients(push(1, 1), timeout=PATIENCE).duplicate is True
        assert s.Leave(mine, timeout=PATIENCE).version == 1
        code, why = refusal(s.PushGradients, push(1, 1))
        assert code == "FAILED_PRECONDITION" and "not registered here" in why
    again.end(signal.SIGTERM)
    again.until("ended at version 1 of 39; start it again to go on")


CLOSED = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)


def test_garbage_on_the_port_costs_nothing(start, tmp_path, generated):
    t = generated
    server = served_language(start, tmp_path / "s")
    rng = np.random.default_rng(1)
    for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(range(256)) * 40,
                 b"\x16\x03\x01\x02\x00\x01", *(rng.bytes(5000) for _ in range(20))):
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as link:
            try:
                link.sendall(data)
                link.shutdown(socket.SHUT_WR)
                link.settimeout(PATIENCE)
                while link.recv(4096):
                    pass
            except OSError as error:
                assert error.errno in CLOSED, error     # it has closed the link already
    with grpc.insecure_channel(server.address, [("grpc.max_send_message_length", -1)]) as channel:
        s, base = t.stub(channel), "/brain.parameters.v1.ParameterServer/"
        here = s.Describe(t.DescribeRequest(), timeout=PATIENCE)
        raw = lambda name: channel.unary_unary(base + name, None, None)  # noqa: E731
        for name in ("Describe", "Register", "TakeStep", "ShareParts", "AwaitNorms", "ApplyStep"):
            assert refusal(raw(name), b"\xff" * 100)[0] in ("INTERNAL", "UNKNOWN", "INVALID_ARGUMENT")
        assert refusal(raw("Nothing"), b"")[0] == "UNIMPLEMENTED"
        push = channel.stream_unary(base + "PushGradients", None, t.Pushed.FromString)
        part = lambda **what: t.PushPart(**what).SerializeToString()  # noqa: E731
        stranger = t.PushHeader(member=t.Member(rank=0, epoch=7), sequence=0)
        for parts, said in (([], "must begin with a PushHeader"), ([part(data=b"x")], "must begin with a PushHeader"),
                            ([part(header=stranger)], "worker 0 of epoch 7 is not registered here")):
            assert said in refusal(push, iter(parts))[1]
        assert refusal(push, iter([part(data=bytes(9 << 20))]))[0] == "RESOURCE_EXHAUSTED"
        mine = s.Register(t.RegisterRequest(protocol=2, about=here.about, steps=STEPS, identity="mine"),
                          timeout=PATIENCE).member
        for taken, said in ((t.Member(rank=0, epoch=77), "takes none that it has not given"),
                            (t.Member(rank=1, epoch=(1 << 64) - 1), "takes none that it has not given")):
            assert said in refusal(s.Register, t.RegisterRequest(
                protocol=2, about=here.about, steps=STEPS, identity="theirs", member=taken))[1]
        for shape, values in (([0, 1 << 63], "{}"), ([0, 1 << 62, 1 << 62], "{}"), ([1], "[1]")):
            kept = t.CurriculumHeader(member=mine, step=1, values=values, tensors=[
                t.TensorSpec(name="a", dtype="F32", shape=shape)])
            curriculum = channel.stream_unary(base + "PushCurriculum", None, t.Standing.FromString)
            code, said = refusal(curriculum, iter([t.CurriculumPart(header=kept).SerializeToString()]))
            assert code == "INVALID_ARGUMENT" and "does not read" in said, (code, said)
        one = here.parameters[0]
        size = 4 * int(np.prod(one.shape, dtype=int))
        header = t.PushHeader(member=mine, tensors=[one], report=t.Report(loss=1.0), crc32=5)
        much = [part(data=bytes(1 << 20))] * (size // (1 << 20) + 2)
        for parts, said in (([part(header=header), part(data=bytes(size // 2))], "and its header says"),
                            ([part(header=header), *much], "more bytes than"),
                            ([part(header=header), part(header=header)], "another part than chunks"),
                            ([part(header=header), *[part(data=bytes(size // 4))] * 4], "do not have the checksum")):
            assert said in refusal(push, iter(parts))[1]
        for shared, said in ((t.Parts(member=mine, sequence=3), "shares parts of step 3, and server 0 is at step 0"),
                             (t.Parts(member=mine, parts=[bytes(300 << 10)]), "shares more than 262144 bytes in one"),
                             (t.Parts(member=mine, first=1 << 20, parts=[b""]), "or more than 10000 sums in a step")):
            assert said in refusal(s.ShareParts, shared)[1]
        assert s.Describe(t.DescribeRequest(), timeout=PATIENCE).version == 0
        assert not s.AwaitNorms(t.Round(member=mine), timeout=PATIENCE).ready    # nothing of it was taken
    assert server.process.poll() is None


# -- certificates -----------------------------------------------------------------------------------------------------

def make_keys(folder, days=30.0, **more):
    rights = rights_of(Resolved("g", (ResolvedRegion("eye", "m:E", publishes=("seen",)),), namespace="/r1"),
                       operators=[OPERATOR, "ann"])
    return fill(folder, rights, domain=7, namespace="/r1", about={}, days=days, servers=["parameters"], **more)


def test_workers_are_let_in_by_their_certificates(start, tmp_path):
    keys, others, ended = (tmp_path / name for name in ("keys", "others", "ended"))
    make_keys(keys), make_keys(others)
    server = served_language(start, tmp_path / "s", host="localhost", BRAIN_SECURITY=str(keys))

    def enter(folder, identity=WORKER):
        found = Servers([server.address], read_keys(identity, folder) if folder else None, patience=5.0)
        found.close()

    enter(keys)
    with pytest.raises(TrainingError, match="PERMISSION_DENIED.*of /r1/eye does not allow .* /r1/operator may"):
        enter(keys, "eye")
    with pytest.raises(TrainingError, match="/r1/ann does not allow"):
        enter(keys, "ann")
    with pytest.raises(TrainingError, match=r"is secured; give --secure FOLDER \(or BRAIN_SECURITY\)"):
        enter(None)
    with pytest.raises(TrainingError, match="is not one that .*others.* trusts: .* Take the folder that it runs with"):
        enter(others)
    # Of the right authority for checking the server, with a certificate of another one.
    mixed = read_keys(WORKER, others)
    mixed = mixed.__class__(mixed.path, mixed.pair, read_keys(WORKER, keys).authority)
    with pytest.raises(TrainingError, match="refuses the certificate of /r1/operator .*of another authority"):
        Servers([server.address], mixed, patience=5.0)
    # What has ended is named before anybody is asked, and a server refuses it.
    authority = Pair((keys / "ca.key").read_bytes(), (keys / "ca.crt").read_bytes())
    old = make_pair(authority, "/r1/operator", -1.0)
    stale = mixed.__class__(Path("stale"), old, authority.certificate)
    with pytest.raises(TrainingError, match="refuses the certificate of /r1/operator .*it has ended"):
        Servers([server.address], stale, patience=5.0)
    make_keys(ended, days=-1.0)
    for who, serves in ((WORKER, False), (SERVER, True)):
        with pytest.raises(CredentialsProblem, match="ended on .* renew it with `brain keys"):
            read_keys(who, ended, serves=serves)
    assert datetime.now(timezone.utc) - old.ends > timedelta(hours=1)
    enter(keys)


def test_a_server_without_a_servers_certificate_does_not_start(start, tmp_path):
    make_keys(tmp_path / "keys")
    for name, said in (("operator.json5", "names no host, so it cannot be a server's"), ("nowhere", "there is no")):
        process = start("server", "--listen", "localhost:0", "--task", "language", "--quick", "--folder",
                        tmp_path / "s", "--secure", tmp_path / "keys" / name)
        process.until(said)
        assert process.process.wait(PATIENCE) == 1


def test_another_run_of_keys_keeps_the_servers_credentials(tmp_path):
    assert "parameters" in make_keys(tmp_path, hosts=["trainer.local"]).made
    rights = rights_of(Resolved("g", (ResolvedRegion("eye", "m:E"),), namespace="/r1"))
    for renew in (False, True):
        done = fill(tmp_path, rights, domain=7, namespace="/r1", about={}, days=30.0, renew=renew)
        assert "parameters" in (done.made if renew else done.kept) and done.left == ["ann"]
        assert "trainer.local" in read_keys(SERVER, tmp_path, serves=True).pair.hosts()


# -- by hand ----------------------------------------------------------------------------------------------------------

def test_servers_and_workers_that_are_started_by_hand(start, tmp_path, served):
    servers = [at_port(start("server", "--listen", "127.0.0.1:0", "--task", "served_tasks:Both", "--quick", "--folder",
                             tmp_path / "s", "--server", number, "--servers", 2, "--workers", 2))
               for number in range(2)]
    addresses = ",".join(server.address for server in reversed(servers))
    with pytest.raises(TrainingError, match="2 servers needs the addresses of all; these are of 1"):
        Servers([servers[1].address])
    task = served.Both(quick=True)
    links = Servers(addresses.split(","))
    with pytest.raises(TrainingError, match="of another training: its seed"):
        links.check(about(task, 8))
    links.close()
    weights = tmp_path / "w.safetensors"
    weights.write_text("of a run before")
    workers = [start("worker", "--servers", addresses, "--task", "served_tasks:Both", "--quick", *out)
               for out in ((), ("--out", weights))]
    for worker in workers:
        worker.until(r"was there for \d+ steps, and sent \d+\.\d MB")
        assert worker.process.wait(PATIENCE) == 0
    for server in servers:
        server.until("all 12 steps are done")
        assert server.process.wait(PATIENCE) == 0
    assert b"__metadata__" in weights.read_bytes()

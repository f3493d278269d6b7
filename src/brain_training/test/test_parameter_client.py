# SPDX-License-Identifier: Apache-2.0
"""A worker's link to a parameter server that answers with what it should not."""
from concurrent import futures
from contextlib import contextmanager

import grpc
import pytest

from brain_training.parameter_server import tensors as wire
from brain_training.parameter_server.client import Link, RefusedError, StaleError
from brain_training.parameter_server.messages import METHODS, PullHeader, PullPart, PullRequest, Pushed, SERVICE
from brain_training.task import TrainingError


@contextmanager
def link_to(**answers):
    """A link to a real server of gRPC whose methods are functions of a request and gRPC's context."""
    kinds = {(False, False): grpc.unary_unary_rpc_method_handler, (True, False): grpc.stream_unary_rpc_method_handler,
             (False, True): grpc.unary_stream_rpc_method_handler}
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {
        name: kinds[METHODS[name].many](answer, METHODS[name].asks.FromString, METHODS[name].answers.SerializeToString)
        for name, answer in answers.items()})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    link = Link(f"127.0.0.1:{port}", None, patience=1.0)
    try:
        yield link
    finally:
        link.close()
        server.stop(None).wait()


def pulled(*parts):
    return {"PullParameters": lambda request, context: iter(parts)}


@pytest.mark.parametrize("parts", [
    [PullPart(data=b"1234")], [],
    [PullPart(header=PullHeader(crc32=wire.crc([b"1234"]))), PullPart(data=b"1235")],
    [PullPart(header=PullHeader(crc32=wire.crc([b"1234"]))), PullPart(data=b"123")]],
    ids=["no header", "nothing", "a bit", "the end"])
def test_what_came_damaged_is_told(parts):
    with link_to(**pulled(*parts)) as link:
        with pytest.raises(TrainingError, match=f"what the parameter server at {link.address} sends for "
                                                f"PullParameters is damaged"):
            link.read("PullParameters", PullRequest())


def test_what_came_whole_is_read():
    header = PullHeader(version=3, crc32=wire.crc([b"1234"]))
    with link_to(**pulled(PullPart(header=header), PullPart(data=b"12"), PullPart(data=b"34"))) as link:
        assert link.read("PullParameters", PullRequest()) == (header, bytearray(b"1234"))
    with link_to(**pulled(PullPart(header=PullHeader(version=3, crc32=1)))) as link:     # of no bytes it says nothing
        assert link.read("PullParameters", PullRequest())[0].version == 3


@pytest.mark.parametrize(("code", "kind", "said"), [
    (grpc.StatusCode.ABORTED, StaleError, "^two versions old$"),
    (grpc.StatusCode.INVALID_ARGUMENT, RefusedError, r"refuses \(INVALID_ARGUMENT\): two versions old"),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, RefusedError, r"refuses \(RESOURCE_EXHAUSTED\): two versions old")])
def test_a_refusal_is_not_asked_again(code, kind, said):
    asked = []

    def refuse(requests, context):
        asked.append(len(list(requests)))
        context.abort(code, "two versions old")

    with link_to(PushGradients=refuse) as link:
        with pytest.raises(kind, match=said):
            link.ask("PushGradients", lambda: iter(()))
    assert asked == [0]


@pytest.mark.parametrize(("code", "why"), [
    (grpc.StatusCode.UNAVAILABLE, "not now"), (grpc.StatusCode.DEADLINE_EXCEEDED, "not now"),
    (grpc.StatusCode.CANCELLED, "not now"),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")])    # as gRPC says it
def test_who_does_not_answer_is_asked_again_with_a_new_stream(code, why):
    asked = []

    def later(requests, context):
        asked.append(len(list(requests)))
        if len(asked) < 3:
            context.abort(code, why)
        return Pushed()

    part = METHODS["PushGradients"].asks
    with link_to(PushGradients=later) as link:
        link.ask("PushGradients", lambda: iter([part(data=b"1"), part(data=b"2")]))
    assert asked == [2, 2, 2]

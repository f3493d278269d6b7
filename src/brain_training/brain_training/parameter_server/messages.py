# SPDX-License-Identifier: Apache-2.0
"""The messages of ``parameters.proto``, made from that file when this module is imported.

No generated code is kept, so there is one definition. protoc comes with grpcio-tools and takes some 20 ms.
"""
from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

PROTO = Path(__file__).with_name("parameters.proto")
PACKAGE = "brain.parameters.v1"
SERVICE = f"{PACKAGE}.ParameterServer"
PROTOCOL = 2


def _read() -> descriptor_pool.DescriptorPool:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "set"
        status = protoc.main(["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={found}", PROTO.name])
        if status:
            raise ImportError(f"protoc ends with {status} for {PROTO}; what it says stands above")
        files = descriptor_pb2.FileDescriptorSet.FromString(found.read_bytes())
    pool = descriptor_pool.DescriptorPool()     # of its own: a program may have the same messages as generated code
    for file in files.file:
        pool.Add(file)
    return pool


_POOL = _read()


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


class Method(NamedTuple):
    """A method of the service.

    Attributes:
        asks, answers: classes of its messages.
        many: whether it (asks, answers) with a stream of them.
    """

    name: str
    asks: Any
    answers: Any
    many: tuple[bool, bool]


def _methods() -> dict[str, Method]:
    return {method.name: Method(
        method.name, message_factory.GetMessageClass(method.input_type),
        message_factory.GetMessageClass(method.output_type), (method.client_streaming, method.server_streaming))
        for method in _POOL.FindServiceByName(SERVICE).methods}


METHODS = _methods()
AllParts, Parts = _message("AllParts"), _message("Parts")
CurriculumHeader, CurriculumPart = _message("CurriculumHeader"), _message("CurriculumPart")
DescribeRequest, Description = _message("DescribeRequest"), _message("Description")
LogRecord, Member, Norms = _message("LogRecord"), _message("Member"), _message("Norms")
PullHeader, PullPart, PullRequest = _message("PullHeader"), _message("PullPart"), _message("PullRequest")
Pushed, PushHeader, PushPart = _message("Pushed"), _message("PushHeader"), _message("PushPart")
RegisterRequest, Registration, Report = _message("RegisterRequest"), _message("Registration"), _message("Report")
Round, Standing, Step, Taken = _message("Round"), _message("Standing"), _message("Step"), _message("Taken")
TensorSpec = _message("TensorSpec")

# SPDX-License-Identifier: Apache-2.0
"""Classes of Protobuf messages for ``brain bench backends``, as protoc would generate them."""
# syntax = "proto3";
# package experiments;
# message Dense { repeated uint32 shape = 1; repeated float data = 2; }
# message Spikes { uint32 size = 1; repeated uint32 neuron = 2; }
from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELDS = descriptor_pb2.FieldDescriptorProto
_MESSAGES = {"Dense": (("shape", _FIELDS.TYPE_UINT32, True), ("data", _FIELDS.TYPE_FLOAT, True)),
             "Spikes": (("size", _FIELDS.TYPE_UINT32, False), ("neuron", _FIELDS.TYPE_UINT32, True))}


def _classes() -> dict[str, type]:
    file = descriptor_pb2.FileDescriptorProto(name="experiments/backends.proto", package="experiments", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind, many) in enumerate(fields, 1):
            message.field.add(name=field, number=number, type=kind,
                              label=_FIELDS.LABEL_REPEATED if many else _FIELDS.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"experiments.{name}"))
            for name in _MESSAGES}


Dense, Spikes = _classes().values()

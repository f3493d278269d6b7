# SPDX-License-Identifier: Apache-2.0
"""Codecs of ports: values in the inbox and in the outbox, messages between them, and nothing believed of these."""
import json
import pickle
import sys

import numpy as np
import pytest

from brain_runtime import FEATURE, In, Out, Region
from brain_runtime.contract import port_codecs, tensors
from brain_runtime.contract.stepper import RegionError, Stepper
from brain_wire import messages
from brain_wire.messages import MessageError

STRUCT = "protobuf:google.protobuf.struct_pb2:Struct"
VALUES = {"json": {"goal": "ball", "weights": [0.5, -1, None, True], "ü": {}}, "bytes": b"\x00\xff" * 9,
          "tensor": np.eye(3, dtype=np.float32), "tensor:int16[*]": np.arange(5, dtype=np.int16)}


def through_the_wire(message):
    return messages.decode(messages.encode(message), messages.type_name(message))


def struct(**fields):
    found = pytest.importorskip("google.protobuf.struct_pb2").Struct()
    found.update(fields)
    return found


@pytest.mark.parametrize("codec", VALUES)
def test_a_value_comes_back(codec):
    found = port_codecs.find(codec)
    message = found.write(VALUES[codec], source="me")
    assert message.__msgtype__ == found.type == port_codecs.message_type(codec) and message.source == "me"
    np.testing.assert_equal(found.read(through_the_wire(message)), VALUES[codec])


def test_a_protobuf_message_comes_back_under_its_full_name():
    sent, found = struct(goal="ball", weight=0.5), port_codecs.find(STRUCT)
    message = through_the_wire(found.write(sent))
    assert message.codec == "protobuf:google.protobuf.Struct" and found.read(message) == sent


def test_json_of_numpy_is_that_of_its_numbers():
    found = port_codecs.find("json")
    sent = {"a": np.float32(0.5), "b": np.arange(3), "c": [np.bool_(True)]}
    assert found.read(found.write(sent)) == {"a": 0.5, "b": [0, 1, 2], "c": [True]}


def test_random_json_and_bytes_come_back():
    rng = np.random.default_rng(2)

    def value(depth):
        kind = rng.integers(0, 7 if depth else 5)
        if kind >= 5:
            return ([value(depth - 1) for _ in range(rng.integers(0, 4))] if kind == 5 else
                    {str(rng.integers(0, 9)): value(depth - 1) for _ in range(rng.integers(0, 4))})
        return [None, bool(rng.random() < 0.5), int(rng.integers(-2 ** 62, 2 ** 62)), float(rng.normal()),
                "".join(map(chr, rng.integers(0, 0xD7FF, 5)))][kind]

    for _ in range(300):
        sent = {"value": value(4)}
        assert port_codecs.find("json").read(through_the_wire(port_codecs.find("json").write(sent))) == sent
        data = rng.bytes(int(rng.integers(0, 50)))
        assert port_codecs.find("bytes").read(through_the_wire(port_codecs.find("bytes").write(data))) == data


@pytest.mark.parametrize("codec, value, says", [
    ("json", {"a": float("nan")}, "cannot write a dict: ValueError"), ("json", {"a": {1, 2}}, "JSON cannot say a set"),
    ("json", "x" * port_codecs.MOST_JSON, "bytes of JSON"), ("bytes", "text", "cannot write a str: give bytes"),
    ("bytes", bytearray, "cannot write a type"), ("tensor", {"a": 1}, "holds no object"),
    ("tensor:bool", np.zeros(3), "declares bool"),
    (STRUCT, {"a": 1}, "cannot write a dict: ValueError: give a google")])
def test_what_cannot_be_written_is_refused(codec, value, says):
    if codec == STRUCT:
        pytest.importorskip("google.protobuf")
    with pytest.raises(MessageError, match=says):
        port_codecs.find(codec).write(value)


@pytest.mark.parametrize("codec, data, says", [
    ("json", b"{", "JSONDecodeError"), ("json", b"\xff", "UnicodeDecodeError"), ("json", b"[NaN]", "NaN is no JSON"),
    ("json", b"[" * 100_000, "RecursionError"), ("json", b"9" * 5000, "ValueError"), ("json", b"", "read 0 bytes"),
    ("json", b" " * (port_codecs.MOST_JSON + 1), "bytes of JSON"), ("json", pickle.dumps({"a": 1}), "json cannot read"),
    (STRUCT, b"\xff\xff", "DecodeError"), (STRUCT, b"\x0a\x02\x0a\x09", "DecodeError")])
def test_what_cannot_be_read_is_refused(codec, data, says):
    if codec == STRUCT:
        pytest.importorskip("google.protobuf")
    name = "protobuf:google.protobuf.Struct" if codec == STRUCT else codec
    message = messages.make(port_codecs.ENCODED, codec=name, data=data)
    with pytest.raises(port_codecs.CodecError, match=says):
        port_codecs.find(codec).read(through_the_wire(message))


def test_a_message_in_another_codec_is_refused():
    message = port_codecs.find("bytes").write(b"{}")
    with pytest.raises(port_codecs.CodecError, match="in codec 'bytes', and the port reads 'json'"):
        port_codecs.find("json").read(message)


@pytest.mark.parametrize("codec, says", [
    ("pickle", "there is no codec 'pickle'; there are bytes, json, protobuf, tensor"), ("json:x", "leave out 'x'"),
    ("tensor:float33", "declares no array"), ("protobuf", "name the message's class"),
    ("protobuf:google.protobuf.struct_pb2.Struct", "must read package.module:Name"),
    ("protobuf:nobody.has_this:Struct", "No module named"), ("protobuf:json:JSONDecoder", "no class of a protobuf")])
def test_a_codec_that_there_is_not_is_named_with_the_remedy(codec, says):
    if codec.startswith("protobuf"):
        pytest.importorskip("google.protobuf")
    with pytest.raises(MessageError, match=says):
        port_codecs.find(codec)


def test_without_protobuf_its_remedy_is_told(monkeypatch):
    monkeypatch.delitem(sys.modules, "brain_runtime.contract.protobuf_codec", raising=False)
    monkeypatch.setitem(sys.modules, "google.protobuf.message", None)
    with pytest.raises(port_codecs.CodecError, match="no package protobuf .* apt install python3-protobuf"):
        port_codecs.find("protobuf:google.protobuf.any_pb2:Any")


def test_an_entry_point_adds_a_codec(tmp_path, monkeypatch):
    told = tmp_path / "reversing-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: reversing\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(
        f"[{port_codecs.GROUP}]\nbackwards = reversing:Backwards\nsilent = reversing:No\n")
    (tmp_path / "reversing.py").write_text(
        "class Backwards:\n"
        "    def __init__(self, argument):\n"
        "        self.name = f'backwards:{argument}'\n"
        "    def encode(self, value):\n"
        "        return value.encode()[::-1]\n"
        "    def decode(self, data):\n"
        "        return data[::-1].decode()\n"
        "class No(Backwards):\n"
        "    def __init__(self, argument):\n"
        "        self.name = ''\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = port_codecs.find("backwards:1")
    message = through_the_wire(found.write("abc"))
    assert (message.codec, message.data.tobytes(), found.read(message)) == ("backwards:1", b"cba", "abc")
    with pytest.raises(port_codecs.CodecError, match="UnicodeDecodeError"):
        found.read(messages.make(port_codecs.ENCODED, codec="backwards:1", data=b"\xff"))
    with pytest.raises(port_codecs.CodecError, match="1 to 128 bytes"):
        port_codecs.find("silent")


# -- ports --------------------------------------------------------------------------------------------------------


class Adds(Region):
    heard = In("heard", codec="tensor:float32[*]", trigger=True, device=True)
    each = In("each", codec="json", qos=FEATURE.with_depth(5), every=True)
    keyed = In("keyed", codec="bytes", key="source")
    plain = In("plain", "std_msgs/msg/String")
    sum = Out("sum", codec="tensor:float32[]", stamp_from="heard")
    said = Out("said", codec="json")

    def step(self, inbox, state, dt, rng):
        self.seen = {name: inbox.get(name) for name in self.inputs()}
        self.lists = {name: [r.message for r in inbox.each(name)] for name in self.inputs()}
        self.header = None if inbox.message("heard") is None else inbox.message("heard").header
        return self.answers, state


def write(codec, value, **fields):
    return through_the_wire(port_codecs.find(codec).write(value, **fields))


def test_the_inbox_has_values_and_the_outbox_takes_them():
    region = Adds()
    stepper = Stepper(region)
    stamp = messages.time_message(7.0)
    eye = messages.make("brain_interfaces/msg/Origin", source="eye", stamp=stamp)
    header = messages.make("std_msgs/msg/Header", stamp=stamp)
    heard = write("tensor", np.arange(3, dtype=np.float32), header=header, origins=[eye])
    stepper.offer("heard", heard, 1.0)
    for number in range(2):
        stepper.offer("each", write("json", {"number": number}), 1.0)
        stepper.offer("keyed", write("bytes", b"%d" % number, source=f"s{number}"), 1.0)
    stepper.offer("plain", messages.make("std_msgs/msg/String", data="as ever"), 1.0)
    region.answers = {"sum": np.float32(3), "said": [{"a": 1}, region.said([1, 2], source="me"), None]}
    published = stepper.step(1.0, 9.0)
    np.testing.assert_array_equal(region.seen["heard"], np.arange(3))
    assert region.lists["each"] == [{"number": 0}, {"number": 1}] and region.lists["keyed"] == [b"0", b"1"]
    assert region.seen["plain"].data == "as ever" and region.header.stamp.sec == 7
    (_, total), (_, first), (_, second) = published
    assert tensors.array(total) == 3 and total.header.stamp.sec == 7 and total.origins[0].source == "eye"
    assert json.loads(first.data.tobytes()) == {"a": 1} and first.header.stamp.sec == 9
    assert json.loads(second.data.tobytes()) == [1, 2] and second.source == "me"


@pytest.mark.parametrize("answers, says", [
    ({"sum": np.zeros(2, np.float32)}, r"shape \[2\]"), ({"sum": np.float64(1)}, "declares float32"),
    ({"said": {"a": object()}}, "JSON cannot say"),
    ({"said": messages.make("std_msgs/msg/String")}, "JSON cannot say")])
def test_a_value_that_is_not_as_declared_fails_the_step(answers, says):
    region = Adds()
    region.answers = answers
    with pytest.raises(RegionError, match=says):
        Stepper(region).step(1.0, 1.0)


def test_a_message_that_the_codec_cannot_read_is_not_taken_in():
    region = Adds()
    stepper = Stepper(region)
    with pytest.raises(MessageError, match="declares float32"):
        stepper.offer("heard", write("tensor", np.zeros(3)), 1.0)
    assert not stepper.triggered


def test_a_port_says_its_type_by_its_codec():
    assert In("a", codec="json").type == port_codecs.ENCODED
    assert In("a", tensors.TYPE, codec="tensor").type == In("a", codec="tensor:bool").type == tensors.TYPE
    with pytest.raises(ValueError, match="leave the type out"):
        In("a", "std_msgs/msg/String", codec="json")
    with pytest.raises(ValueError, match="package/msg/Type"):
        In("a")
    with pytest.raises(TypeError, match="no codec; give the fields"):
        Out("a", "std_msgs/msg/String")("text")
    with pytest.raises(TypeError, match="give one value"):
        Out("a", codec="json")(data=b"{}")


def test_a_codec_that_there_is_not_fails_when_the_region_is_configured():
    class Wants(Region):
        heard = In("heard", codec="nobody")

    with pytest.raises(MessageError, match="there is no codec 'nobody'"):
        Stepper(Wants())

# SPDX-License-Identifier: Apache-2.0
"""What regions exchange beside messages, on every host: arrays of each dtype, spikes, JSON, Protobuf, any bytes.

From the sources it runs on LocalHost, ZenohHost and TorchHost; under colcon, where there is rclpy, on RosHost too.
"""
import importlib.util
import pickle

import numpy as np
import pytest

from brain_runtime import FEATURE, STREAM
from brain_runtime.contract import port_codecs, tensors
from brain_runtime.interfaces import Tensor
from brain_tests.stage_of import make_stage
from brain_wire import messages

ROS = [pytest.param("ros", marks=pytest.mark.colcon)] if importlib.util.find_spec("rclpy") else []
EXCHANGES, PROTOBUF = (f"brain_tests.regions:{name}" for name in ("Exchanges", "ExchangesProtobuf"))
DTYPES = "bool u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8 c16".split()


@pytest.fixture(params=["local", "zenoh", "torch", *ROS])
def stage(request, tmp_path):
    made = make_stage(request.param, tmp_path)
    yield made
    made.close()


class Talk:
    """Says values to a region that says them back, and the messages in which they come."""

    def __init__(self, stage, codec_of):
        self._stage, self._codecs = stage, {topic: port_codecs.find(codec) for topic, codec in codec_of.items()}
        self._heard = {topic: stage.hear(back(topic), codec.type, FEATURE) for topic, codec in self._codecs.items()}
        self.newest = None
        self.asked = 0      # messages that can be read were said so often

    def ask(self, topic, value, same):
        """What comes back on a topic once ``same(value)`` is true of it; it is said until then."""
        codec, heard = self._codecs[topic], self._heard[topic]

        def answered():
            self.asked += 1
            self.say(topic, codec.write(value, source="test"))
            self._stage.pause(0.05)
            return [message for message in heard if same(codec.read(message))]
        self.newest = self._stage.until(answered)[-1]
        return codec.read(self.newest)

    def say(self, topic, message):
        self._stage.say(topic, message, FEATURE)


def back(topic):
    return {"heard": "said"}.get(topic, f"{topic}_back")


def equal(sent):
    return lambda got: (got.dtype, got.shape, got.tobytes()) == (sent.dtype, sent.shape, sent.tobytes())


def talk(stage):
    made = Talk(stage, {"numbers": "tensor", "half": "tensor:bfloat16", "rows": "tensor:float32[*,3]",
                        "fired": "tensor:bool", "told": "json", "raw": "bytes"})
    stage.start(EXCHANGES)
    return made


def test_arrays_of_every_dtype_come_back_to_the_bit(stage):
    region, rng = talk(stage), np.random.default_rng(1)
    for dtype in DTYPES:
        for shape, share in (((), 1.0), ((4, 0, 2), 1.0), ((3, 5, 7), 1.0), ((30, 40), 0.02), ((40, 50), 0.9)):
            raw = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
            sent = np.where(rng.random(shape) < share, raw[..., 0] % 2 == 1 if dtype == "bool" else
                            raw.view(dtype)[..., 0], np.zeros((), dtype)).astype(dtype)
            region.ask("numbers", sent, equal(sent))
    numbers = np.linspace(-2, 2, 33, dtype=np.float32)
    sent = tensors.array(tensors.tensor(numbers, kind="bfloat16"))
    region.ask("half", numbers, equal(sent))
    assert region.newest.dtype == Tensor.DTYPE_BFLOAT16


def test_spikes_travel_as_bits_or_as_places_whichever_is_smaller(stage):
    region, rng = talk(stage), np.random.default_rng(2)
    for share, form in ((0.005, Tensor.FORM_SPARSE), (0.3, Tensor.FORM_BITS), (0.0, Tensor.FORM_SPARSE)):
        sent = rng.random(1000) < share
        region.ask("fired", sent, equal(sent))
        message = region.newest
        assert message.form == form and len(message.data) + 4 * len(message.index) <= 125


def test_a_megabyte_comes_back(stage):
    region = talk(stage)
    sent = np.random.default_rng(3).random((512, 512)).astype(np.float32)
    region.ask("numbers", sent, equal(sent))
    data = sent.tobytes()
    region.ask("raw", data, data.__eq__)


def test_json_and_bytes_come_back(stage):
    region = talk(stage)
    for sent in ({"goal": "ball", "weights": [0.5, -1, None, True], "ü": {}}, "text", 7):
        region.ask("told", sent, lambda got, sent=sent: got == sent)
    for sent in (b"", b"\x00\xff" * 999):
        region.ask("raw", sent, sent.__eq__)
    assert region.newest.codec == "bytes"


def test_messages_of_protobuf_come_back(stage):
    struct = pytest.importorskip("google.protobuf.struct_pb2").Struct
    region = Talk(stage, {"heard": "protobuf:google.protobuf.struct_pb2:Struct"})
    stage.start(PROTOBUF)
    sent = struct()
    sent.update({"goal": "ball", "weight": 0.5})
    got = region.ask("heard", sent, lambda got: "goal" in got)
    assert dict(got) == {"goal": "ball", "weight": 0.5, "more": True}


def test_what_cannot_be_read_is_dropped_and_told_and_costs_nothing(stage):
    beats = stage.hear("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
    region = talk(stage)
    rows = np.ones((2, 3), np.float32) * 0.5
    region.ask("rows", rows, equal(rows))
    lies = [dict(dtype=99), dict(form=9), dict(shape=np.full(8, 2 ** 32 - 1, np.uint32)),
            dict(data=np.zeros(5, np.uint8)),
            dict(form=Tensor.FORM_SPARSE, data=np.zeros(0, np.uint8), index=np.array([2 ** 32 - 1], np.uint32)),
            dict(form=Tensor.FORM_SPARSE, shape=np.array([2 ** 31, 3], np.uint32), data=np.zeros(0, np.uint8))]
    for lie in lies:
        message = tensors.tensor(rows)
        for name, value in lie.items():
            setattr(message, name, value)
        region.say("rows", message)
        region.say("numbers", message)
        stage.pause(0.02)
    region.say("rows", tensors.tensor(np.zeros((2, 4), np.float32)))
    for codec, data in (("json", b"[" * 100_000), ("json", b"\xff"), ("bytes", b"{}"), ("json", pickle.dumps({}))):
        region.say("told", messages.make(port_codecs.ENCODED, codec=codec, data=data))
        stage.pause(0.02)
    more = np.full((5, 3), 0.25, np.float32)
    region.ask("rows", more, equal(more))
    region.ask("numbers", more, equal(more))
    region.ask("told", {"still": "here"}, lambda got: got == {"still": "here"})
    stage.until(lambda: all(f"{topic}: dropped a message" in stage.log() for topic in ("rows", "numbers", "told")))
    of_last = len(beats)
    stage.until(lambda: len(beats) > of_last + 1)
    assert 0 < beats[-1].step <= region.asked, "no step is made for what cannot be read"

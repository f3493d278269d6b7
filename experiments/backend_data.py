# SPDX-License-Identifier: Apache-2.0
"""*data* of ``brain bench backends``: the same numbers in each form that a port can have, and what each costs.

Each form begins with a NumPy array and ends with the same one, to the bit: an activation map (float32, 64 x 64), and
spikes (bool, 4096 neurons of which one in fifty fired). Encoding is from the array to the bytes that are sent, decoding
the way back; a round trip is there and back between two regions on ZenohHost, which decode and encode at both ends.
"""
from __future__ import annotations

import importlib
import importlib.util
import json
import statistics
import time
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from brain_eval.bench.wire import LOST, Asked, wait_for
from brain_runtime import FEATURE, In, LATCHED, Out, Region
from brain_runtime.contract import port_codecs
from brain_wire import messages
from experiments.toy_brain import toys

STRING = "std_msgs/msg/String"
SHAPE, NEURONS, FIRED = (64, 64), 4096, 0.02
PROTO = "protobuf:experiments.protobuf_messages:"
PROTOBUF = bool(importlib.util.find_spec("google") and importlib.util.find_spec("google.protobuf"))
REGIONS = {"echo": "experiments.backend_data:DataEcho", "ping": "experiments.backend_data:DataPing"}


class Form(NamedTuple):
    """A form of some content.

    Attributes:
        content: ``dense`` or ``spikes``.
        called: what people call it.
        carries: what it says of the numbers.
        port: arguments of a port.
        write: from an array to what the port takes.
        read: back.
    """

    content: str
    called: str
    carries: str
    port: dict[str, str]
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _layout(array: np.ndarray) -> Any:
    return messages.make("std_msgs/msg/MultiArrayLayout", dim=[
        messages.make("std_msgs/msg/MultiArrayDimension", label=str(n), size=size, stride=size)
        for n, size in enumerate(array.shape)])


def _dense(kind: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    def write(array: np.ndarray) -> Any:
        return messages.make(kind, layout=_layout(array), data=array.reshape(-1))

    def read(message: Any) -> np.ndarray:
        return np.asarray(message.data, np.float32).reshape([dim.size for dim in message.layout.dim])
    return write, read


def _fired(places: Any, size: int) -> np.ndarray:
    spikes = np.zeros(size, bool)
    spikes[np.asarray(places, np.int64)] = True
    return spikes


def _train(array: np.ndarray) -> Any:
    places = np.flatnonzero(array).astype(np.uint32)
    return messages.make("brain_interfaces/msg/SpikeTrain", population="bench/spikes", size=array.size,
                         bin_width=0.005, total=len(places), neuron=places, bin=np.zeros(len(places), np.uint16))


def _protobuf(name: str, **fields: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def write(array: np.ndarray) -> Any:
        made = getattr(importlib.import_module("experiments.protobuf_messages"), name)
        return made(**{field: make(array) for field, make in fields.items()})
    return write


FORMS = {
    "dense_tensor": Form("dense", "Tensor", "dtype, shape, source, origins, stamp", {"codec": "tensor:float32[64,64]"},
                         _same, _same),
    "dense_bytes": Form("dense", "bytes", "nothing: both ends must know", {"codec": "bytes"}, lambda a: a.tobytes(),
                        lambda data: np.frombuffer(data, np.float32).reshape(SHAPE)),
    "dense_json": Form("dense", "JSON", "names and nesting; numbers as text", {"codec": "json"},
                       lambda a: {"data": a.tolist()}, lambda value: np.array(value["data"], np.float32)),
    "dense_protobuf": Form(
        "dense", "protobuf", "numbered fields of a .proto file", {"codec": PROTO + "Dense"},
        _protobuf("Dense", shape=lambda a: a.shape, data=lambda a: a.reshape(-1)),
        lambda found: np.array(found.data, np.float32).reshape(tuple(found.shape))),
    "dense_ros": Form("dense", "ROS message (CDR): Float32MultiArray", "sizes of dimensions",
                      {"type": "std_msgs/msg/Float32MultiArray"}, *_dense("std_msgs/msg/Float32MultiArray")),
    "spikes_tensor": Form("spikes", "Tensor", "dtype, shape, source, origins, stamp; by bits or by places",
                          {"codec": "tensor:bool[*]"}, _same, _same),
    "spikes_train": Form("spikes", "SpikeTrain", "population, its size, bins in time, stamp",
                         {"type": "brain_interfaces/msg/SpikeTrain"}, _train, lambda m: _fired(m.neuron, m.size)),
    "spikes_bytes": Form("spikes", "bytes, a bit each", "nothing: both ends must know", {"codec": "bytes"},
                         lambda a: np.packbits(a).tobytes(),
                         lambda data: np.unpackbits(np.frombuffer(data, np.uint8)).astype(bool)),
    "spikes_json": Form("spikes", "JSON, places", "names and nesting; numbers as text", {"codec": "json"},
                        lambda a: {"size": a.size, "neuron": np.flatnonzero(a).tolist()},
                        lambda value: _fired(value["neuron"], value["size"])),
    "spikes_protobuf": Form("spikes", "protobuf, places", "numbered fields of a .proto file",
                            {"codec": PROTO + "Spikes"},
                            _protobuf("Spikes", size=lambda a: a.size, neuron=np.flatnonzero),
                            lambda found: _fired(list(found.neuron), found.size)),
    "spikes_ros": Form("spikes", "ROS message (CDR): UInt8MultiArray", "sizes of dimensions",
                       {"type": "std_msgs/msg/UInt8MultiArray"},
                       lambda a: messages.make("std_msgs/msg/UInt8MultiArray", layout=_layout(a),
                                               data=a.astype(np.uint8)),
                       lambda m: np.asarray(m.data, np.uint8).astype(bool)),
}

if not PROTOBUF:
    FORMS = {name: form for name, form in FORMS.items() if not name.endswith("_protobuf")}


def content(kind: str) -> np.ndarray:
    """The array that all forms of a content carry."""
    rng = np.random.default_rng(21)
    return rng.normal(size=SHAPE).astype(np.float32) if kind == "dense" else rng.random(NEURONS) < FIRED


def _ports(out: bool, suffix: str) -> dict[str, Any]:
    return {name + suffix: Out(f"bench/{name}{suffix}", qos=FEATURE, **form.port) if out else
            In(f"bench/{name}{suffix}", qos=FEATURE, trigger=True, **form.port) for name, form in FORMS.items()}


class _Echo(Region):
    """Decodes each message to an array, and sends that back."""

    def step(self, inbox, state, dt, rng):
        return {f"{name}_back": form.write(form.read(inbox.get(name))) for name, form in FORMS.items()
                if inbox.new(name)}, state


class _Ping(Region):
    """Times round trips as it is told on bench/go: JSON with ``id``, ``form`` and ``count``."""

    rate = 5.0

    def configure(self, parameters):
        super().configure(parameters)
        self._left = 0

    def step(self, inbox, state, dt, rng):
        if inbox.new("go"):
            order = json.loads(inbox.get("go").data)
            self._id, self._name, self._left, self._times = order["id"], order["form"], order["count"], []
            self._form = FORMS[self._name]
            self._array = content(self._form.content)
            return self._send(), state
        if self._left > 0 and inbox.new(f"{self._name}_back"):
            got = self._form.read(inbox.get(f"{self._name}_back"))
            self._times.append(time.perf_counter() - self._sent)
            if not np.array_equal(got, self._array):
                raise ValueError(f"{self._name} came back as something else")
            self._left -= 1
            if self._left == 0:
                return {"result": self.result(data=json.dumps({"id": self._id, "times": self._times}))}, state
            return self._send(), state
        return (self._send() if self._left > 0 and time.perf_counter() - self._sent > LOST else {}), state

    def _send(self):
        self._sent = time.perf_counter()
        return {self._name: self._form.write(self._array)}


DataEcho = type("DataEcho", (_Echo,), {"__doc__": _Echo.__doc__, "__module__": __name__,
                                       **_ports(False, ""), **_ports(True, "_back")})
DataPing = type("DataPing", (_Ping,), {
    "__doc__": _Ping.__doc__, "__module__": __name__, "go": In("bench/go", STRING, FEATURE, trigger=True, device=True),
    "result": Out("bench/result", STRING, LATCHED), **_ports(True, ""), **_ports(False, "_back")})


def coders(name: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Returns the encoder of a form, from array to bytes, and its decoder."""
    form = FORMS[name]
    if "codec" in form.port:
        codec = port_codecs.find(form.port["codec"])
        return (lambda array: bytes(messages.encode(codec.write(form.write(array)))),
                lambda data: form.read(codec.read(messages.decode(data, codec.type))))
    kind = form.port["type"]
    return (lambda array: bytes(messages.encode(form.write(array))),
            lambda data: form.read(messages.decode(data, kind)))


def measure(blocks: int, count: int, stop: Any, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measures the cost of each form, by turns.

    Args:
        blocks: of each form.
        count: encodings, decodings and round trips of a block.
        stop: a flag that ends all waiting.

    Returns:
        By form: ``content``, ``called``, ``carries``, ``bytes`` of a message, and in s, medians, ``encode``,
        ``decode`` and ``trip``.

    Raises:
        TimeoutError: nothing comes back.
    """
    with toys("zenoh", stop, REGIONS) as brain:
        asked = Asked(brain.node.publisher("bench/go", STRING, FEATURE),
                      brain.node.subscription("bench/result", STRING, LATCHED))

        def block(name: str, many: int, patience: float = 20.0) -> list[float]:
            return asked.ask(patience, form=name, count=many).get("times", [])
        times: dict[str, dict[str, list[float]]] = {}
        for name in FORMS:
            wait_for(lambda name=name: block(name, 1, 2.0), name)   # type: ignore[misc]
            times[name] = {"encode": [], "decode": [], "trip": []}
        for _ in range(blocks):
            for name in FORMS:
                alone = _coded(name, count)
                for what, taken in {**alone, "trip": block(name, count)}.items():
                    times[name][what] += taken[count // 5:]
    found = []
    for name, form in FORMS.items():
        size = len(coders(name)[0](content(form.content)))
        medians = {what: statistics.median(taken) if taken else None for what, taken in times[name].items()}
        found.append({"form": name, "content": form.content, "called": form.called, "carries": form.carries,
                      "bytes": size, **medians, "n": len(times[name]["trip"])})
        tell(f"{form.content} as {form.called}: {size} B" + ("" if None in medians.values() else ", " + ", ".join(
            f"{what} {1e6 * took:.0f} us" for what, took in medians.items())))
    return found


def _coded(name: str, count: int) -> dict[str, Sequence[float]]:
    write, read = coders(name)
    array = content(FORMS[name].content)
    wrote, took = [], []
    for _ in range(count):
        begin = time.perf_counter()
        data = write(array)
        between = time.perf_counter()
        got = read(data)
        took.append(time.perf_counter() - between)
        wrote.append(between - begin)
        if not np.array_equal(got, array):
            raise ValueError(f"{name} does not carry what it was given")
    return {"encode": wrote, "decode": took}

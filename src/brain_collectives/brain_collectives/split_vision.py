# SPDX-License-Identifier: Apache-2.0
"""The network of vision spread over processes by columns.

It answers what :class:`brain_regions.vision.network.Looking` does, to the bit.

Shard 0 is the region's process. It has the lesions, the counts and the readout, and tells the others of each picture
(:func:`serve` is what they run). Membranes stay where their neurons are: the state that a step returns has them by
name, and who reads them (a snapshot) has them collected. A state that is another one, as after a restart, is told to
all before the picture.
"""
from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from brain_collectives.column_widths import agree, found_by_trying, widths
from brain_collectives.columns import Columns, Exchange, Layer, packed, parts, same_bits, unpacked
from brain_regions.lesions import Lesion
from brain_regions.vision import weights as weight_file
from brain_regions.vision.network import (HEIGHT, INPUTS, LAYERS, NEURON, WIDTH, Looked, Looking, Tensors, current,
                                          sizes)
from brain_regions.vision.network import Layer as VisionLayer
from brain_regions.weight_files import WeightsError

log = logging.getLogger(__name__)

LOAD, USE, LOOK, COLLECT = range(4)     # what shard 0 asks for
_WORDS = 5                              # int64 at the beginning of what it tells: which, then as each says
_ANSWER = 1024                          # bytes of an answer, JSON and blanks
MOST_STEPS = 10                         # up to which the split was compared with the whole
BUSY_STEPS = 10, 3, 7, 1, 10, 3, 7, 5   # micro-steps of the noisy pictures of the comparison
COUNTS = range(2, 17)                   # of shards, that are tried to tell which would do,
FITTING = 1, 2, MOST_STEPS              # with so many micro-steps: libraries take other ways for one, few and many
_PICTURE = HEIGHT * WIDTH * 3
_HEARD = HEIGHT, WIDTH, INPUTS          # rows, columns and channels that the first layer hears


class SplitError(RuntimeError):
    """The network cannot be spread over these processes; says why."""


def layers_of(tensors: Tensors, layers: Sequence[VisionLayer] = LAYERS) -> list[Layer]:
    """The layers of a network, as they are split."""
    return [Layer(tensors[f"convolutions.{k}.weight"], tensors[f"convolutions.{k}.bias"], y.stride, y.padding,
                  y.dilation, (rows, width, channels), NEURON)
            for k, (y, (channels, rows, width)) in enumerate(zip(layers, sizes(layers)))]


def noisy(picture: np.ndarray, number: int) -> np.ndarray:
    """A picture moved aside and with noise, the same for each number: other neurons fire for each."""
    noise = np.random.default_rng(number).integers(-30, 30, picture.shape)
    return np.clip(np.roll(picture, 2 * number, 1).astype(int) + noise, 0, 255).astype(np.uint8)


class Membrane:
    """Potentials of one layer, which are with the shards until somebody reads them.

    Args:
        kept: of which look.
        number: of the layer.
        shape: rows, columns, channels.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, kept: _Kept, number: int, shape: tuple[int, ...]) -> None:
        self.kept, self.shape = kept, shape
        self._number = number

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.kept.arrays()[self._number]
        return found.astype(dtype or found.dtype, copy=True if copy is None else copy)


class _Kept:
    """Membranes of all shards, as a look left them."""

    def __init__(self, split: SplitLooking) -> None:
        self._split = split
        self._arrays: list[np.ndarray] | None = None

    def arrays(self) -> list[np.ndarray]:
        """By layer. Raises SplitError where the shards have gone on, and what their exchange raises."""
        if self._arrays is None:
            self._arrays = self._split.collected(self)
        return self._arrays


class SplitLooking(Looking):
    """A network, run by all shards; this is shard 0.

    Args:
        tensors: its weights.
        exchange: with the others, which are in :func:`serve`.
        source: the file it was loaded from, and its hash: the others load the same.
        layers: that the weights are of.

    Raises:
        WeightsError: a shard cannot load the file, or it holds something else there.
        SplitError: a layer has fewer columns than there are shards, or the shards do not compute what the whole does.
    """

    def __init__(self, tensors: Tensors, exchange: Exchange, source: tuple[Path, str],
                 layers: Sequence[VisionLayer] = LAYERS) -> None:
        super().__init__(tensors, layers)
        self._exchange = exchange
        self._kept: _Kept | None = None
        self._last, self._lesioned = len(self.layers) - 1, frozenset[int]()
        self._whole = layers_of(tensors, layers)
        try:
            computed = widths(self._whole, _HEARD, exchange.size, MOST_STEPS)
            self._columns = Columns(self._whole, exchange, computed)
        except ValueError as error:
            raise SplitError(f"{error}, or none") from error
        log.info("each of %d shards computes channels: %s", exchange.size, ", ".join(
            f"{layer.name} {at_once[-1]}" + f" ({at_once[0]} with one micro-step)" * (at_once[0] != at_once[-1])
            + f" of {layer.outputs}" for layer, at_once in zip(self.layers, computed)))
        self._tell(LOAD, data=json.dumps([str(source[0]), [list(y) for y in self.layers], computed]).encode())
        with exchange.patiently():
            told = exchange.collect(_answer({"hash": source[1]}), [_ANSWER] * exchange.size)
        answers = [json.loads(bytes(answer)) for answer in told]
        for rank, answer in enumerate(answers):
            if answer != answers[0]:
                raise WeightsError(f"shard {rank} cannot use the weights {source[0]}: "
                                   + answer.get("error", f"there the file's hash is {answer.get('hash')}, and here "
                                                         f"{source[1]}; let nobody write it meanwhile"))
        self._tell(USE)

    def settle(self) -> None:
        """Collects the potentials of the last look, before the shards go on with something else."""
        if self._kept is not None:
            self._kept.arrays()

    def check(self, whole: Looking) -> None:
        """Compares pictures seen by the shards with pictures seen by the whole network, to the bit.

        Raises:
            SplitError: they differ, since some columns are added up in another order than in all of them.
        """
        with self._exchange.patiently():
            self._compare(whole)

    def _compare(self, whole: Looking) -> None:
        picture, ours, theirs = weight_file.patches(), self.rest(), whole.rest()
        shown = [(picture, steps) for steps in range(1, MOST_STEPS + 1)]
        # On some processors an order of adding shows only where many neurons fire at once.
        shown += [(noisy(picture, number), steps) for number, steps in enumerate(BUSY_STEPS)]
        for seen, steps in shown:
            mine, right = self.look(seen, ours, steps), whole.look(seen, theirs, steps)
            ours, theirs = mine.state, right.state
            for k, layer in enumerate(self.layers):
                name = f"v_{layer.name}"
                if not np.array_equal(mine.trains[k], right.trains[k]):
                    raise self._refusal(k, "spikes", mine.trains[k] != right.trains[k], whole, seen)
                potentials = np.asarray(ours[name])
                if not same_bits(potentials, theirs[name]):
                    differ = potentials.view(np.uint32) != theirs[name].view(np.uint32)
                    raise self._refusal(k, "last bits of potentials", differ, whole, seen)
            if not same_bits(ours["u"], theirs["u"]):
                raise SplitError(f"{self._exchange.size} shards do not compute what the whole network does: answers "
                                 f"differ, though no spike does; take `shards` away")

    def _refusal(self, k: int, what: str, differ: np.ndarray, whole: Looking, seen: np.ndarray) -> SplitError:
        """Builds the error for layer ``k``, which differs; tells with which numbers of shards nothing would.

        Args:
            what: differs.
            differ: where: bool [..., columns].
            seen: in which picture.
        """
        size = self._exchange.size
        odd = [str(rank) for rank, own in enumerate(parts(self._whole[k].shape[-1], size)) if differ[..., own].any()]
        said = (f"{size} shards do not compute what the whole network does: {what} of {self.layers[k].name} differ in "
                f"columns of shard {', '.join(odd)}")
        fit = self._fitting(whole, seen)
        if size in fit:     # so this process would compute those columns as the whole layer's are
            return SplitError(f"{said}, which shard 0 by itself computes rightly; let all run on processors of one "
                              f"kind with the same environment, or take `shards` away")
        return SplitError(f"{said}, since they are added up in another order on this processor; "
                          + (f"take {' or '.join(map(str, fit))} shards, or none" if fit else "take `shards` away"))

    def _fitting(self, whole: Looking, seen: np.ndarray) -> list[int]:
        """Numbers of shards that would get the whole layers' charges of a picture, as far as this process tells."""
        trains = whole.look(seen, whole.rest(), MOST_STEPS).trains
        heard = [current(seen), *(train.astype(np.float32) for train in trains[:-1])]
        most = min(layer.shape[-1] for layer in self._whole)
        return [count for count in COUNTS if count <= most and all(
            agree(layer, inputs[:steps], count, *found_by_trying(layer, inputs.shape[1:], count, [steps]))
            for layer, inputs in zip(self._whole, heard) for steps in FITTING if steps <= len(inputs))]

    def look(self, picture: np.ndarray, state: dict[str, np.ndarray], steps: int, silent: bool = False,
             lesions: Mapping[str, Lesion] = {}) -> Looked:
        """As :meth:`brain_regions.vision.network.Looking.look`; raises what the exchange raises, too."""
        if steps:
            names = [f"v_{layer.name}" for layer in self.layers]
            held = self._kept is not None and all(
                isinstance(state[n], Membrane) and state[n].kept is self._kept for n in names)
            others = b"" if held else b"".join(np.asarray(state[n], np.float32).tobytes() for n in names)
            if not held:
                self._columns.take(self._columns.told(others))
            self._lesioned = frozenset(k for k, layer in enumerate(self.layers) if layer.name in lesions)
            self._tell(LOOK, steps, int(silent), sum(1 << k for k in self._lesioned), len(others),
                       data=others + np.ascontiguousarray(picture).tobytes())
            self._kept = _Kept(self)
        return super().look(picture, state, steps, silent, lesions)

    def _fire(self, k: int, x: np.ndarray, v: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        bits = self._columns.fire(k, x, steps)
        fired = self._columns.of_all(k, bits, steps, everybody=k != self._last and k not in self._lesioned)
        assert fired is not None and self._kept is not None     # this is shard 0, at a look
        return fired.astype(np.float32), fired, Membrane(self._kept, k, fired.shape[1:])    # type: ignore[return-value]

    def _hand_on(self, k: int, fired: np.ndarray) -> None:
        if k != self._last:
            self._exchange.tell(packed(fired).tobytes())

    def collected(self, kept: _Kept) -> list[np.ndarray]:
        """Potentials after a look, by layer.

        Raises:
            SplitError: there was another look since.
        """
        if kept is not self._kept:
            raise SplitError("these potentials are of a picture before the last; the shards have gone on")
        self._tell(COLLECT)
        return self._columns.collected()

    def _tell(self, which: int, *words: int, data: bytes = b"") -> None:
        head = np.zeros(_WORDS, np.int64)
        head[:1 + len(words)] = which, *words
        self._exchange.tell(head.tobytes() + data)


def _answer(content: dict[str, str]) -> np.ndarray:
    text = json.dumps(content).encode()
    return np.frombuffer((text if len(text) <= _ANSWER else json.dumps({
        "error": content.get("error", "")[:100]}).encode()).ljust(_ANSWER), np.uint8).copy()


def serve(exchange: Exchange) -> None:
    """Runs shards 1 and up until their host ends them. Raises what the exchange raises."""
    shard = Shard(exchange)
    while True:
        shard.obey(exchange.hear())


class Shard:
    """One of the shards 1 and up. Who runs another network derives one that has its own :meth:`network`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._columns: Columns | None = None
        self._loaded: Columns | None = None
        self._sizes: list[tuple[int, int, int]] = []

    def network(self, source: Path, layers: list[Any]) -> tuple[Tensors, Sequence[VisionLayer], str]:
        """Weights and layers of the network that shard 0 has loaded, and the hash of where it is from.

        Raises:
            WeightsError: it cannot be loaded, or is another one here.
        """
        if json.dumps(layers) != json.dumps(LAYERS):
            raise WeightsError("its layers have other shapes there")
        loaded = weight_file.load(source)
        return loaded.tensors, LAYERS, loaded.digest

    def obey(self, told: bytes) -> None:
        """Does one thing that shard 0 asks for.

        Raises:
            SplitError: it asks for something else; what the exchange raises.
        """
        which, *words = np.frombuffer(told[:8 * _WORDS], np.int64).tolist()
        data = told[8 * _WORDS:]
        if which == LOAD:
            self._exchange.collect(_answer(self._load(data)), [_ANSWER] * self._exchange.size)
        elif which == USE:
            self._columns, self._loaded = self._loaded, None
        elif which == LOOK and self._columns is not None:
            self._look(self._columns, data, *words)
        elif which == COLLECT and self._columns is not None:
            self._columns.collected()
        else:
            raise SplitError(f"shard 0 asks for {which}, which is nothing that can be done now; it runs other code")

    def _load(self, data: bytes) -> dict[str, str]:
        source, layers, computed = json.loads(data)
        try:
            tensors, made_of, digest = self.network(Path(source), layers)
            self._loaded = Columns(layers_of(tensors, made_of), self._exchange, computed)
        except (WeightsError, ValueError) as error:
            return {"error": str(error)}
        self._sizes = sizes(made_of)
        return {"hash": digest}

    def _look(self, columns: Columns, data: bytes, steps: int, silent: int, lesioned: int, state: int) -> None:
        if len(data) != state + _PICTURE or not 0 < steps:
            raise SplitError(f"shard 0 tells of a picture with {len(data)} bytes for {steps} micro-steps; it runs "
                             f"other code")
        if state:
            columns.take(columns.told(data[:state]))
        x = current(np.frombuffer(data[state:], np.uint8).reshape(HEIGHT, WIDTH, 3))
        for k, (channels, rows, width) in enumerate(self._sizes):
            last, changed = k == len(self._sizes) - 1, lesioned >> k & 1
            fired = columns.of_all(k, columns.fire(k, x, steps), steps, everybody=not last and not changed)
            if last:
                return
            if changed:
                fired = np.empty((steps, rows, width, channels), bool)
                unpacked(np.frombuffer(self._exchange.hear(), np.uint8), fired)
            assert fired is not None    # everybody has it
            x = np.zeros(fired.shape, np.float32) if silent else fired.astype(np.float32)

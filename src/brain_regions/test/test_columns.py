# SPDX-License-Identifier: Apache-2.0
"""Layers split by columns, and vision's network in two and three of them against the whole one, to the bit."""
from __future__ import annotations

import queue
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from brain_regions import columns
from brain_regions.lesions import parse
from brain_regions.vision import Vision, split
from brain_regions.vision import weights as weight_file
from brain_regions.vision.looking import Looking
from brain_regions.vision.network import LAYERS, SpikingVision, sizes

PATIENCE = 60.0
UNHURT = {}, {}

torch.set_num_threads(1)     # as the region has it


class Threads:
    """Shards that are threads of this process: what one puts into a queue, another takes out."""

    def __init__(self, rank: int, boxes: list[list[queue.Queue]]) -> None:
        self.rank, self.size = rank, len(boxes)
        self._boxes = boxes
        self.moved = 0      # bytes that this shard gave in gather() and collect()

    def patiently(self):
        return nullcontext()

    def tell(self, data: bytes) -> None:
        for other in range(1, self.size):
            self._boxes[other][0].put(data)

    def hear(self) -> bytes:
        return self._boxes[self.rank][0].get(timeout=PATIENCE)

    def gather(self, own, lengths):
        assert own.dtype == np.uint8 and own.size == lengths[self.rank]
        self.moved += own.size * (self.size - 1)
        for other in range(self.size):
            if other != self.rank:
                self._boxes[other][self.rank].put(own.copy())
        return [own if r == self.rank else self._boxes[self.rank][r].get(timeout=PATIENCE) for r in range(self.size)]

    def collect(self, own, lengths):
        assert own.dtype == np.uint8 and own.size == lengths[self.rank]
        if self.rank:
            self._boxes[0][self.rank].put(own.copy())
            return []
        return [own, *(self._boxes[0][r].get(timeout=PATIENCE) for r in range(1, self.size))]


@pytest.fixture
def shards():
    """Makes shard 0's exchange with others in threads; they end with the test."""
    started = []

    def make(count: int, serve=split.serve) -> Threads:
        boxes = [[queue.Queue() for _ in range(count)] for _ in range(count)]
        for rank in range(1, count):
            thread = threading.Thread(target=_serve, args=(serve, Threads(rank, boxes)), daemon=True)
            thread.start()
            started.append((thread, boxes[rank][0]))
        return Threads(0, boxes)
    yield make
    for thread, box in started:
        box.put(END)
        thread.join(PATIENCE)
        assert not thread.is_alive()


END = np.full(5, 99, np.int64).tobytes()


def _serve(serve, exchange):
    try:
        serve(exchange)
    except split.SplitError as error:
        assert "asks for 99" in str(error)


def pictures(count: int, seed: int = 3):
    """Patches that move, with noise: layers fire in different numbers from picture to picture."""
    rng, base = np.random.default_rng(seed), weight_file.patches()
    for k in range(count):
        yield np.clip(np.roll(base, 2 * k, 1).astype(int) + rng.integers(-30, 30, base.shape), 0, 255).astype(np.uint8)


def loaded(exchange=None):
    network, _, digest = weight_file.load()
    return split.SplitLooking(network, exchange, (weight_file.SHIPPED, digest)) if exchange else Looking(network)


def compare(ours, theirs, shown, lesions=UNHURT, silent=False):
    """Looks at pictures with both, and holds all that they make to each other."""
    a, b = ours.rest(), theirs.rest()
    for number, picture in enumerate(shown):
        steps = (10, 3, 0, 7, 1)[number % 5]
        seen = ours.look(picture, a, steps, silent, lesions[0])
        right = theirs.look(picture, b, steps, silent, lesions[1])
        assert (seen.spikes, seen.synops) == (right.spikes, right.synops)
        for mine, whole in zip(seen.trains, right.trains):
            np.testing.assert_array_equal(mine, whole)
        a, b = seen.state, right.state
        assert columns.same_bits(a["u"], b["u"])
        if number % 4 == 3:     # now and then, as snapshots do
            assert all(columns.same_bits(np.asarray(a[name]), b[name]) for name in b)
    assert right.spikes > 0 or silent


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_vision_in_parts_is_the_whole_to_the_bit(shards, count):
    made, whole = loaded(shards(count)), loaded()
    try:
        made.check(whole)
    except split.SplitError as error:   # so a region does not start with so many shards on this processor
        assert count > 1 and "differs in last bits, which depend on this processor" in str(error)
        pytest.skip(str(error))
    compare(made, whole, pictures(40))


@pytest.mark.parametrize("kind", ["silent", "drop:0.3", "shuffle", "noise:0.02"])
def test_lesions_are_the_same_in_parts(shards, kind):
    written = [f"{name}={kind}" for name in ("edges", "columns", "wide")]
    both = [parse(written, Vision.populations, "test") for _ in range(2)]
    for lesions in both:
        lesions.draw_by(np.random.default_rng(5))
    compare(loaded(shards(2)), loaded(), pictures(12), lesions=both)


def test_silence_is_the_same_in_parts(shards):
    compare(loaded(shards(2)), loaded(), pictures(8), silent=True)


def test_a_state_of_elsewhere_is_taken_up_and_an_old_one_refused(shards):
    made, whole = loaded(shards(3)), loaded()
    shown = list(pictures(6))
    state, right = made.rest(), whole.rest()
    for picture in shown[:3]:
        state, right = made.look(picture, state, 10).state, whole.look(picture, right, 10).state
    saved = {name: np.array(value, dtype=np.float32) for name, value in state.items()}   # as a snapshot is made
    lost = made.look(shown[3], state, 10).state
    made.look(shown[4], lost, 10)
    with pytest.raises(split.SplitError, match="before the last"):
        np.asarray(lost["v_edges"])
    again, right = made.look(shown[5], saved, 10), whole.look(shown[5], right, 10)
    assert all(columns.same_bits(np.asarray(again.state[name]), right.state[name]) for name in right.state)


def test_spikes_travel_as_one_bit_each(shards):
    exchange = shards(2)
    made = loaded(exchange)
    state = made.look(next(pictures(1)), made.rest(), 10).state
    exchange.moved = 0
    made.look(next(pictures(1)), state, 10)
    neurons = sum(rows * width * channels // 2 for channels, rows, width in sizes()[:-1])
    assert exchange.moved == 10 * neurons // 8


def test_other_weights_there_are_refused_and_named(shards, tmp_path):
    class Other(split.Shard):
        def network(self, source, layers):
            network, _ = super().network(source, layers)
            return network, "another"

    def serve(exchange):
        shard = Other(exchange)
        while True:
            shard.obey(exchange.hear())

    with pytest.raises(weight_file.WeightsError, match="shard 1 cannot use the weights .*hash is another"):
        loaded(shards(2, serve))
    with pytest.raises(weight_file.WeightsError, match="shard 1 cannot use the weights"):
        split.SplitLooking(weight_file.load()[0], shards(2), (Path(tmp_path / "none.safetensors"), "x"))


def test_other_layers_there_are_refused(shards):
    wide = tuple(y._replace(outputs=y.outputs * 2, inputs=y.inputs * (2 if k else 1)) for k, y in enumerate(LAYERS))
    network = SpikingVision(wide).folded()
    with pytest.raises(weight_file.WeightsError, match="shard 1 .*other shapes"):
        split.SplitLooking(network, shards(2), (weight_file.SHIPPED, "x"))


def test_a_split_that_computes_otherwise_is_found_out(shards):
    made, whole = loaded(shards(2)), loaded()
    weight = made._columns._convolutions[3][0]
    weight[0, 0, 0, 0] += 0.5
    with pytest.raises(split.SplitError, match="do not compute what the whole network does"):
        made.check(whole)


def test_more_shards_than_columns_are_refused():
    with pytest.raises(ValueError, match="16 columns cannot be split over 17"):
        columns.parts(16, 17)
    for count, shards in ((64, 3), (16, 5), (7, 7)):
        found = columns.parts(count, shards)
        assert [c for part in found for c in range(part.start, part.stop)] == list(range(count))
        widths = {part.stop - part.start for part in found}
        assert max(widths) - min(widths) <= 1


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (10, 2, 4, 8)])
def test_spikes_come_out_of_bits_as_they_went_in(shape):
    spikes = np.random.default_rng(0).random(shape) < 0.3
    found = np.empty(shape, bool)
    columns.unpacked(columns.packed(spikes), found)
    np.testing.assert_array_equal(found, spikes)
    with pytest.raises(ValueError, match="are not the spikes"):
        columns.unpacked(np.zeros(columns.packed_size(shape) + 1, np.uint8), found)


def test_potentials_of_another_size_are_refused(shards):
    made = loaded(shards(2))
    with pytest.raises(ValueError, match="potentials were told"):
        made._columns.told(b"\0" * 8)

# SPDX-License-Identifier: Apache-2.0
"""Layers split by columns, and vision's network in two to sixteen parts against the whole one, to the bit."""
from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest

from brain_collectives import column_widths, columns, split_vision as split
from brain_regions.lesions import parse
from brain_regions.vision import Vision
from brain_regions.vision import weights as weight_file
from brain_regions.vision.network import LAYERS, Looking, sizes

PATIENCE = 240.0     # s; only ends a hang
UNHURT = {}, {}


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


@contextmanager
def starting():
    """Makes shard 0's exchange with others in threads; they end with it."""
    started = []

    def make(count: int, serve=split.serve) -> Threads:
        boxes = [[queue.Queue() for _ in range(count)] for _ in range(count)]
        for rank in range(1, count):
            thread = threading.Thread(target=_serve, args=(serve, Threads(rank, boxes)), daemon=True)
            thread.start()
            started.append((thread, boxes[rank][0]))
        return Threads(0, boxes)
    try:
        yield make
    finally:
        for _, box in started:
            box.put(END)
        for thread, _ in started:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def shards():
    with starting() as make:
        yield make


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
    tensors, digest = weight_file.load().tensors, weight_file.load().digest
    return split.SplitLooking(tensors, exchange, (weight_file.SHIPPED, digest)) if exchange else Looking(tensors)


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
    assert all(columns.same_bits(np.asarray(a[name]), b[name]) for name in b)
    assert right.spikes > 0 or silent


def equal_in(counts):
    """Vision in so many shards is the whole network, to the bit."""
    whole = loaded()
    for count in counts:
        with starting() as make:
            compare(loaded(make(count)), whole, pictures(5))


@pytest.mark.extended
def test_vision_in_parts_is_the_whole_to_the_bit():
    equal_in((1, *range(2, 9), 16))


def test_over_many_pictures_and_those_of_the_check_too(shards):
    made, whole = loaded(shards(3)), loaded()
    made.check(whole)
    compare(made, whole, pictures(40))


def refused_by_itself(count):
    """What is said of so many shards where each computes its own columns alone; nothing where that does here."""
    found = split.widths, split.found_by_trying
    split.widths = lambda layers, heard, shards, most: [[own_of(layer, shards)] for layer in layers]
    split.found_by_trying = lambda layer, heard, shards, numbers: [own_of(layer, shards)]
    try:
        with starting() as make:
            loaded(make(count)).check(loaded())
    except split.SplitError as error:
        return str(error)
    finally:
        split.widths, split.found_by_trying = found
    return ""


def own_of(layer, shards):
    return -(-layer.shape[-1] // shards)


ELSEWHERE = """
import re
import test_columns as tests
tests.equal_in((3, 5))
said = tests.refused_by_itself(5)
assert not said or re.search("^5 shards do not .* of [a-z]+ differ in columns of shard [0-4].*, since they are added up"
                             " in another order on this processor; take ([0-9]+ .*or none|`shards` away)$", said), said
"""
LIBRARIES = {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}, {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"}


@pytest.mark.extended
@pytest.mark.slow
def test_with_the_kernels_of_other_processors_too():
    """There a shard's own columns alone would have other last bits, and are refused."""
    path = os.pathsep.join(filter(None, sys.path))
    running = [subprocess.Popen([sys.executable, "-c", ELSEWHERE], cwd=Path(__file__).parent, stderr=subprocess.PIPE,
                                env={**os.environ, **library, "PYTHONPATH": path}, text=True) for library in LIBRARIES]
    said = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0] * len(running), said


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
            return *super().network(source, layers)[:2], "another"

    def serve(exchange):
        shard = Other(exchange)
        while True:
            shard.obey(exchange.hear())

    with pytest.raises(weight_file.WeightsError, match="shard 1 cannot use the weights .*hash is another"):
        loaded(shards(2, serve))
    with pytest.raises(weight_file.WeightsError, match="shard 1 cannot use the weights"):
        split.SplitLooking(weight_file.load().tensors, shards(2), (Path(tmp_path / "none.safetensors"), "x"))


def test_other_layers_there_are_refused(shards):
    other = LAYERS.of(y._replace(padding=(0, 2), dilation=(1, 2)) if y.name == "near" else y for y in LAYERS)
    with pytest.raises(weight_file.WeightsError, match="shard 1 .*other shapes"):
        split.SplitLooking(weight_file.load().tensors, shards(2), (weight_file.SHIPPED, "x"), other)


def test_a_split_that_computes_otherwise_is_found_out(shards):
    made, whole = loaded(shards(2)), loaded()
    made._columns._computed[3][-1][0]._weight[0, 0] += 0.5
    with pytest.raises(split.SplitError, match="do not compute what the whole network does: .* of columns differ in "
                                               "columns of shard 0, which shard 0 by itself computes rightly"):
        made.check(whole)


def test_widths_hold_the_own_columns_and_no_more_than_there_are():
    for own, of in ((3, 24), (22, 64), (16, 16), (1, 5), (13, 64)):
        found = column_widths.candidates(own, of)
        assert found == sorted(set(found)) and found[0] == own and found[-1] == of
    assert column_widths.candidates(13, 64) == [13, 16, 32, 64] and column_widths.candidates(3, 24) == [3, 4, 8, 16, 24]
    for own in columns.parts(24, 5):
        wide = columns.window(own, 8, 24)
        assert 0 <= wide.start <= own.start and own.stop <= wide.stop <= 24 and wide.stop - wide.start == 8
    for width in (3, 25):
        with pytest.raises(ValueError, match=f"{width} columns cannot be computed for 5 of 24"):
            columns.window(slice(0, 5), width, 24)


def test_more_shards_compute_less_each():
    layers, heard = split.layers_of(weight_file.load().tensors), (80, 128, 4)
    found = {count: [at_once[-1] for at_once in column_widths.widths(layers, heard, count, 10)] for count in (2, 4, 8)}
    for count, computed in found.items():
        for layer, width in zip(layers, computed):
            assert -(-layer.shape[-1] // count) <= width <= layer.shape[-1]
    if "openblas" in np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]:    # as on all that were tried
        assert [found[count][-1] for count in found] == [48, 24, 12]


def test_widths_of_other_layers_are_refused():
    layers = split.layers_of(weight_file.load().tensors)
    for told in ([[8]], [[]] * len(layers), [[8]] * len(layers)):
        with pytest.raises(ValueError, match="are told of|cannot be computed"):
            columns.Columns(layers, Threads(0, [[]] * 2), told)


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

# SPDX-License-Identifier: Apache-2.0
"""Convolutions driven by events answer what the sum says, to the same bits however many micro-steps come at once."""
import numpy as np
import pytest

from brain_regions import convolutions
from brain_regions.convolutions import LANES, Convolving
from brain_regions.vision import fovea
from brain_regions.vision.network import LAYERS, sizes

ALL = [(layers, k) for layers in (LAYERS, fovea.LAYERS) for k in range(len(layers))]


@pytest.fixture(autouse=True)
def built():
    if convolutions.by_events() is None:
        pytest.skip(f"{convolutions.LIBRARY.name} was not built: there was no C compiler")


def made(layer, rng, **how):
    weight = rng.normal(0.0, 0.1, (layer.outputs, layer.inputs, *layer.kernel)).astype(np.float32)
    return weight, Convolving(weight, weight[:, 0, 0, 0], layer.stride, layer.padding, layer.dilation, **how)


def heard(layers, k, rng, pictures=3, share=0.2):
    channels, rows, columns = (layers[0].inputs, *layers.size) if k == 0 else sizes(layers)[k - 1]
    x = rng.random((pictures, rows, columns, channels)) < share
    return x.astype(np.float32) * (rng.normal(size=x.shape).astype(np.float32) if k == 0 else 1.0)


@pytest.mark.parametrize("layers, k", ALL, ids=[layers[k].name for layers, k in ALL])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_what_events_cause_is_what_the_matrix_product_says(layers, k, share):
    rng = np.random.default_rng(k)
    weight, events = made(layers[k], rng)
    product = Convolving(weight, weight[:, 0, 0, 0], layers[k].stride, layers[k].padding, layers[k].dilation,
                         compiled=False)
    x = heard(layers, k, rng, share=share)
    told, wanted = events(x), product(x)
    assert told.shape == wanted.shape and told.dtype == np.float32
    np.testing.assert_allclose(told, wanted, rtol=0, atol=2e-5)
    for one in range(len(x)):
        assert events(x[[one]]).tobytes() == told[[one]].tobytes()


def test_a_sum_is_added_in_the_order_of_rows_columns_and_channels():
    rng = np.random.default_rng(5)
    layer = LAYERS[2]
    weight, events = made(layer, rng)
    x = heard(LAYERS, 2, rng, pictures=1, share=0.3)
    told, padded = events(x)[0], np.pad(x[0], ((1, 1), (1, 1), (0, 0)))
    for row, column in ((0, 0), (4, 31), (9, 63)):
        total = weight[:, 0, 0, 0].copy()
        for i in range(3):
            for j in range(3):
                for channel in np.flatnonzero(padded[2 * row + i, column + j]):
                    total += weight[:, channel, i, j]
        assert told[row, column].tobytes() == total.tobytes()


@pytest.mark.parametrize("outputs", [1, LANES - 1, LANES + 1, 6 * LANES + 5])
def test_outputs_that_are_no_multiple_of_the_lanes_have_the_bits_of_more(outputs):
    rng = np.random.default_rng(6)
    weight, more = made(LAYERS[1]._replace(outputs=7 * LANES), rng)
    layer, x = LAYERS[1], heard(LAYERS, 1, rng)
    some = Convolving(weight[:outputs], weight[:outputs, 0, 0, 0], layer.stride, layer.padding, layer.dilation)
    told = some(x)
    assert told.flags.c_contiguous and told.tobytes() == np.ascontiguousarray(more(x)[..., :outputs]).tobytes()


def test_channels_of_other_weights_are_refused():
    _, events = made(LAYERS[1], np.random.default_rng(7))
    with pytest.raises(ValueError, match="17 channels"):
        events(np.zeros((1, 40, 64, 17), np.float32))


def test_it_goes_on_without_what_is_compiled(monkeypatch, tmp_path):
    convolutions.by_events.cache_clear()
    monkeypatch.setattr(convolutions, "LIBRARY", tmp_path / "none.so")
    try:
        rng = np.random.default_rng(8)
        _, product = made(LAYERS[1], rng)
        assert convolutions.by_events() is None and product(heard(LAYERS, 1, rng)).shape == (3, 20, 64, 24)
    finally:
        monkeypatch.undo()
        convolutions.by_events.cache_clear()

# SPDX-License-Identifier: Apache-2.0
"""From answers of columns to objects, what is counted, and the network that runs beside the one that is trained."""
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from brain_regions.vision import decode as decoding
from brain_regions import circuits
from brain_regions.membranes import decay
from brain_regions.vision.network import (ASIDE, ASIDE_UNIT, COLOR, COLUMNS, DISTANCE, EXTENT, HEIGHT, INPUTS, LAYERS,
                                          LAYERS_READ, MICRO_STEP, NEURON, OBJECT, OUTPUTS, RESOLUTION, ROWS, SHAPE,
                                          SLOTS, TOP, WIDTH, circuit, column_angles, directions, sizes)
from brain_training.definitions import vision as definition
from brain_training.definitions.vision import SpikingVision, carried, prepare, tensors

ANGLES = column_angles()


def decode(answer):
    """Objects as a camera 1 m above the floor sees them."""
    return decoding.decode(answer, 1.0)


def answer(*objects, behind=()):
    """A readout whose columns ``first..last`` surely say an object of a color and a shape, and others ``behind``."""
    return np.concatenate([slot(objects), slot(behind)])


def slot(objects):
    assert SLOTS == 2
    u = np.zeros((ROWS, COLUMNS))
    u[OBJECT] = -9.0
    for first, last, color, shape, bearing, distance, width in objects:
        here = slice(first, last + 1)
        u[OBJECT, here] = 5.0
        u[COLOR, here], u[SHAPE, here] = -5.0, -5.0
        u[COLOR.start + color, here] = u[SHAPE.start + shape, here] = 5.0
        u[ASIDE, here] = (bearing - ANGLES[here]) / ASIDE_UNIT
        u[DISTANCE, here], u[EXTENT, here] = math.log(distance), math.log(width)
    return u


def test_nothing_is_seen_where_no_column_is_sure():
    assert decode(answer()) == []


def test_columns_that_vote_for_one_center_are_one_object():
    (found,) = decode(answer((10, 20, 2, 1, 0.4, 1.5, 0.3)))
    assert (found.color, found.shape) == (2, 1) and found.confidence > 0.95
    assert found[3:] == pytest.approx((0.4, 1.5, 0.3), abs=1e-6)


def test_neighbours_of_other_colors_or_places_stay_apart():
    found = decode(answer(
        (10, 14, 0, 0, 0.5, 2.0, 0.2), (15, 19, 1, 0, 0.35, 2.0, 0.2), (30, 33, 0, 0, -0.3, 3.0, 0.1)))
    assert sorted((f.color, round(f.bearing, 2)) for f in found) == [(0, -0.3), (0, 0.5), (1, 0.35)]


def test_over_a_near_object_a_far_one_is_seen_even_of_its_color():
    near, far = (10, 30, 2, 1, 0.1, 0.8, 0.6), (18, 20, 2, 0, 0.2, 3.0, 0.1)
    found = decode(answer(near, behind=[far]))
    assert [(f.color, f.shape, round(f.distance, 2)) for f in sorted(found, key=lambda f: f.distance)] == [
        (2, 1, 0.8), (2, 0, 3.0)]


def test_a_far_object_that_changes_slots_behind_a_near_one_is_still_one():
    near = (10, 19, 0, 1, 0.5, 0.8, 0.4)
    found = decode(answer(near, (20, 24, 1, 0, 0.1, 3.0, 0.2), behind=[(16, 19, 1, 0, 0.1, 3.0, 0.2)]))
    assert sorted((f.color, round(f.bearing, 2)) for f in found) == [(0, 0.5), (1, 0.1)]


def test_a_column_that_is_unsure_of_the_shape_is_outvoted():
    u = answer((20, 25, 3, 2, 0.0, 1.0, 0.4))
    u[SHAPE, 22] = 0.1, 0.0, 0.0, 0.0, 0.0
    (found,) = decode(u)
    assert found.shape == 2


def test_the_surest_comes_first():
    u = answer((5, 8, 0, 0, 0.6, 2.0, 0.1), (40, 43, 1, 1, -0.6, 2.0, 0.1))
    u[OBJECT, 5:9] = 1.0
    assert [f.color for f in decode(u)] == [1, 0]


def test_distances_are_in_heights_of_the_camera_and_what_has_no_name_is_not_told():
    u = answer((10, 20, 2, 1, 0.4, 1.5, 0.3))
    assert [one.distance for one in decoding.decode(u, 0.2)] == pytest.approx([0.3])
    for color, kind in ((4, 1), (7, 0), (0, 3), (2, 4)):      # orange, black; a cone, another thing
        assert decode(answer((10, 20, color, kind, 0.4, 1.5, 0.3))) == []


def test_what_has_a_color_and_no_sure_kind_is_a_thing_of_that_color_where_it_is_asked_for():
    something = 0.6
    for color, kind in ((0, 3), (2, 4)):        # a red cone, another blue thing
        (found,) = decoding.decode(answer((10, 20, color, kind, 0.4, 1.5, 0.3)), 1.0, something)
        assert (found.color, found.shape) == (color, decoding.ANY) and found.confidence > 0.95
    unsure = answer((20, 25, 3, 2, 0.0, 1.0, 0.4))
    unsure[SHAPE, 20:26] = np.array([0.0, 0.2, 0.3, -9.0, -9.0])[:, None]
    (found,) = decode(unsure)
    assert found.shape == 2 and found.confidence < something
    (found,) = decoding.decode(unsure, 1.0, something)
    assert (found.color, found.shape) == (3, decoding.ANY) and found.confidence > 0.95
    (found,) = decoding.decode(answer((10, 20, 2, 1, 0.4, 1.5, 0.3)), 1.0, something)
    assert found.shape == 1
    assert decoding.decode(answer((10, 20, 4, 1, 0.4, 1.5, 0.3)), 1.0, something) == []     # orange


def test_no_answer_makes_it_fail():
    """Whatever the readout says, every number told is finite and in range."""
    rng = np.random.default_rng(0)
    for scale in (1.0, 100.0, 1e30):
        for found in decode(rng.normal(0.0, scale, (OUTPUTS, COLUMNS))):
            assert 0.0 <= found.confidence <= 1.0 and abs(found.bearing) <= math.pi / 2
            assert all(math.isfinite(value) and value > 0 for value in (found.distance, found.width))


def test_columns_are_equal_in_azimuth_and_rows_in_elevation():
    azimuth = np.arctan2(directions()[..., 1], directions()[..., 0])
    elevation = np.arcsin(directions()[..., 2])
    assert np.allclose(np.diff(azimuth, axis=1), -RESOLUTION) and np.allclose(np.diff(elevation, axis=0), -RESOLUTION)
    assert azimuth[:, 0] == pytest.approx(math.radians(60) - RESOLUTION / 2) and np.allclose(azimuth, -azimuth[:, ::-1])
    assert elevation[0] == pytest.approx(TOP - RESOLUTION / 2)
    assert elevation[-1] == pytest.approx(math.radians(-60) + RESOLUTION / 2)
    assert np.allclose(azimuth[0].reshape(COLUMNS, -1).mean(1), ANGLES)


@pytest.mark.parametrize("number", range(len(LAYERS)))
def test_a_spike_counts_as_many_operations_as_it_has_synapses(number):
    """Against the network itself: what one spike changes downstream, with all weights 1."""
    generator = torch.Generator().manual_seed(number)
    trains = [torch.zeros(1, 1, *size) for size in sizes()]
    place = [int(torch.randint(0, n, (), generator=generator)) for n in sizes()[number]]
    trains[number][0, 0, place[0], place[1], place[2]] = 1.0
    expected = OUTPUTS if number in LAYERS_READ else 0
    if number + 1 < len(LAYERS):
        layer = LAYERS[number + 1]
        reached = F.conv2d(trains[number][0], torch.ones(layer.outputs, layer.inputs, *layer.kernel), None,
                           layer.stride, layer.padding, layer.dilation)
        expected += int(reached.sum())
    looking = SpikingVision().folded().live()
    counted = [looking.count(k, train[0].movedim(1, -1).numpy() > 0) for k, train in enumerate(trains)]
    assert [sum(each) for each in zip(*counted)] == [1, expected]


def test_the_first_layer_takes_as_many_multiplications_as_it_has_synapses():
    layer = LAYERS[0]
    ones = F.conv2d(torch.ones(1, INPUTS, HEIGHT, WIDTH), torch.ones(layer.outputs, INPUTS, *layer.kernel), None,
                    layer.stride, layer.padding)
    assert SpikingVision().folded().live().multiplies == int(ones.sum())


def test_more_micro_steps_than_a_byte_counts_are_counted():
    looking, rng = SpikingVision().folded().live(), np.random.default_rng(0)
    channels, rows, columns = sizes()[3]
    fired = rng.random((600, rows, columns, channels)) < 0.7
    spikes, synops = looking.count(3, fired)
    assert spikes == fired.sum()
    each = circuits.fan_outs(circuit(tensors(SpikingVision().folded())))[LAYERS[3].name]
    assert synops == pytest.approx(float((fired.sum(0).transpose(2, 0, 1) * each).sum()), rel=1e-6)


def test_the_first_layer_is_driven_by_black_and_later_ones_by_their_biases():
    """What docs/evidence.md says of black pictures: channels whose constant current makes neurons fire."""
    convolutions = definition.load()[0].convolutions
    enough = NEURON.threshold * (1 - decay(NEURON.tau, MICRO_STEP))
    weight = convolutions[0].weight.detach().sum((2, 3))
    kernels, biases = weight[:, :3].sum(1), weight[:, 3] + convolutions[0].bias.detach()     # and that it sees there
    driven = [int((kernels * (gray / 127.5 - 1) + biases > enough).sum()) for gray in (1, 85, 110, 255)]
    assert driven == [11, 9, 8, 6] and int((kernels < 0).sum()) == 12
    by_bias = [int((c.bias > enough).sum()) for c in convolutions[2:]]
    assert (sum(by_bias), sum(len(c.bias) for c in convolutions[2:]), by_bias[-1]) == (151, 336, 55)


def test_only_a_folded_network_is_run():
    with pytest.raises(ValueError, match="folded"):
        SpikingVision().live()


def test_folding_the_normalization_changes_nothing():
    torch.manual_seed(0)
    network = SpikingVision()
    image = prepare(torch.randint(0, 256, (2, HEIGHT, WIDTH, 3), dtype=torch.uint8))
    with torch.no_grad():
        network.train().steady = True
        network(image, network.rest(2), 6)     # so that the running means are not 0 and 1
        network.eval()
        convolution, norm = network.convolutions[0], network.norms[0]
        folded = network.folded()
        torch.testing.assert_close(folded.convolutions[0](image), norm(convolution(image)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("silent", [False, True])
def test_the_network_that_runs_is_the_one_that_is_trained(silent):
    network, _ = definition.load()
    looking, rng = network.live(), np.random.default_rng(1)
    ours, theirs = looking.rest(), network.rest()
    for steps in (10, 4, 0, 6):
        picture = rng.integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3), np.uint8).repeat(8, 0).repeat(8, 1)
        picture[:, :20] = 0     # where a camera does not see
        before = {name: value.copy() for name, value in ours.items()}
        looked = looking.look(picture, ours, steps, silent)
        assert all(np.array_equal(ours[name], value) for name, value in before.items())
        with torch.no_grad():
            begins = carried(theirs) if steps else theirs
            theirs, trains = network(prepare(torch.from_numpy(picture))[None], begins, steps, silent)
        ours = looked.state
        for layer, fired, train in zip(LAYERS, looked.trains, trains):
            train = train[:, 0].movedim(1, -1).numpy()
            assert fired.shape == train.shape and (silent or not steps or train.any())
            # a membrane that is at its threshold may go either way, where sums are taken in another order
            assert np.count_nonzero(fired != train) <= 1e-3 * train.size
            near = np.isclose(ours[f"v_{layer.name}"], theirs[f"v_{layer.name}"][0].movedim(0, -1), atol=1e-3)
            assert near.mean() > 0.99
        assert looked.spikes == sum(train.sum() for train in looked.trains)
        np.testing.assert_allclose(ours["u"].T, theirs["u"][0], atol=0.02)

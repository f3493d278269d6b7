# SPDX-License-Identifier: Apache-2.0
"""Directions and pixels of cameras."""
import math

import numpy as np
import pytest

from brain_runtime.contract.images import Lens, LensError, lens
from brain_runtime.contract.optics import Mount
from brain_wire.messages import make

DEGREE = math.pi / 180


def rays(azimuth, elevation):
    return np.array([math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth),
                     math.sin(elevation)])


def pinhole(columns, rows, view, **more):
    return Lens(columns / 2 / math.tan(view * DEGREE / 2), columns, rows, columns / 2, rows / 2, **more)


def test_signs_are_those_of_rep_103():
    ahead = np.array([1.0, 0.0, 0.0])
    assert (Mount(pitch=0.2).turned() @ ahead)[2] < 0               # positive down
    left = np.array([0.0, 1.0, 0.0])
    assert (Mount(roll=0.2).turned() @ left)[2] > 0                 # its right side down
    camera = pinhole(640, 480, 62)
    assert (camera.project(rays(0.1, 0.1)) < (320, 240)).all()     # to the left, and up


def info(model="plumb_bob", d=(0.0,) * 5, **more):
    k = [500.0, 0, 319.5, 0, 500.0, 239.5, 0, 0, 1]
    return make("sensor_msgs/msg/CameraInfo", width=640, height=480, distortion_model=model, d=list(d), k=k, **more)


def test_distortion_is_that_of_its_papers():
    """Points that were computed by hand from the formulas."""
    bent = lens(info(d=(-0.3, 0.1, 0.01, -0.005, 0.0)), (640, 480), 1.0)
    x, y = 0.4, 0.3     # to the right and down, r^2 = 0.25
    scale = 1 - 0.3 * 0.25 + 0.1 * 0.0625
    at = bent.project(np.array([1.0, -x, -y]))
    assert at == pytest.approx([320 + 500 * (x * scale + 2 * 0.01 * x * y - 0.005 * (0.25 + 2 * x * x)),
                                240 + 500 * (y * scale + 0.01 * (0.25 + 2 * y * y) + 2 * -0.005 * x * y)])
    fish = lens(info("equidistant", (0.02, -0.01, 0.0, 0.0)), (640, 480), 1.0)
    angle = 1.2
    shown = angle * (1 + 0.02 * angle ** 2 - 0.01 * angle ** 4)
    assert fish.project(np.array([math.cos(angle), -math.sin(angle), 0.0])) == pytest.approx([320 + 500 * shown, 240])


def test_what_folds_back_is_not_seen():
    """Beyond where the formula turns back, a direction has no pixel."""
    folded = pinhole(640, 480, 62, distortion=(-0.3, 0.0, 0.0, 0.0, 0.0))
    assert np.isfinite(folded.project(rays(0.8, 0.0))).all()
    assert np.isnan(folded.project(rays(1.1, 0.0))).all()
    assert np.isnan(folded.project(np.array([-1.0, 0.1, 0.1]))).all()


@pytest.mark.parametrize(("model", "d", "says"), [
    ("thin_prism", (0.1,) * 4, "thin_prism"), ("plumb_bob", (0.1,) * 3, "4 or 5 finite"),
    ("equidistant", (0.1,) * 5, "has 4 finite"), ("plumb_bob", (math.nan,) * 5, "finite")])
def test_a_distortion_that_cannot_be_is_named(model, d, says):
    with pytest.raises(LensError, match=says):
        lens(info(model, d), (640, 480), 1.0)
    assert lens(info(model, d), (640, 480), 1.0, rectified=True).distortion == ()
    assert lens(info("", ()), (640, 480), 1.0).distortion == ()

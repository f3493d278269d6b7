# SPDX-License-Identifier: Apache-2.0
"""Directions round the robot: bins, bumps, hazard maps, and numbers from outside."""
import math
from types import SimpleNamespace

import numpy as np
import pytest

from brain_regions import azimuth
from brain_regions.azimuth import BINS, CENTERS, WIDTH
from brain_runtime.contract.azimuth import yaw_of

DEGREES = np.degrees(CENTERS)
INF, NAN = math.inf, math.nan


def at(*bins, height=1.0):
    found = np.zeros(BINS, np.float32)
    found[list(bins)] = height
    return found


def test_bins_are_ten_degrees_wide_and_begin_ahead():
    assert BINS == 36 and math.degrees(WIDTH) == pytest.approx(10.0) and CENTERS.dtype == np.float32
    assert DEGREES == pytest.approx([*range(0, 180, 10), *range(-180, 0, 10)], abs=1e-4)
    np.testing.assert_allclose(azimuth.COS + 1j * azimuth.SIN, np.exp(1j * np.radians(10.0 * np.arange(36))), atol=1e-6)
    assert math.degrees(azimuth.BUMP) == pytest.approx(12.0)


@pytest.mark.parametrize("angle", [-9.0, -math.pi, -3.0, 0.0, 0.1, 3.1, math.pi, 7.0])
def test_angles_are_wrapped(angle):
    found = azimuth.wrap(angle)
    assert -math.pi <= found < math.pi and np.exp(1j * found) == pytest.approx(np.exp(1j * angle))
    assert azimuth.wrap(np.array([angle, 0.5])).tolist() == [found, azimuth.wrap(0.5)]


def test_numbers_from_outside_are_sound_up_to_a_billion():
    assert azimuth.sound() and azimuth.sound(0.0, -1e9, 1e9)
    for wrong in (NAN, INF, -INF, 1.01e9, -1.01e9):
        assert not azimuth.sound(wrong) and not azimuth.sound(0.0, wrong) and not azimuth.sound(wrong, 0.0)


def test_a_bump_is_highest_at_its_direction_and_tells_it():
    bump = azimuth.bump(0.0)
    assert bump.dtype == np.float32 and bump == pytest.approx(np.exp(-0.5 * (DEGREES / 12.0) ** 2), abs=1e-6)
    assert azimuth.bump(math.radians(-170.0), 0.5) == pytest.approx(0.5 * np.roll(bump, -17), abs=1e-6)
    for angle in (*np.linspace(-3.1, 3.1, 23), math.pi / 2, -math.pi / 2):
        assert abs(azimuth.wrap(azimuth.direction(azimuth.bump(angle)) - angle)) <= 0.03


def test_a_direction_is_that_of_the_highest_peak_alone():
    assert math.isnan(azimuth.direction(np.zeros(BINS))) and math.isnan(azimuth.direction(np.full(BINS, -1.0)))
    for middle in (0, 9, 18, 35):
        for beside, share in ((0, 0.0), (1, 1.0), (2, 1.0), (3, 0.0), (-1, 1.0), (-2, 1.0), (-3, 0.0), (18, 0.0)):
            there = at(middle)
            there[(middle + beside) % BINS] += 0.5 if beside else 0.0
            turn = 0.5 * np.exp(1j * math.radians(10.0 * beside)) if share else 0.0
            wanted = CENTERS[middle] + np.angle(1.0 + turn)
            assert azimuth.wrap(azimuth.direction(there) - wanted) == pytest.approx(0.0, abs=1e-5)


def test_hazard_points_lie_where_the_message_says():
    assert azimuth.hazard_points(np.zeros(BINS), 0.18).shape == (0, 2)
    assert azimuth.hazard_points(at(3, 7, height=0.02), 0.18).shape == (0, 2)
    hazard = at(9, height=0.7) + at(20, height=0.03)
    points = azimuth.hazard_points(hazard, 0.18)
    places = points @ np.array([1.0, 1j])
    assert np.abs(places) == pytest.approx([0.48] * 3 + [1.15] * 3)    # 0.3 m from the edge, and 0.97 m
    assert np.degrees(np.angle(places)) == pytest.approx([86.5, 90.0, 93.5, -163.5, -160.0, -156.5], abs=1e-3)


def test_a_map_that_tells_of_something_is_hazardous():
    for hazard, told in ((np.zeros(BINS), False), (np.full(BINS, NAN), False), (at(35, height=1e-3), True),
                         (at(0, height=-1.0), False), (at(4) * NAN, False)):
        assert azimuth.hazardous(SimpleNamespace(hazard=hazard)) is told


def test_a_map_from_outside_is_cut_to_what_it_can_say():
    sent = at(1, height=0.25)
    sent[2:7] = NAN, INF, -INF, 7.0, -2.0
    found = azimuth.sound_map(sent.tolist())
    assert found.dtype == np.float32 and found[:8].tolist() == [0.0, 0.25, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    assert not found[8:].any() and not azimuth.sound_map([0.0] * BINS).any()


def test_values_of_headings_from_outside():
    value, heading = np.arange(BINS, dtype=np.float32), CENTERS.copy()
    value[:5], value[34:] = (NAN, INF, -INF, 1.1e9, -1.1e9), (1e9, -1e9)
    half = WIDTH / 2
    heading[5:13] += [half, -half, half + 5e-4, half + 1.5e-3, -half - 1.5e-3, 2 * math.pi, NAN, 1e10]
    values, headings = azimuth.sound_values(value.tolist(), heading.tolist())
    assert values.dtype == headings.dtype == np.float32
    assert values.tolist() == [-INF] * 5 + list(range(5, 34)) + [1e9, -1e9]
    moved = np.zeros(BINS)
    moved[5:8] = WIDTH / 2, -WIDTH / 2, WIDTH / 2 + 5e-4
    assert headings - CENTERS == pytest.approx(moved, abs=1e-5)     # else the bin's middle


@pytest.mark.parametrize(("roll", "pitch", "yaw"), [(0, 0, 0), (0, 0, 1), (0, 0, -3), (0.3, 0, 2), (0, 0.4, -1),
                                                    (-0.5, 0.6, 0.7), (1.0, -0.8, -2.5)])
def test_a_yaw_is_read_of_any_orientation(roll, pitch, yaw):
    def turned(q, angle, axis):
        c, s = math.cos(angle / 2), math.sin(angle / 2)
        a = np.array([c, *(s * np.eye(3)[axis])])
        w = q[0] * a[0] - q[1:] @ a[1:]
        return np.array([w, *(q[0] * a[1:] + a[0] * q[1:] + np.cross(q[1:], a[1:]))])

    q = np.array([1.0, 0.0, 0.0, 0.0])
    for angle, axis in ((yaw, 2), (pitch, 1), (roll, 0)):
        q = turned(q, angle, axis)
    assert yaw_of(SimpleNamespace(w=q[0], x=q[1], y=q[2], z=q[3])) == pytest.approx(yaw)

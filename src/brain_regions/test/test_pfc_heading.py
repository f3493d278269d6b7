# SPDX-License-Identifier: Apache-2.0
"""How the prefrontal cortex draws a heading among those that place values."""
import math

import numpy as np

from brain_regions.azimuth import BINS, CENTERS, WIDTH, direction, sound_values, wrap
from brain_regions.pfc import feedback, heading
from brain_regions.sensed import ways_told


def fan(*ways):
    """HeadingValues as place tells them: of every heading what is left of the best way after setting out there."""
    return ways_told(*((float(angle), max(worth - 0.7 * (1.0 - math.cos(angle - way)) for way, worth in ways))
                       for angle in CENTERS))


WAYS = sound_values(*(getattr(fan((math.radians(20), 1.0), (2.5, 0.7)), field) for field in ("value", "heading")))


def draws(temperature, number=2000, seed=0):
    """Numbers of the headings that are drawn, each draw a new one."""
    state, rng = heading.empty(), np.random.default_rng(seed)
    return [int(np.argmax(heading.drawn(state, *WAYS, 0.0, temperature, heading.HOLD, rng))) for _ in range(number)]


def test_the_temperature_decides_how_often_the_best_heading_is_not_taken():
    """Inside the range that the feedback reaches, 0.95 where one is certain to 20 where nothing is known."""
    best = int(np.argmax(WAYS[0]))
    temperatures = feedback.temperature(1.0), 5.0, feedback.temperature(0.0)
    shares = [np.bincount(draws(t), minlength=BINS) / 2000 for t in temperatures]
    cold, middle, hot = (feedback.entropy(share) for share in shares)
    assert cold < middle - 0.2 and middle < hot - 0.2 and hot > 1.0
    assert shares[0][best] > 0.7 > shares[1][best] + 0.2 > shares[2][best] + 0.3
    worth = [float(share @ WAYS[0]) for share in shares]
    assert WAYS[0].max() - worth[0] < 0.01 < WAYS[0].max() - worth[2] < 0.4     # m: what a draw costs
    for temperature, share in zip(temperatures, shares):
        np.testing.assert_allclose(share, heading.odds(WAYS[0], temperature), atol=0.04)


def test_a_draw_is_kept_for_a_while_also_while_the_robot_turns():
    state, rng, hot = heading.empty(), np.random.default_rng(3), feedback.temperature(0.0)
    way = direction(heading.drawn(state, *WAYS, 0.0, hot, 0.1, rng))
    noise = state["draw"][:BINS].copy()
    for k in range(1, 8):       # for 0.8 s
        turned = k * WIDTH
        taken = direction(heading.drawn(state, np.roll(WAYS[0], -k), CENTERS, turned, hot, 0.1, rng))
        assert abs(wrap(taken + turned - way)) < 0.06 and (state["draw"][:BINS] == noise).all()
    heading.drawn(state, *WAYS, 0.0, hot, 0.11, rng)
    assert not (state["draw"][:BINS] == noise).any()
    assert len({int(np.argmax(heading.drawn(state, *WAYS, 0.0, hot, 0.8, rng))) for _ in range(100)}) > 2


def test_a_way_that_is_no_more_is_let_go_of_at_once():
    state, rng = heading.empty(), np.random.default_rng(0)
    heading.drawn(state, *WAYS, 0.0, 0.95, 0.1, rng)
    values = np.where(np.abs(wrap(CENTERS - 0.3)) < 1.2, -np.inf, WAYS[0]).astype(np.float32)
    offer = heading.drawn(state, values, WAYS[1], 0.0, 0.95, 0.1, rng)
    assert abs(wrap(direction(offer) - 2.5)) < 0.3
    assert not heading.drawn(state, np.full(BINS, -np.inf, np.float32), WAYS[1], 0.0, 0.95, 0.1, rng).any()

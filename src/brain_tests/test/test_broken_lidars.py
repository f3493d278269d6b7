# SPDX-License-Identifier: Apache-2.0
"""The shipped brain in the simulator with a lidar that is broken or has a convention of its own."""
import math

import numpy as np
import pytest

from brain_eval.episodes import Referee, play, resolved_for
from brain_runtime.hosts.local import LocalHost
from brain_runtime.interfaces import GoalStatus
from brain_sim.suite import episodes
from brain_tests.cases import of_all

BEAMS = np.arange(180)
POSTS = np.isin(BEAMS, (67, 68, 112, 113))
OWN = [-0.85, -0.7, 0.18, 0.7, 0.9, 0.18]
KINDS = {   # what becomes of the ranges, from when on (s), what the profile says, and of what people are told
    "dead": (lambda r, rng: np.full_like(r, math.inf), 1.5, {}, "lidar measures nothing"),
    "zeros": (lambda r, rng: np.zeros_like(r), 0.0, {}, "zero_is_far"),
    "one beam": (lambda r, rng: np.where(BEAMS == 40, r, math.inf), 0.0, {}, "lidar measures nothing"),
    "left half": (lambda r, rng: np.where(BEAMS > 90, math.nan, r), 0.0, {}, "the way ahead"),
    "posts": (lambda r, rng: np.where(POSTS, rng.normal(0.15, 0.004, 180), r), 0.0, {}, "own: ["),
    "posts that are known": (lambda r, rng: np.where(POSTS, rng.normal(0.15, 0.004, 180), r), 0.0,
                             {"scan_own": OWN}, ""),
}


class Enough(Exception):
    """The episode has lasted long enough."""


@pytest.mark.slow
@of_all(KINDS)
def test_a_broken_lidar_is_named_and_nothing_is_said_that_is_not_so(kind):
    spoil, since, body, says = KINDS[kind]
    episode = episodes("val", 4)[3]     # the target is behind the robot
    resolved = resolved_for(episode, parameters={n: body for n in ("pfc", "place", "motor", "brainstem")})
    regions = resolved.make()
    host = LocalHost(regions, seed=episode.seed, critical=resolved.critical, parameters=resolved.parameters())
    world, rng = regions["world"], np.random.default_rng(1)
    publish = world._publish

    def spoilt(stamp):
        out = publish(stamp)
        if "scan" in out and host.now >= since:
            out["scan"].ranges = spoil(out["scan"].ranges, rng).astype(np.float32)
        return out
    world._publish = spoilt
    goals, beats, referee = [], [], Referee(episode.id)
    host.listen("goal/status", goals.append)
    host.listen("brain/heartbeat", lambda m: beats.append(m.reason) if m.name == "/brainstem" else None)
    host.listen("sim/verdict", lambda m: referee.hear(m.data))

    told = math.inf     # when people knew

    def look(passed):
        nonlocal told
        if goals and beats and says in goals[-1].reason and says in beats[-1]:
            told = min(told, passed)
        if says and passed > min(told + 1.5, 7.0):
            raise Enough
    try:
        play(host, episode, episode.script, referee, look)
    except Enough:
        pass
    result = referee.result(episode)
    assert not world.simulation.contacts
    if not says:
        assert result["success"] and not any(beats), result
        return
    assert says in goals[-1].reason, goals[-1]
    assert says in beats[-1], beats[-1]
    assert not {GoalStatus.STATE_REACHED, GoalStatus.STATE_NOT_FOUND} & {goal.state for goal in goals}

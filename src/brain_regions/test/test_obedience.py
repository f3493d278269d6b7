# SPDX-License-Identifier: Apache-2.0
"""Obedience: a base that does not do what it is told, by odometry alone; with the rest of the brainstem, see there."""
import itertools
import math

import numpy as np
import pytest

from brain_regions.beams import read
from brain_regions.obedience import BLOCKED, DIED, HEARTBEATS, Obedience, disobeyed
from brain_runtime.contract.inbox import Inbox, make_slot
from brain_wire import messages


def obeys(poses, told=(0.0, -0.2), scans=(None,)):
    """What is found of a base by the poses that odometry says, 10 a second."""
    base = Obedience()
    return [base.take(pose, told, scan, k / 10) for k, (pose, scan) in enumerate(zip(poses, itertools.cycle(scans)))]


@pytest.mark.parametrize("away", [{"pose": None}, {"told": (0.0, 0.0)}], ids=["odometry", "command"])
def test_after_a_while_without_odometry_or_command_the_base_is_given_time_again(away):
    base = Obedience()
    takes = {"pose": (7.0, 5.0, 1.0), "told": (0.0, -0.2), "scan": None}
    assert not any(base.take(**takes | (away if 15 <= k < 18 else {}), now=k / 10) for k in range(28))


@pytest.mark.parametrize("without", [0, 1])
def test_where_there_was_no_scan_it_is_not_said_that_odometry_has_died(without):
    scan = {"angle_min": -math.pi, "angle_max": math.pi, "angle_increment": math.pi / 90, "range_min": 0.1,
            "range_max": 10.0}
    scans = [read(messages.make("sensor_msgs/msg/LaserScan", **scan, ranges=np.full(180, metres, np.float32)))
             for metres in (5.0, 1.0)]
    assert obeys([(0.0, 0.0, 0.0)] * 22, scans=scans[:1] * 2 + scans[1:] * 20)[-1] == DIED
    scans[without] = None
    assert obeys([(0.0, 0.0, 0.0)] * 22, scans=scans[:1] * 2 + scans[1:] * 20)[-1] == BLOCKED


def test_of_what_the_base_does_others_hear_for_a_second():
    slot = make_slot(HEARTBEATS)
    slot.offer(messages.make("brain_interfaces/msg/Heartbeat", name="/brainstem", reason=BLOCKED), 5.0)
    assert [disobeyed(Inbox({"heartbeats": slot}, now)) for now in (5.9, 6.1)] == [BLOCKED, ""]


def test_it_waits_longer_the_second_time_before_it_moves_again():
    base, faults = Obedience(), []
    for k in range(600):
        fault = bool(base.take((1.0, 2.0, 3.0), (0.0, 0.0) if base.fault else (0.0, -0.2), None, k / 10))
        if not faults or faults[-1][0] is not fault:
            faults.append((fault, k / 10))
    ends = [end - begin for (fault, begin), (_, end) in zip(faults, faults[1:]) if fault]
    assert np.allclose(ends, [8.0, 16.0, 16.0], atol=0.15)


@pytest.mark.parametrize("step", [(0.0051 / 20, 0.0, 0.0), (0.0, -0.0051 / 20, 0.0), (0.0, 0.0, 0.0101 / 20)])
def test_who_moves_a_little_obeys_and_who_trembles_does_not(step):
    still = (7.0, 5.0, 1.0)
    assert not any(obeys([tuple(a + k * b for a, b in zip(still, step)) for k in range(60)]))
    assert obeys([tuple(a + k % 2 * 19 * b for a, b in zip(still, step)) for k in range(22)])[-1] == BLOCKED

# SPDX-License-Identifier: Apache-2.0
"""Whole episodes with odometry and cameras as other drivers write them: the target is truly reached, or it stands."""
import math

import numpy as np
import pytest

from brain_eval.episodes import Referee, play, resolved_for
from brain_runtime.hosts.local import LocalHost
from brain_runtime.interfaces import GoalStatus
from brain_sim.suite import episodes
from brain_wire import messages

pytestmark = pytest.mark.slow

ENDS = GoalStatus.STATE_REACHED, GoalStatus.STATE_NOT_FOUND, GoalStatus.STATE_WRONG


class Enough(Exception):
    """The robot was looked at for long enough."""


def far(message):
    """As a driver that counts in UTM tells it."""
    message.pose.pose.position.x += 500_000.25
    message.pose.pose.position.y += 5_000_000.5


def mirrored(message):
    message.pose.pose.orientation.z *= -1.0


def other_size(info):
    """A size that is four times that of ``k`` and of the picture."""
    info.width, info.height = 4 * info.width, 4 * info.height


def upside_down(scan):
    scan.ranges = scan.ranges[::-1]


def dead(odom):
    """It tells for ever that the robot stands where it was at first."""
    upright = messages.make("geometry_msgs/msg/Quaternion", w=1.0)
    odom.pose.pose = messages.make("geometry_msgs/msg/Pose", orientation=upright)
    odom.twist.twist = messages.make("geometry_msgs/msg/Twist")


def stuck():
    """Repeats the first picture."""
    kept = {}
    return lambda image: setattr(image, "data", kept.setdefault("first", image.data))


def covered():
    """Only the sensor's noise."""
    rng = np.random.default_rng(1)
    return lambda image: setattr(image, "data", rng.integers(2, 6, len(image.data), np.uint8))


def run(region, port, change, seconds, episode=episodes("val", 2)[1]):
    """The verdict (None: none within ``seconds``), states of the goal with reasons, its way, reasons in heartbeats."""
    resolved = resolved_for(episode)
    regions = resolved.make()
    step = regions[region].step

    def changed(inbox, state, dt, rng):
        outbox, state = step(inbox, state, dt, rng)
        if port in outbox:
            change(outbox[port])
        return outbox, state

    regions[region].step = changed
    host = LocalHost(regions, seed=episode.seed, critical=resolved.critical, parameters=resolved.parameters())
    referee, said, commands, beats = Referee(episode.id), [], [], set()
    host.listen("sim/verdict", lambda m: referee.hear(m.data))
    host.listen("goal/status", lambda m: said.append((m.state, m.reason)))
    host.listen("cmd_vel", lambda m: commands.append((
        messages.time_seconds(m.header.stamp), m.twist.linear.x, m.twist.angular.z)))
    host.listen("brain/heartbeat", lambda m: beats.add(m.reason))

    def look(since):
        if since > seconds:
            raise Enough

    try:
        play(host, episode, episode.script, referee, look)
    except Enough:
        pass
    assert not referee.result(episode)["violations"]
    told = np.array(commands)       # each holds until the next; there are more than the brainstem's 50 a second
    way = (np.abs(told[:-1, 1:]) * np.diff(told[:, :1], axis=0)).sum(0)
    return referee.verdict, said, way, beats


def test_a_robot_that_counts_from_far_away_gets_there():
    verdict, said, _, beats = run("world", "odom", far, seconds=20.0)
    assert verdict is not None and verdict["success"], said
    assert not any("is refused" in reason for _, reason in said) and not any(beats)


def black(image):
    image.data = np.zeros_like(image.data)


def test_in_the_dark_nothing_is_recognized():
    """By chance the network takes black pictures for what is looked for in this one."""
    episode = [e for e in episodes("val", 8, seed=77) if e.kind in ("go", "avoid")][3]
    verdict, said, _, _ = run("camera", "image", black, 4.0, episode)
    assert verdict is None and not any(state in ENDS for state, _ in said), said


@pytest.mark.parametrize("case", [
    ("world", "odom", mirrored, "odom is refused", "turned by", 120.0),
    ("world", "scan", upside_down, "the scan turns the other way", "upside down", 120.0),
    ("world", "odom", dead, "odom is not believed", "it stands still", 180.0),
    ("camera", "image", stuck(), "camera/image_raw is refused", "equal to the bit", 60.0),
    ("camera", "image", covered(), "camera/image_raw is refused", "nothing in its pictures", 240.0),
    ("camera", "info", other_size, "camera/camera_info is refused", "384 x 256", 120.0)])
def test_what_contradicts_itself_stands_the_robot_and_is_named(case):
    *what, says, words, turns = case
    verdict, said, (drove, turned), beats = run(*what, seconds=8.0)
    assert verdict is None and not any(state in ENDS for state, _ in said), said
    waits = [why for state, why in said if state == GoalStatus.STATE_WAITING]
    assert any(says in why and words in why for why in waits), said
    assert any(says in why for why in beats)
    assert drove < 1.0 and turned < math.radians(turns), (drove, math.degrees(turned))

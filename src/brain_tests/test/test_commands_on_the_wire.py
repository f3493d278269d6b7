# SPDX-License-Identifier: Apache-2.0
"""What a base hears of the brainstem: TwistStamped or Twist, under the name of a remap, on each process host.

From the sources it runs on ZenohHost; under colcon, where there is rclpy, on RosHost too.
"""
import importlib.util

import pytest

from brain_runtime import FEATURE
from brain_tests.stage_of import make_stage

ROS = [pytest.param("ros", marks=pytest.mark.colcon)] if importlib.util.find_spec("rclpy") else []
HOSTS = ["zenoh", *ROS]
BRAINSTEM = "brain_regions.brainstem:Brainstem"
STAMPED, BARE = "geometry_msgs/msg/TwistStamped", "geometry_msgs/msg/Twist"


@pytest.fixture(params=HOSTS)
def stage(request, tmp_path):
    made = make_stage(request.param, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("stamped", [True, False])
def test_the_type_is_the_one_that_the_base_wants(stage, stamped):
    heard = stage.hear("cmd_vel", STAMPED if stamped else BARE, FEATURE)    # neither Zenoh nor DDS joins two types
    stage.start(BRAINSTEM, stamped=stamped, base_frame="base_footprint")
    stage.until(lambda: len(heard) > 10)
    if stamped:
        assert heard[-1].header.frame_id == "base_footprint" and heard[-1].header.stamp.sec > 0
    else:
        assert heard[-1].linear.x == 0.0        # nothing that it needs is there: it stands


def test_a_remap_leads_into_twist_mux(stage):
    muxed, straight = (stage.hear(topic, STAMPED, FEATURE) for topic in ("twist_mux/brain", "cmd_vel"))
    stage.start(BRAINSTEM, remap=["cmd_vel:=twist_mux/brain"])
    stage.until(lambda: len(muxed) > 10)
    assert not straight     # only the multiplexer publishes cmd_vel then

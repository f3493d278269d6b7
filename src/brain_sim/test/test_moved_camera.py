# SPDX-License-Identifier: Apache-2.0
"""The camera on other mountings: its frames and its lens tell how it looks."""
import json
import math

import numpy as np
import pytest

from brain_runtime.contract.frames import Frames
from brain_runtime.contract.images import lens
from brain_runtime.hosts.local import LocalHost
from brain_sim.mjcf import room_xml
from brain_sim.moved_camera import MOUNTS, OPTICAL, MovedCamera, MovedFrames, drawn
from brain_sim.room import generate_room
from brain_wire.messages import make, time_message


@pytest.mark.parametrize("seed", [900_020, 900_021, 900_022])
def test_its_frames_and_its_lens_tell_its_mounting(seed):
    host = LocalHost({"camera": MovedCamera("camera"), "frames": MovedFrames("frames")})
    frames, pictures, infos = Frames(), [], []
    host.listen("tf_static", frames.take)
    host.listen("camera/image_raw", pictures.append)
    host.listen("camera/camera_info", infos.append)
    room = generate_room("val", seed)
    host.publish("sim/world", make("std_msgs/msg/String", data=json.dumps({"xml": room_xml(room)})))
    pose = make("nav_msgs/msg/Odometry")
    pose.header.stamp = time_message(1.0)
    pose.pose.pose.position.x, pose.pose.pose.position.y, pose.pose.pose.orientation.w = *room.start[:2], 1.0
    for _ in range(3):
        host.publish("sim/ground_truth", pose)
        host.advance(0.05)
    found = frames.mount(OPTICAL, "base_link")
    mount, columns, view = next(one for one in map(drawn, range(MOUNTS)) if abs(one[0].height - found.height) < 1e-6)
    assert np.allclose([found.x, found.pitch, found.roll, found.yaw], [mount.x, mount.pitch, mount.roll, 0.0])
    assert pictures[-1].header.frame_id == OPTICAL and (pictures[-1].width, pictures[-1].height) == (
        columns, columns * 3 // 4)
    seen = lens(infos[-1], (columns, columns * 3 // 4), 1.0, False)
    assert 2 * math.atan(columns / 2 / seen.focal) == pytest.approx(view)
    assert len({drawn(number)[0] for number in range(MOUNTS)}) == MOUNTS

# SPDX-License-Identifier: Apache-2.0
"""The player of pictures of ``brain bench pictures``: their size, rate and stamps, and which count as lost."""
import numpy as np
import pytest

from brain_eval.bench.pictures import (PLAYER, RATE, SIZES, UNPACKER, UNPACKING, VIEWS, Player, missing,
                                       with_player)
from brain_observe.uncompressed import Uncompressed
from brain_runtime.hosts.local import LocalHost
from brain_runtime.contract.declared import named
from brain_runtime.run.workload import Workload
from brain_sim.world import World
from brain_wire.messages import make


@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_that_size_are_played_at_their_rate_with_their_lens_and_a_stamp_each(size):
    width, height = SIZES[size]
    host = LocalHost({"world": World(), "camera": Player()},
                     parameters={"camera": {"width": width, "height": height}})
    pictures, infos = [], []
    host.listen("camera/image_raw", pictures.append)
    host.listen("camera/camera_info", infos.append)
    host.advance(1.0)
    first = pictures[-1]
    assert (first.width, first.height, first.data.nbytes, first.encoding) == (width, height, 3 * width * height, "rgb8")
    assert abs(len(pictures) - RATE) <= 2
    stamps = [(m.header.stamp.sec, m.header.stamp.nanosec) for m in pictures]
    assert len(set(stamps)) == len(stamps) and stamps == [(m.header.stamp.sec, m.header.stamp.nanosec) for m in infos]
    assert infos[-1].width == width and infos[-1].k[2] == (width - 1) / 2
    assert not np.array_equal(pictures[-1].data, pictures[-2].data)             # another view
    assert np.array_equal(pictures[-1].data, pictures[-1 - VIEWS].data)         # once round


def test_pictures_that_were_due_and_never_seen_are_lost():
    assert missing([1, 2, 3, 4, 5], [2, 4, 9], 2, 5) == (3, 1)
    assert missing([], [1], 0, 9) == (0, 0)


def test_the_player_stands_in_for_the_camera_and_who_unpacks_stands_beside_it():
    def line(name, cls):
        return Workload(name, ("python", "-m", "brain_runtime.process", "--class", cls, "--name", name, "--ros-args",
                               "-r", "__ns:=/a"))

    camera, vision = line("camera", "brain_sim.camera_region:Camera"), line("vision", "brain_regions.vision:Vision")
    made = with_player([camera, vision], {"width": 640, "compressed": False})
    assert [one.name for one in made] == ["camera", "vision"] and made[1] is vision
    assert made[0].argv == (*line("camera", PLAYER).argv, "-p", "width:=640", "-p", "compressed:=false")
    made = with_player([camera, vision], {"compressed": True})
    assert [one.name for one in made] == ["camera", UNPACKING, "vision"]
    assert made[1].argv == line(UNPACKING, UNPACKER).argv
    assert named(PLAYER, "the test") is Player and named(UNPACKER, "the test") is Uncompressed


def test_what_is_sent_compressed_comes_as_an_image_of_that_stamp_and_what_is_no_picture_is_left_out():
    host = LocalHost({"world": World(), "camera": Player(), "unpacking": Uncompressed()},
                     parameters={"camera": {"width": 64, "height": 48, "compressed": True}})
    packed, pictures = [], []
    host.listen("camera/image_raw/compressed", packed.append)
    host.listen("camera/image_raw", pictures.append)
    host.advance(0.5)
    stamps = [(m.header.stamp.sec, m.header.stamp.nanosec, m.header.frame_id) for m in packed]
    assert packed and [(m.header.stamp.sec, m.header.stamp.nanosec, m.header.frame_id) for m in pictures] == stamps
    assert (pictures[-1].height, pictures[-1].width, pictures[-1].encoding) == (48, 64, "rgb8")
    before = len(pictures)
    host.publish("camera/image_raw/compressed", make("sensor_msgs/msg/CompressedImage", format="jpeg",
                                                     data=np.zeros(100, np.uint8)))
    assert len(pictures) == before

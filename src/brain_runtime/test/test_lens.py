# SPDX-License-Identifier: Apache-2.0
"""CameraInfo and the picture that it goes with: taken as ROS means it, or refused by name."""
import math

import pytest

from brain_runtime.contract.images import LensError, lens
from brain_wire import messages

SIDEWAYS = math.radians(90.0)


def info(width, height, f, cx=None, cy=None, fy=None, roi=(0, 0, 0, 0), binning=(0, 0), p=0.0):
    """A CameraInfo; where no middle is given it is that of the size; ``roi`` is x, y, width, height."""
    cx, cy = (width - 1) / 2 if cx is None else cx, (height - 1) / 2 if cy is None else cy
    made = messages.make("sensor_msgs/msg/CameraInfo", width=width, height=height, binning_x=binning[0],
                         binning_y=binning[1], k=[f, 0, cx, 0, f if fy is None else fy, cy, 0, 0, 1],
                         p=[p, 0, cx, 0, 0, p, cy, 0, 0, 0, 1, 0])
    made.roi.x_offset, made.roi.y_offset, made.roi.width, made.roi.height = roi
    return made


TAKEN = {   # name: CameraInfo, size of the picture, focal length in it, and straight ahead, px from left and top
    "the same size": (info(320, 240, 160.0), (320, 240), 160.0, (160, 120)),
    "one pixel less": (info(641, 481, 320.0), (640, 480), 319.5, (320, 240)),
    "scaled down": (info(1280, 960, 640.0), (320, 240), 160.0, (160, 120)),
    "scaled up": (info(320, 240, 160.0), (640, 480), 320.0, (320, 240)),
    "scaled, to a rounded size": (info(1920, 1080, 960.0), (424, 240), 212.0, (212, 120)),
    "binned by 2": (info(1280, 960, 640.0, binning=(2, 2)), (640, 480), 320.0, (320, 240)),
    "binned by 4": (info(1280, 960, 640.0, binning=(4, 4)), (320, 240), 160.0, (160, 120)),
    "binned, and scaled": (info(1280, 960, 640.0, binning=(2, 2)), (320, 240), 160.0, (160, 120)),
    "binning told of a size that is binned already": (
        info(640, 480, 320.0, binning=(2, 2)), (640, 480), 320.0, (320, 240)),
    "binned across only": (info(1280, 960, 640.0, binning=(2, 1)), (640, 960), 320.0, (320, 480)),
    "the part in the middle": (info(640, 480, 320.0, roi=(160, 120, 320, 240)), (320, 240), 320.0, (160, 120)),
    "the left half": (info(640, 480, 320.0, roi=(0, 0, 320, 480)), (320, 480), 320.0, (320, 240)),
    "the upper right quarter": (info(640, 480, 320.0, roi=(320, 0, 320, 240)), (320, 240), 320.0, (0, 240)),
    "a part, binned": (info(1280, 960, 640.0, roi=(320, 240, 640, 480), binning=(2, 2)), (320, 240), 320.0, (160, 120)),
    "a part, scaled": (info(1280, 960, 640.0, roi=(320, 240, 640, 480)), (160, 120), 160.0, (80, 60)),
    "roi of the whole": (info(640, 480, 320.0, roi=(0, 0, 640, 480)), (640, 480), 320.0, (320, 240)),
    "roi of zeros, binning of ones": (info(640, 480, 320.0, binning=(1, 1)), (640, 480), 320.0, (320, 240)),
    "uncalibrated": (info(640, 480, 0.0, 0.0, 0.0), (640, 480), 320.0, (320, 240)),
    "uncalibrated, another size": (info(1280, 720, 0.0, 0.0, 0.0), (640, 480), 320.0, (320, 240)),
    "uncalibrated, no size": (info(0, 0, 0.0, 0.0, 0.0), (640, 480), 320.0, (320, 240)),
    "no CameraInfo": (None, (640, 480), 320.0, (320, 240)),
    "no size": (info(0, 0, 320.0, 319.5, 239.5), (640, 480), 320.0, (320, 240)),
    "no middle": (info(640, 480, 320.0, 0.0, 0.0), (640, 480), 320.0, (320, 240)),
    "no fy": (info(640, 480, 320.0, fy=0.0), (640, 480), 320.0, (320, 240)),
    "a middle that is a little off": (info(640, 480, 500.0, 300.0, 260.0), (640, 480), 500.0, (320, 240)),
    "a middle that is off": (info(640, 480, 500.0, 219.5, 239.5), (640, 480), 500.0, (220, 240)),
    "a telephoto lens": (info(640, 480, 6400.0), (640, 480), 6400.0, (320, 240)),
}
REFUSED = {     # name: CameraInfo, size of the picture, and words of the reason
    "k of the picture, a size of another": (info(1280, 960, 160.0, 160.0, 120.0), (320, 240), "middle is at 160, 120"),
    "k of half the size": (info(640, 480, 160.0, 159.5, 119.5), (320, 240), "middle"),
    "k of another size": (info(320, 240, 640.0, 639.5, 479.5), (320, 240), "middle"),
    "k of another size, the picture too": (info(320, 240, 640.0, 639.5, 479.5), (1280, 960), "middle"),
    "another shape": (info(1280, 720, 640.0), (640, 480), "1280 x 720"),
    "on its side": (info(640, 480, 320.0), (480, 640), "480 x 640"),
    "rows cut off": (info(640, 480, 320.0), (640, 360), "640 x 360"),
    "another size, no middle": (info(1280, 960, 160.0, 0.0, 0.0), (320, 240), "1280 x 960"),
    "roi beyond the size": (info(640, 480, 320.0, roi=(400, 0, 320, 240)), (320, 240), "roi"),
    "roi of another shape": (info(640, 480, 320.0, roi=(0, 0, 640, 240)), (640, 480), "640 x 240"),
    "the whole, though a roi is told": (info(640, 480, 320.0, roi=(160, 120, 320, 240)), (640, 480), "320 x 240"),
    "binned to nothing": (info(640, 480, 320.0, binning=(2000, 2000)), (640, 480), "binning"),
    "fx negative": (info(640, 480, -320.0), (640, 480), "focal length"),
    "fx enormous": (info(640, 480, 1e9), (640, 480), "focal length"),
    "fx tiny": (info(640, 480, 1.0), (640, 480), "focal length"),
    "fx NaN": (info(640, 480, math.nan), (640, 480), "focal length"),
    "fx infinite": (info(640, 480, math.inf), (640, 480), "focal length"),
    "fy negative": (info(640, 480, 320.0, fy=-320.0), (640, 480), "focal length"),
    "fy NaN": (info(640, 480, 320.0, fy=math.nan), (640, 480), "focal length"),
    "middle outside": (info(640, 480, 320.0, -900.0, 240.0), (640, 480), "middle"),
    "middle NaN": (info(640, 480, 320.0, math.nan, 240.0), (640, 480), "middle"),
    "middle below": (info(640, 480, 320.0, 320.0, 480.0), (640, 480), "middle"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_explains_the_picture_is_taken(name):
    made, size, focal, ahead = TAKEN[name]
    found = lens(made, size, SIDEWAYS)
    assert (found.columns, found.rows) == size and math.isclose(found.focal, focal, rel_tol=2e-3)
    assert abs(found.column - ahead[0]) < 1.0 and abs(found.row - ahead[1]) < 1.0, found
    right, left = found.edges
    assert math.isclose(math.tan(left) - math.tan(right), size[0] / focal, rel_tol=3e-3)
    assert found.tall == (2.0 if "across" in name else 1.0)


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_itself_or_the_picture_is_refused_with_the_numbers(name):
    made, size, words = REFUSED[name]
    with pytest.raises(LensError) as caught:
        lens(made, size, SIDEWAYS)
    assert words in str(caught.value) and len(str(caught.value)) < 200, caught.value


def test_rectified_pictures_are_seen_by_p_where_it_is_filled_in():
    both, raw = info(640, 480, 320.0, p=250.0), info(640, 480, 320.0)
    assert lens(both, (640, 480), SIDEWAYS).focal == 320.0 == lens(raw, (640, 480), SIDEWAYS, rectified=True).focal
    assert lens(both, (640, 480), SIDEWAYS, rectified=True).focal == 250.0
    assert lens(both, (320, 240), SIDEWAYS, rectified=True).focal == 125.0
    for bad in (math.nan, -250.0, 1e9):
        with pytest.raises(LensError, match="its p"):
            lens(info(640, 480, 320.0, p=bad), (640, 480), SIDEWAYS, rectified=True)

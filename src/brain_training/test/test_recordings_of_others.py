# SPDX-License-Identifier: Apache-2.0
"""Recordings as other writers make them: what is read otherwise than ours, and what is refused by its name."""
import io
import json
import logging
import math

import numpy as np
import pytest
from bags_by_hand import OBJECTS, all_frames, image, noise, told, write
from PIL import Image

from brain_observe.bags import STORAGES, BagWriter, _types
from brain_runtime.contract.pictures import MOST_PIXELS, PictureError, is_gray, unpacked
from brain_runtime.contract import git_lfs
from brain_training.incremental.clip_files import ClipFolder
from brain_training.incremental.from_recordings import choose
from brain_training.incremental.rules import named
from brain_training.recordings import bags
from brain_training.recordings.bags import RecordingError, opened
from brain_training.recordings.library import find
from brain_training.recordings.reading import clips
from brain_wire.messages import make

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
COMPRESSED, INFO = "sensor_msgs/msg/CompressedImage", "sensor_msgs/msg/CameraInfo"
BALL = (1, 1, 0.9, 0.3, 2.0, 0.2)


def packed(picture, form="PNG", **how):
    """Bytes of a picture: an array, or what Pillow has."""
    file = io.BytesIO()
    (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).save(file, form, **how)
    return file.getvalue()


def compressed(data, at, form="rgb8; jpeg compressed bgr8"):
    message = make(COMPRESSED, format=form, data=np.frombuffer(data, np.uint8))
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(round(at * 1e9), 10**9)
    return message


def lens(at, focal=300.0, columns=32, rows=24):
    message = make(INFO, width=columns, height=rows, k=[focal, 0, columns / 2, 0, focal, rows / 2, 0, 0, 1])
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(round(at * 1e9), 10**9)
    return message


class Bare(BagWriter):
    """Leaves out the slash in front of topics, as some writers do."""

    def declare(self, topic, kind):
        self._connections[topic] = self._writer.add_connection(topic, kind, typestore=_types())


def write_all(path, rows, storage="mcap", writer=BagWriter):
    """A bag of (topic, type, seconds, message)."""
    with writer(path, storage) as bag:
        for topic, kind in dict.fromkeys((topic, kind) for topic, kind, _, _ in rows):
            bag.declare(topic, kind)
        for topic, _, at, message in rows:
            bag.write(topic, at, message)
    return path


def rows_of(count=6, pictures="camera/image_raw/compressed", stamped=True, late=0.0):
    """Pictures, their lens and a label of each, 0.1 s apart, from 1000 s on."""
    found = []
    for number, picture in enumerate(noise(count, 24, 32)):
        at = 1000.0 + 0.1 * number
        stamp = at if stamped else 0.0
        if pictures.endswith("compressed"):
            message, kind = compressed(packed(picture, "JPEG"), stamp), COMPRESSED
        else:
            message, kind = image(picture, stamp), "sensor_msgs/msg/Image"
        found += [("camera/camera_info", INFO, at, lens(stamp)), (pictures, kind, at, message),
                  ("hand/objects", OBJECTS, at + late, told(stamp, BALL))]
    return found


# -- topics and times ------------------------------------------------------------------------------------------------

def test_pictures_of_a_transport_keep_their_lens(tmp_path):
    write_all(tmp_path / "plain", rows_of(pictures="camera/image_raw"))
    write_all(tmp_path / "packed", rows_of())
    (tmp_path / "recordings.json").write_text(json.dumps({"pictures": "camera/image_raw"}))
    with opened(tmp_path / "packed") as bag:
        assert bag.lens_of("camera/image_raw/compressed") == "camera/camera_info"
    with opened(tmp_path / "plain") as bag:
        assert bag.lens_of("camera/image_raw") == "camera/camera_info"
    (plain,) = find([tmp_path / "plain"])
    (other,) = find([write_listed(tmp_path / "more", rows_of())])
    one, two = ([f.image.any(-1) for f in frames_of(recording)] for recording in (plain, other))
    assert len(one) == len(two) == 6
    assert np.array_equal(one, two) and 0.0 < np.mean(one) < 0.01       # not as one of 90 degrees
    with opened(tmp_path / "packed") as bag:    # beside another camera's pictures nothing is borrowed
        assert bag.lens_of("rear/image_raw") is None


def write_listed(folder, rows, **listed):
    folder.mkdir()
    pictures = next(topic for topic, kind, _, _ in rows if kind in (COMPRESSED, "sensor_msgs/msg/Image"))
    (folder / "recordings.json").write_text(json.dumps({"pictures": pictures, **listed}))
    write_all(folder / "bag", rows)
    return folder


def frames_of(recording, source="hand/objects"):
    from brain_training.recordings.reading import frames

    return list(frames(recording, source))


def test_clips_that_are_chosen_are_level_by_the_lens_of_pictures_of_a_transport(tmp_path):
    folder = write_listed(tmp_path / "rooms", [
        row if row[0] != "hand/objects" else ("vision/objects", *row[1:]) for row in rows_of(200)], camera_height=0.5,
        camera_pitch=0.1, camera_y=-0.04)
    choose([folder], "robot", ClipFolder(tmp_path / "clips", 10**8), named("unsure"), 60, 0.8)
    (clip, *_) = sorted((tmp_path / "clips").rglob("*.mcap"))
    (kept,), (whole,) = find([clip]), find([folder])
    assert (kept.mount.x, kept.mount.y, kept.mount.height) == (0.15, -0.04, 0.5) and not kept.mount.pitch
    of_all = {frame.image.tobytes() for frame in frames_of(whole, "vision/objects")}
    shown = frames_of(kept, "vision/objects")
    assert len(shown) > 3 and {frame.image.tobytes() for frame in shown} <= of_all


@pytest.mark.parametrize("storage", STORAGES)
def test_topics_without_a_slash_are_found(tmp_path, storage):
    write_all(tmp_path / "bag", rows_of(pictures="camera/image_raw"), storage, Bare)
    with opened(tmp_path / "bag") as bag:
        assert {c.topic for c in bag._reader.connections} == {"camera/image_raw", "camera/camera_info", "hand/objects"}
    assert [len(frame.seen) for frame in all_frames(tmp_path / "bag", "hand/objects")] == [1] * 6


@pytest.mark.parametrize("late", [0.0, 0.03])
def test_pictures_without_a_stamp_have_the_time_at_which_they_were_recorded_and_that_is_said(tmp_path, caplog, late):
    bags._say_unstamped.cache_clear()
    write_all(tmp_path / "bag", rows_of(40, "camera/image_raw", stamped=False, late=late))
    with caplog.at_level(logging.WARNING):
        found = all_frames(tmp_path / "bag", "hand/objects")
    assert len(found) == 40 and all(frame.seen for frame in found) and not any(frame.begins for frame in found[1:])
    assert [frame.stamp for frame in found[:2]] == [1000 * 10**9, 1000 * 10**9 + 10**8]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said)) and all(str(tmp_path / "bag") in line for line in said)
    assert any("/camera/image_raw have no stamp; the time at which" in line for line in said)
    (recording,) = find([tmp_path / "bag"])
    assert clips(recording, "hand/objects", 3, 4, np.random.default_rng(0))


def test_a_clock_that_comes_after_the_first_picture_begins_anew(tmp_path):
    write(tmp_path / "bag", noise(5), stamps=[0.0, 0.05, 0.1, 0.15, 0.2])
    rows = [("camera/image_raw", "sensor_msgs/msg/Image", 1000.0 + 0.05 * n, image(picture, 0.05 * n))
            for n, picture in enumerate(noise(5))]
    rows += [("hand/objects", OBJECTS, at, told(message.header.stamp.nanosec / 1e9, BALL))
             for _, _, at, message in rows]
    found = all_frames(write_all(tmp_path / "sim", rows), "hand/objects")
    assert [frame.begins for frame in found] == [True, True, False, False, False]
    assert len(all_frames(tmp_path / "bag")) == 5


# -- files that are not what they seem -------------------------------------------------------------------------------

@pytest.mark.parametrize("storage", STORAGES)
def test_a_pointer_in_place_of_a_bag_is_named_with_the_remedy(tmp_path, storage):
    path = write(tmp_path / "bag", noise(2), storage=storage)
    (file,) = [f for f in path.iterdir() if f.suffix in bags.FILES]
    file.write_bytes(POINTER)
    for what in (path, file):
        with pytest.raises(RecordingError, match="git lfs pull") as error:
            all_frames(what)
        assert str(file) in str(error.value) and "\n" not in str(error.value)


def test_a_pointer_in_place_of_weights_is_named_with_the_remedy(tmp_path):
    from brain_cloud.federated.weights import WeightsProblem, unpack
    from brain_edge.models.model_file import ModelProblem, read_model
    from brain_regions.vision import weights
    from brain_training.incremental.taking import WorkerProblem, _weights

    path = tmp_path / "w.safetensors"
    path.write_bytes(POINTER)
    for read, error in ((lambda: weights.load(path), weights.WeightsError),
                        (lambda: weights.factor(path), weights.WeightsError),
                        (lambda: read_model(path), ModelProblem), (lambda: unpack(POINTER), WeightsProblem),
                        (lambda: _weights(path), WorkerProblem)):
        with pytest.raises(error, match="git lfs pull"):
            read()
    assert not git_lfs.is_pointer(tmp_path / "gone") and not git_lfs.is_pointer(tmp_path)


@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3", "F8_E5M2"])
def test_weights_of_a_kind_that_numpy_has_not_are_refused_by_its_name(tmp_path, kind):
    from brain_cloud.federated.weights import WeightsProblem, unpack
    from brain_training.incremental.taking import WorkerProblem, _weights

    size = 2 * (2 if kind == "BF16" else 1)
    head = json.dumps({"a": {"dtype": kind, "shape": [2], "data_offsets": [0, size]}}).encode()
    data = len(head).to_bytes(8, "little") + head + bytes(size)
    (tmp_path / "w.safetensors").write_bytes(data)
    for read, error in ((lambda: unpack(data), WeightsProblem),
                        (lambda: _weights(tmp_path / "w.safetensors"), WorkerProblem)):
        with pytest.raises(error, match=f"'{kind}', which numpy has not"):
            read()


# -- pictures --------------------------------------------------------------------------------------------------------

STEPS = np.linspace(0, 65535, 32 * 24).reshape(24, 32).astype(np.uint16)


@pytest.mark.parametrize(("data", "right"), [
    (packed(STEPS), STEPS >> 8), (packed((STEPS >> 8).astype(np.uint8)), STEPS >> 8),
    (packed(Image.fromarray((STEPS >> 8).astype(np.uint8)).convert("P")), STEPS >> 8),
    (packed(Image.fromarray((STEPS >> 8).astype(np.uint8)).convert("LA")), STEPS >> 8)])
def test_gray_pictures_of_8_and_16_bits_are_read_as_they_are(data, right):
    found = unpacked(data)
    assert found.dtype == np.uint8 and is_gray(found) and np.array_equal(found[..., 0], right)


def test_a_gray_jpeg_is_gray_and_a_colored_one_stands_upright_as_its_exif_says():
    assert is_gray(unpacked(packed((STEPS >> 8).astype(np.uint8), "JPEG")))
    picture = np.zeros((24, 32, 3), np.uint8)
    picture[:12] = 200, 30, 30
    turned = Image.Exif()
    turned[0x0112] = 3      # by 180 degrees
    plain, over = unpacked(packed(picture, "JPEG")), unpacked(packed(picture, "JPEG", exif=turned))
    assert not is_gray(plain) and plain[2, 5, 0] > 150 and over[2, 5, 0] < 60 and over[-3, 5, 0] > 150


def bomb(form):
    """A picture that says that it is huge: the head of a real one with other sizes, and nothing behind."""
    data = bytearray(packed(np.zeros((16, 16, 3), np.uint8), form))
    if form == "PNG":
        data[16:24] = (60_000).to_bytes(4, "big") * 2
        import zlib
        data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    else:
        at = data.index(b"\xff\xc0")
        data[at + 5:at + 9] = (60_000).to_bytes(2, "big") * 2
    return bytes(data)


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_picture_that_says_that_it_is_huge_is_refused_before_it_is_unpacked(tmp_path, form):
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(PictureError, match="60000 x 60000|exceeds limit"):
        unpacked(bomb(form))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MOST_PIXELS / 20
    path = write(tmp_path / "bag", [compressed(bomb(form), 0.0)], kind=COMPRESSED)
    with pytest.raises(RecordingError, match="60000 x 60000|exceeds limit"):
        all_frames(path)


@pytest.mark.parametrize(("data", "form", "says"), [
    (POINTER, "", "git lfs pull"), (b"", "", "it is no JPEG or PNG"),
    (packed(STEPS)[:90], "", "truncated|broken|IDAT|no JPEG"), (packed(STEPS), "16UC1; png compressed", "distances"),
    (bytes(12) + packed(STEPS), "16UC1; compressedDepth png", "distances"),
    (packed(STEPS[:8, :8]), "", "8 x 8 pixels")])
def test_what_is_no_picture_is_refused_in_one_line(data, form, says):
    with pytest.raises(PictureError, match=says) as error:
        unpacked(data, form)
    assert "\n" not in str(error.value)


def test_of_gray_pictures_nothing_is_learned_that_has_a_color_and_that_is_said(tmp_path, caplog):
    gray = [packed(picture[..., 0], "JPEG") for picture in noise(3)]
    path = write(tmp_path / "bag", [compressed(data, 0.05 * n) for n, data in enumerate(gray)], kind=COMPRESSED)
    with caplog.at_level(logging.WARNING):
        found = all_frames(path)
    assert [[view.sure for view in frame.seen] for frame in found] == [[False]] * 3
    assert "3 of 3 pictures of camera/image_raw are gray" in caplog.text
    colored = write(tmp_path / "other", [compressed(packed(p, "JPEG"), 0.05 * n) for n, p in enumerate(noise(3))],
                    kind=COMPRESSED)
    assert all(view.sure for frame in all_frames(colored) for view in frame.seen)


# -- cameras that hang upside down -----------------------------------------------------------------------------------

def static(roll, frame="cam_optical_frame"):
    """A tf_static with an optical frame that is rolled."""
    half = roll / 2
    message = make("tf2_msgs/msg/TFMessage", transforms=[
        make("geometry_msgs/msg/TransformStamped", child_frame_id=child) for child in ("body", frame)])
    body, optical = message.transforms
    body.header.frame_id, optical.header.frame_id = "base_link", "body"
    body.transform.rotation.x, body.transform.rotation.w = math.sin(half), math.cos(half)
    body.transform.translation.z = 0.3
    for axis, value in zip("xyzw", (-0.5, 0.5, -0.5, 0.5)):
        setattr(optical.transform.rotation, axis, value)
    return message


def rolled(path, roll, pictures):
    rows = [("tf_static", "tf2_msgs/msg/TFMessage", 0.0, static(roll))]
    for number, picture in enumerate(pictures):
        message = image(picture, 0.05 * number)
        message.header.frame_id = "cam_optical_frame"
        rows += [("camera/image_raw", "sensor_msgs/msg/Image", 0.05 * number, message),
                 ("labels", OBJECTS, 0.05 * number, told(0.05 * number, BALL))]
    return write_all(path, rows)


def alike(picture, other):
    """Level pictures of one view; a turn by half a circle rounds otherwise."""
    return np.array_equal(picture.any(-1), other.any(-1)) and np.abs(picture.astype(int) - other).max() <= 1


def test_pictures_of_a_camera_that_hangs_upside_down_are_turned_as_tf_static_or_the_list_says(tmp_path):
    pictures = noise(3)
    plain = rolled(tmp_path / "plain", 0.0, pictures)
    over = rolled(tmp_path / "over", math.pi, [picture[::-1, ::-1].copy() for picture in pictures])
    for a, b in zip(all_frames(plain), all_frames(over), strict=True):
        assert alike(a.image, b.image)
    (tmp_path / "list").mkdir()
    write(tmp_path / "list" / "bag", [picture[::-1, ::-1].copy() for picture in pictures])
    assert not alike(all_frames(plain)[0].image, all_frames(tmp_path / "list")[0].image)
    (tmp_path / "list" / "recordings.json").write_text(json.dumps({"camera_roll": math.pi}))
    for a, b in zip(all_frames(plain), all_frames(tmp_path / "list"), strict=True):
        assert alike(a.image, b.image)


def test_pictures_of_a_camera_on_its_side_are_turned_upright(tmp_path):
    (picture,) = noise(1, rows=64, columns=64)
    (plain,), (aside,) = all_frames(rolled(tmp_path / "plain", 0.0, [picture])), all_frames(
        rolled(tmp_path / "aside", math.pi / 2, [np.rot90(picture).copy()]))
    assert alike(plain.image, aside.image)


def test_a_camera_that_sees_nothing_of_the_floor_before_the_robot_is_refused(tmp_path):
    write(tmp_path / "other", noise(1))
    (tmp_path / "recordings.json").write_text('{"camera_pitch": -1.5}')
    with pytest.raises(RecordingError, match="sees nothing of what is looked at.*correct the camera's mounting"):
        all_frames(tmp_path / "other")


def test_a_camera_that_nobody_said_hangs_upside_down_is_found_out_by_odometry(tmp_path):
    """The robot turns to the left, and what the pictures show moves to the left with it."""
    round_about = np.random.default_rng(3).integers(0, 256, (8, 72, 3), np.uint8)      # 5 degrees each
    columns = np.arctan((47.5 - np.arange(96)) / 48)

    def turning(path, over):
        rows = []
        for number in range(40):
            at, yaw = 0.05 * (number + 1), 0.05 * number
            picture = round_about[:, np.floor(np.degrees(yaw + columns) / 5).astype(int) % 72].repeat(8, 0)
            picture = picture[::-1, ::-1].copy() if over else picture
            odometry = make("nav_msgs/msg/Odometry")
            odometry.header.stamp.sec, odometry.header.stamp.nanosec = divmod(round(at * 1e9), 10**9)
            odometry.pose.pose.orientation.z, odometry.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
            rows += [("odom", "nav_msgs/msg/Odometry", at, odometry),
                     ("camera/image_raw", "sensor_msgs/msg/Image", at, image(picture, at)),
                     ("labels", OBJECTS, at, told(at, BALL))]
        return write_all(path, rows)

    assert len(all_frames(turning(tmp_path / "right", False))) == 40
    with pytest.raises(RecordingError, match='moves the wrong way.*"camera_roll": 3.14') as error:
        all_frames(turning(tmp_path / "wrong", True))
    assert "\n" not in str(error.value)

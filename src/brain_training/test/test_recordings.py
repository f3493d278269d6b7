# SPDX-License-Identifier: Apache-2.0
"""Training from recordings: bags of the simulated robot, labels, splits, clips."""
import io
import itertools
import json
import shutil

import numpy as np
import pytest
from bags_by_hand import all_frames, image, noise, told, write
from PIL import Image

from brain_observe.bags import STORAGES, BagWriter
from brain_regions.vision import Vision, weights
from brain_regions.vision.network import HEIGHT, WIDTH, directions
from brain_runtime.contract.optics import Mount
from brain_runtime.hosts.local import LocalHost
from brain_sim.camera import MOUNT, RayCamera
from brain_sim.camera_region import Camera
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room
from brain_sim.things import COLORS, SHAPES
from brain_eval.truth import Truth
from brain_sim.world import World
from brain_training.driving import Drive
from brain_training.recordings import Bags
from brain_training.recordings.bags import RecordingError
from brain_training.recordings.library import find
from brain_training.recordings.own_labels import LOOKS, Odometry, OwnLabels
from brain_training.recordings.reading import clips
from brain_training.recordings.views import asked, labels, shown, views
from brain_training.recordings.vision import Pool, Recorded, recipe
from brain_training.runs import Settings, train
from brain_training.task import stream
from brain_training.vision import Recipe, VisionTask
from brain_training.vision_data import NOTHING, UNSURE, Studio, label_columns
from brain_wire.messages import make

TURN = 0.9          # rad/s
SECONDS = 3.0


def quiet(*news):
    """Hears how far it is."""


def record(paths, split, seed):
    """Records the simulated robot, which turns on the spot, in lockstep: into a bag of each storage that is named."""
    host = LocalHost({"world": World("world"), "camera": Camera("camera"), "vision": Vision("vision"),
                      "truth": Truth("truth")}, parameters={"world": {"split": split, "seed": seed}})
    turn = make("geometry_msgs/msg/TwistStamped")
    turn.twist.angular.z = TURN
    bags = [BagWriter(path, storage) for storage, path in paths.items()]
    for bag in bags:
        bag.hear(host)
    while host.now < SECONDS - 1e-9:
        host.publish("cmd_vel", turn)
        host.advance(0.1)
    for bag in bags:
        bag.__exit__()


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    """Recordings of three rooms: ``train-0``, in both storages, and one each of val and test; a folder for training."""
    folder = tmp_path_factory.mktemp("rooms")
    record({"mcap": folder / "all" / "train-0", "sqlite3": folder / "other" / "train-0"}, "train", 21)
    record({"sqlite3": folder / "all" / "val-0"}, "val", 11)
    record({"mcap": folder / "all" / "val-1"}, "val", 20)
    splits = {"train": ["train-0"], "val": ["val-0"], "test": ["val-1"]}
    (folder / "all" / "recordings.json").write_text(json.dumps({"splits": splits}))
    return folder


# -- what is in a recording ------------------------------------------------------------------------------------------

def test_both_storages_hold_the_same_pictures_and_labels(rooms):
    one, other = (all_frames(rooms / folder / "train-0", "sim/objects") for folder in ("all", "other"))
    assert len(one) == len(other) > 20 * (SECONDS - 0.5) and sum(len(f.seen) for f in one) > 20
    for a, b in zip(one, other):
        assert np.array_equal(a.image, b.image) and a[0] == b[0] and a[2:] == b[2:]
    assert [f.begins for f in one] == [True] + [False] * (len(one) - 1)


def test_the_truth_that_is_recorded_labels_columns_as_the_pixels_do():
    same = different = 0
    for seed in range(6):
        room = generate_room("train", seed)
        camera, drive = RayCamera(room_xml(room), directions=directions()), Drive(room, np.random.default_rng(seed))
        for pose in drive.poses(drive.place(near=True), 5):
            camera.render(*pose)
            objects = [(COLORS.index(o.color) + 1, SHAPES.index(o.shape) + 1, 1.0 if o.pixels >= 10 else 0.1, o.bearing,
                        o.distance, o.width) for o in camera.ground_truth_objects()]
            ours = labels(views(told(0, *objects), MOUNT), MOUNT.height)
            pixels = label_columns(camera, {o.name: o.radius for o in room.objects})
            both = (ours.color[0] != UNSURE) & (pixels.color[0] != UNSURE)
            agree = (ours.color[0] == pixels.color[0]) & ((ours.shape[0] == pixels.shape[0]) | (ours.color[0] < 0))
            same, different = same + (both & agree).sum(), different + (both & ~agree).sum()
            there = both & agree & (ours.color[0] >= 0)
            assert np.allclose(ours.bearing[0][there], pixels.bearing[0][there], atol=1e-3)
            assert np.allclose(ours.distance[0][there], pixels.distance[0][there], rtol=1e-3)
    assert same > 1000 and different < 0.04 * same


def test_own_labels_are_right_where_they_are_sure(rooms):
    right = wrong = 0
    for name in ("train-0", "val-0", "val-1"):
        truth, own = (all_frames(rooms / "all" / name, source) for source in ("sim/objects", "self"))
        for a, b in zip(truth, own, strict=True):
            assert a.stamp == b.stamp
            one, other = (labels(frame.seen, MOUNT.height, shown(frame.image)) for frame in (a, b))
            sure = (one.color[0] >= 0) & (other.color[0] >= 0)
            same = sure & (one.color[0] == other.color[0]) & (one.shape[0] == other.shape[0])
            right, wrong = right + same.sum(), wrong + (sure & ~same).sum()
    assert right > 200 and wrong < 0.1 * right


def test_a_look_that_disagrees_is_outvoted_and_about_what_was_not_told_or_became_nothing_nothing_is_asked():
    looks = {n: told(0.1 * n, (2 if n == 3 else 1, 1, 0.9, 0.0, 2.0 + 0.01 * n, 0.2)) for n in range(2 * LOOKS)}
    looks[5].objects.append(told(0, (3, 2, 0.6, 0.5, 2.0, 0.2)).objects[0])
    looks[6].objects.clear()
    stamps = [round(0.1 * n * 1e9) for n in looks]
    own = OwnLabels(dict(zip(stamps, looks.values())), Odometry(stamps, [(0.0, 0.0, 0.0)] * len(looks)))
    assert [thing.kind for thing in own.things] == [(0, 0)]
    (seen,) = own.views(stamps[3], MOUNT)
    assert (seen.color, seen.shape, seen.sure) == (0, 0, True) and seen.distance == pytest.approx(2.03 - 0.15)
    assert [view.sure for view in own.views(stamps[5], MOUNT)] == [False, True]
    assert [view.sure for view in own.views(stamps[6], MOUNT)] == [False]
    assert own.views(stamps[0] + 7, MOUNT) is None


def test_what_is_not_wholly_told_is_not_asked_for():
    nan = float("nan")
    for wrong in ((0, 1, 1.0, 0.1, 2.0, 0.2), (1, 9, 1.0, 0.1, 2.0, 0.2), (1, 1, 0.3, 0.1, 2.0, 0.2),
                  (1, 1, 1.0, 0.1, nan, 0.2), (1, 1, 1.0, 0.1, 2.0, nan)):
        made = labels(views(told(0, wrong), MOUNT), MOUNT.height)
        assert (made.color == UNSURE).any() and not (made.color >= 0).any(), wrong
    assert views(told(0, (1, 1, 1.0, nan, 2.0, 0.2)), MOUNT) == []
    assert (labels(None, 0.35).color == UNSURE).all() and (labels([], 0.35).color == NOTHING).all()


def test_a_camera_elsewhere_on_the_robot_means_other_angles_and_distances_are_in_its_heights():
    ball = told(0, (1, 1, 1.0, 0.2, 2.0, 0.2))
    (same,), (turned,), (aside,) = (views(ball, mount) for mount in (Mount(), Mount(yaw=0.2), Mount(
        x=2.0 * np.cos(0.2) - 1.0, y=2.0 * np.sin(0.2) + 1.0)))
    assert (same.bearing, same.distance) == pytest.approx((0.2, 2.0))
    assert turned.bearing == pytest.approx(0.0, abs=1e-6)
    assert (aside.bearing, aside.distance) == pytest.approx((-np.pi / 4, 2 ** 0.5))
    made = labels([same], 0.5)
    assert made.distance[made.color >= 0] == pytest.approx(4.0) and (made.color >= 0).any()


def test_about_what_the_camera_does_not_see_nothing_is_told():
    picture = np.full((HEIGHT, WIDTH, 3), 9, np.uint8)
    picture[:, :WIDTH // 2] = 0
    left, right = (views(told(0, (1, 1, 1.0, angle, 2.0, 0.2)), Mount()) for angle in (0.5, -0.5))
    assert (labels(left, 0.35, shown(picture)).color == NOTHING).all() and asked(left, picture) == []
    assert (labels(right, 0.35, shown(picture)).color >= 0).any() and len(asked(right, picture)) == 1


@pytest.mark.parametrize("name", ["bgr8", "640 x 480", "PNG", "JPEG"])
def test_pictures_of_other_cameras_are_read(tmp_path, name):
    picture = np.zeros((480, 640, 3) if name == "640 x 480" else (64, 96, 3), np.uint8)
    picture[..., 0] = 200
    kind, message = "sensor_msgs/msg/Image", picture
    if name == "bgr8":
        message = image(np.ascontiguousarray(picture[..., ::-1]), 0.0, "bgr8")
    elif name in ("PNG", "JPEG"):
        file = io.BytesIO()
        Image.fromarray(picture).save(file, name)
        kind = "sensor_msgs/msg/CompressedImage"
        message = make(kind, format=name.lower(), data=np.frombuffer(file.getvalue(), np.uint8))
    (frame,) = all_frames(write(tmp_path / "bag", [message], kind=kind))
    assert frame.image.shape == (HEIGHT, WIDTH, 3)
    seen = frame.image.any(-1)
    assert seen.mean() > 0.3 and abs(frame.image[seen].astype(int) - [200, 1, 1]).max() <= 3


def test_clips_do_not_reach_over_a_gap_and_each_has_the_same_chance(tmp_path):
    stamps = [*(0.05 * n for n in range(10)), *(5 + 0.05 * n for n in range(10))]
    (recording,) = find([write(tmp_path / "bag", noise(20), stamps=stamps)])
    every = clips(recording, "labels", 3, 100, stream("test", 0))
    assert len(every) == 16 and all(clip.images.shape == (3, HEIGHT, WIDTH, 3) for clip in every)
    few = [clips(recording, "labels", 3, 4, stream("test", seed)) for seed in range(40)]
    assert all(len(some) == 4 for some in few)
    first = {some[0].images.tobytes() for some in few}
    assert len({c.images.tobytes() for c in itertools.chain(*few)}) == 16 and 2 < len(first) < 16
    assert len(clips(recording, "labels", 5, 100, stream("test", 0), apart=5)) == 4


def test_pictures_that_come_faster_are_left_out(tmp_path):
    found = all_frames(write(tmp_path / "bag", noise(30), stamps=[n / 60 for n in range(30)]))
    assert 9 <= len(found) <= 11 and not any(frame.begins for frame in found[1:])


# -- splits ----------------------------------------------------------------------------------------------------------

def test_a_name_decides_the_split_and_a_list_decides_over_it(tmp_path):
    for number in range(12):
        write(tmp_path / f"way-{number}", noise(1, seed=number), storage=STORAGES[number % 2])
    by_name = {r.name: r.split for r in find([tmp_path])}
    assert by_name == {r.name: r.split for r in find([tmp_path])} and set(by_name.values()) > {"train"}
    other = next(name for name, split in by_name.items() if split == "train")
    (tmp_path / "recordings.json").write_text(json.dumps({"splits": {"val": [other]}}))
    assert {r.name: r.split for r in find([tmp_path])} == by_name | {other: "val"}


@pytest.mark.parametrize(("text", "says"), [
    ('{"splits": {"train": ["way"], "val": ["way"]}}', "in train and in val"),
    ('{"splits": {"train": ["gone"]}}', "'gone' is listed but is not"), ('{"splits": {"dev": ["way"]}}', "'dev'"),
    ('{"split": {}}', "unknown key 'split'"), ("{", "Expecting"), ("[]", "an object"),
    ('{"camera_x": NaN}', "must be numbers"), ('{"splits": ["way"]}', "see docs"), ("[" * 100_000, "see docs")])
def test_a_list_that_is_wrong_is_refused(tmp_path, text, says):
    write(tmp_path / "way", noise(1))
    (tmp_path / "recordings.json").write_text(text)
    with pytest.raises(RecordingError, match=says) as error:
        find([tmp_path])
    assert str(tmp_path / "recordings.json") in str(error.value) and "\n" not in str(error.value)


def test_the_same_recording_in_two_splits_is_refused(tmp_path, rooms):
    write(tmp_path / "a" / "way", noise(2))
    shutil.copytree(tmp_path / "a" / "way", tmp_path / "a" / "copy")
    for listed in ({"train": ["way"], "test": ["copy"]}, {"train": ["way", "copy"]}):
        (tmp_path / "a" / "recordings.json").write_text(json.dumps({"splits": listed}))
        with pytest.raises(RecordingError, match="is the same recording as .*copy"):
            find([tmp_path / "a"])
    write(tmp_path / "b" / "way", noise(2, seed=1))
    shutil.rmtree(tmp_path / "a" / "copy")
    (tmp_path / "a" / "recordings.json").unlink()
    with pytest.raises(RecordingError, match="have one name"):
        find([tmp_path / "a", tmp_path / "b"])
    shutil.copytree(rooms / "all" / "val-0", tmp_path / "c" / "val-0")
    (tmp_path / "c" / "recordings.json").write_text('{"splits": {"train": ["val-0"]}}')
    with pytest.raises(RecordingError, match="room of the simulator's split val"):
        find([tmp_path / "c"])


def test_a_split_without_a_recording_is_named(rooms):
    with pytest.raises(RecordingError, match=r"no recording is in the split (val|test): train-0 \(train\)"):
        recipe(VisionTask.tiny, Bags((rooms / "other",)))
    with pytest.raises(ValueError, match="--bag-share is 0"):
        recipe(VisionTask.tiny, Bags((rooms / "all",), share=0.0))


# -- training --------------------------------------------------------------------------------------------------------

def test_a_share_of_the_clips_is_the_simulators_own(rooms):
    plain = Recipe(rooms=4, clips_per_room=3, frames=2)
    half = Pool(recipe(plain, Bags((rooms / "all",), "sim/objects", 0.5)), 1)
    studio = Studio(4, 3, 2, first_seed=10_000, mounted=True)
    assert len(half) == len(studio) == 12
    for number in range(6):
        assert np.array_equal(half.take(number).images, studio.take(number).images)
    half.take_all(quiet)
    recorded = [half.take(number) for number in range(6, 12)]
    assert len({clip.images.tobytes() for clip in recorded}) == 6
    shown = {frame.image.tobytes() for frame in all_frames(rooms / "all" / "train-0", "sim/objects")}
    assert {image.tobytes() for clip in recorded for image in clip.images} <= shown


def test_a_clip_is_the_same_in_every_process_and_others_are_another_training(rooms, tmp_path):
    wanted = recipe(Recipe(rooms=4, clips_per_room=2, frames=2), Bags((rooms / "all",), "self"))
    one, other = VisionTask(recipe=wanted), VisionTask(recipe=Recorded(**vars(wanted)))
    one.prepare(3, quiet)
    for index in (5, 0, 11):
        for a, b in zip(one.sample(3, index), other.sample(3, index)):
            assert np.array_equal(a, b)
    shutil.copytree(rooms / "all", tmp_path / "all")
    moved = Recorded(**vars(wanted) | {"folders": (str(tmp_path / "all"),)})
    assert moved.found() and len(moved.found()) == 3
    write(tmp_path / "all" / "more", noise(5))
    with pytest.raises(RecordingError, match="not those that this training began with"):
        moved.found()


def test_vision_is_trained_on_recordings_alone_and_examined_on_those_that_are_held_out(rooms, tmp_path):
    out = tmp_path / "vision.safetensors"
    found = train("vision", out, Settings(quick=True, threads=1, bags=Bags((rooms / "all",), "sim/objects")), quiet)
    figures = found["spiking"]
    assert np.isfinite(figures["losses"]).all() and figures["objects"] > 10 and figures["simulator_objects"] > 10
    held = all_frames(rooms / "all" / "val-1", "sim/objects")[:60]     # whole ways of 15 pictures
    assert figures["objects"] == sum(seen.pixels >= 10 for frame in held for seen in asked(frame.seen, frame.image))
    assert weights.load(out).report["threshold"] == figures["threshold"]


def test_a_region_that_has_no_use_for_recordings_says_so(rooms, tmp_path):
    with pytest.raises(ValueError, match="motor is trained on the simulator's data alone, and takes no --bags"):
        train("motor", tmp_path / "m.safetensors", Settings(quick=True, bags=Bags((rooms / "all",))), quiet)


def test_the_command_names_what_is_wrong_in_one_line(tmp_path, capsys):
    import typer

    from brain_training.train import train as command

    with pytest.raises(typer.Exit):
        command("vision", out=tmp_path / "v.safetensors", quick=True, bags=[tmp_path / "gone"])
    assert f"{tmp_path / 'gone'} is not there" in capsys.readouterr().err.replace("\n", " ")


def test_a_recording_to_examine_by_that_is_torn_is_found_before_anything_is_trained(rooms, tmp_path):
    shutil.copytree(rooms / "all", tmp_path / "all")
    wanted = recipe(Recipe(rooms=4, clips_per_room=2, frames=2), Bags((tmp_path / "all",), "sim/objects"))
    file = tmp_path / "all" / "val-1" / "val-1.mcap"
    data = bytearray(file.read_bytes())
    data[len(data) * 2 // 3:len(data) * 2 // 3 + 50_000] = bytes(50_000)
    file.write_bytes(data)
    with pytest.raises(RecordingError, match="val-1 cannot be read|message of .* is broken"):
        VisionTask(recipe=wanted, quick=True).prepare(0, quiet)

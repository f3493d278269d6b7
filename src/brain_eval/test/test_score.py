# SPDX-License-Identifier: Apache-2.0
"""`brain score`: views, labels, what is right and false, pictures and recordings, and one line for what is wrong."""
import hashlib
import io
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from brain.cli import app
from brain_eval.score import labels as labels_module
from brain_eval.score.figures import Counts, Worth, calibration_error, figures, judge
from brain_eval.score.held_out import MARKS
from brain_eval.score.labels import FOLDER, Camera, Labelled, LabelError, Labels, Picture, read
from brain_eval.score.looker import IMAGE, INFO, Looker, Seen, message_of, visions
from brain_eval.score.recorded import RecordingProblem, play
from brain_eval.score.views import NEAR, azimuth, camera_info, targets, views
from brain_observe.bags import STORAGES, BagWriter
from brain_runtime import FEATURE, SENSOR, In, Out, Region, parameter
from brain_runtime.contract import images
from brain_runtime.contract.optics import Mount
from brain_sim.camera import RayCamera
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room
from brain_wire.messages import make, time_message

LEVEL = Mount(height=math.nan)
VIEW = math.radians(62.0)


def score(*arguments):
    return CliRunner().invoke(app, ["score", *map(str, arguments)])


def as_json(*arguments):
    done = score(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def blob(color=(200, 30, 30), box=(200, 180, 280, 260), size=(640, 480)):
    """A picture of a colored square on a gray floor, with noise that no two pictures share."""
    picture = np.full((size[1], size[0], 3), 120, np.uint8)
    picture[size[1] // 2:] = 150
    left, top, right, bottom = box
    picture[top:bottom, left:right] = color
    return picture


def saw(color="red", kind="ball", confidence=0.9, bearing=0.0):
    return Seen(color, kind, confidence, bearing, None)


def target_of(one, size=(640, 480)):
    return targets([one], images.lens(camera_info(size, VIEW), size, VIEW), LEVEL)


# -- views -----------------------------------------------------------------------------------------------------------

def test_a_picture_has_ten_views_and_a_label_is_where_the_pixels_are_in_each():
    color = np.array([200, 30, 30])
    box = 150, 120, 230, 200
    found = list(views(blob(box=box), VIEW, LEVEL, [Labelled(box, "red", "box")]))
    assert [one.name for one in found] == [f"{name}{mirrored}" for name in (
        "whole", "upper left", "upper right", "lower left", "lower right") for mirrored in ("", " mirrored")]
    middle = 0
    for one in found:
        ys, xs = np.nonzero((one.picture == color).all(-1))
        (target,) = one.targets
        assert target.box == (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)
        share = len(ys) / 80**2
        assert target.asked == (share >= 0.5) == (not target.ignored), one.name
        middle += "mirrored" not in one.name and target.asked
        lens = images.lens(one.info, one.picture.shape[1::-1], VIEW)
        assert one.lens == lens and one.picture.shape[:2] == (480, 640) or one.picture.shape[:2] == (322, 429)
    assert middle == 3
    whole, mirrored = found[0].targets[0], found[1].targets[0]
    assert whole.bearing == pytest.approx(-mirrored.bearing) and whole.bearing > 0.1
    for one in found[2:]:       # what was straight ahead still is: the same object is in the same direction
        if one.targets[0].asked and one.targets[0].box[2] - one.targets[0].box[0] == 80:
            assert abs(one.targets[0].bearing) == pytest.approx(whole.bearing, abs=1e-9)


def test_small_hidden_and_unsayable_objects_are_not_asked_for():
    assert target_of(Labelled((300, 200, 360, 260), "red", "ball"))[0].asked
    (small,) = target_of(Labelled((300, 200, 320, 220), "red", "ball"))     # 3 x 3 pixels of the network's picture
    (hidden,) = target_of(Labelled((300, 200, 360, 260), "red", "ball", 0.6))
    (ignored,) = target_of(Labelled((300, 200, 360, 260), "", "", 0.0, "two differ"))
    assert all(one.ignored and not one.asked for one in (small, hidden, ignored))
    for color, kind in (("other", "ball"), ("red", "other")):
        (one,) = target_of(Labelled((300, 200, 360, 260), color, kind))
        assert not one.asked and not one.ignored
    assert target_of(Labelled((-50, -50, -1, -1), "red", "ball")) == ()


@pytest.mark.parametrize("mount", [LEVEL, Mount(pitch=0.3), Mount(pitch=0.2, roll=0.15)])
@pytest.mark.parametrize("bent", [[0.0] * 5, [-0.2, 0.05, 0.001, -0.001, 0.0]])
def test_a_pixel_is_in_the_direction_that_the_lens_projects_to_it(mount, bent):
    info = camera_info((640, 480), VIEW)
    info.d = np.array(bent)
    lens = images.lens(info, (640, 480), VIEW)
    for bearing, elevation in ((0.0, -0.2), (0.3, -0.3), (-0.4, -0.1)):
        ray = np.array([math.cos(elevation) * math.cos(bearing), math.cos(elevation) * math.sin(bearing),
                        math.sin(elevation)])
        column, row = lens.project(mount.turned().T @ ray)
        assert azimuth(lens, mount, column, row) == pytest.approx(bearing, abs=1e-4)


# -- what is right and what is false ---------------------------------------------------------------------------------

BALL = Labelled((300, 200, 360, 260), "red", "ball")


def worths(found, *objects):
    return [one.worth for one in judge(found, [target for one in objects for target in target_of(one)])]


def test_a_detection_is_right_with_color_kind_and_bearing_and_takes_one_label_the_surest_first():
    (target,) = target_of(BALL)
    assert target.within == pytest.approx(NEAR, abs=0.02) and target.within >= NEAR
    at = target.bearing
    assert worths([saw(bearing=at)], BALL) == [Worth.right]
    assert worths([saw(bearing=at + 0.9 * target.within)], BALL) == [Worth.right]
    assert worths([saw(bearing=at + 1.1 * target.within)], BALL) == [Worth.false]
    assert worths([saw("blue", bearing=at)], BALL) == [Worth.false] == worths([saw(kind="box", bearing=at)], BALL)
    found = judge([saw(confidence=0.5, bearing=at), saw(confidence=0.8, bearing=at)], target_of(BALL))
    assert [(one.seen.confidence, one.worth) for one in found] == [(0.8, Worth.right), (0.5, Worth.false)]
    wide = Labelled((100, 100, 500, 400), "red", "box")
    half = target_of(wide)[0].within
    assert half > math.radians(15) and worths([saw(kind="box", bearing=target_of(wide)[0].bearing + 0.9 * half)], wide
                                              ) == [Worth.right]


def test_what_is_ignored_absorbs_any_name_and_an_orange_ball_none_of_the_four():
    at = target_of(BALL)[0].bearing
    ignored, orange = BALL._replace(ignore="unclear", color="", kind=""), BALL._replace(color="other")
    assert worths([saw("blue", "box", bearing=at), saw(bearing=at)], ignored) == [Worth.ignored] * 2
    assert worths([saw("yellow", bearing=at), saw(bearing=at)], orange) == [Worth.false] * 2
    assert worths([saw("", "ball", bearing=at), saw("red", "", bearing=at)], BALL) == [Worth.something_right] * 2
    assert worths([saw("", "", bearing=at + 1.0)], BALL) == [Worth.something_false]


def test_words_of_messages_that_come_later_are_asked_for(monkeypatch):
    monkeypatch.setitem(__import__("brain_eval.score.views", fromlist=["COLOR_WORDS"]).COLOR_WORDS, 9, "orange")
    orange = BALL._replace(color="other")
    (target,) = target_of(orange)
    assert target.asked
    assert worths([saw("orange", bearing=target.bearing)], orange) == [Worth.right]
    assert worths([saw("yellow", bearing=target.bearing)], orange) == [Worth.false]


def counted(source, *detections, asked=1, views=1):
    return Counts(source, "first", views, asked, list(detections))


def test_figures_count_from_a_threshold_on_and_draw_pictures_within_sources():
    some = [counted("a", (0.9, Worth.right), (0.4, Worth.false)), counted("a", (0.6, Worth.false), asked=1),
            counted("b", (0.8, Worth.right), (0.7, Worth.something_false), asked=2, views=2)]
    found = figures(some, 0.5)
    assert (found["right"], found["false"], found["asked"], found["views"]) == (2, 1, 4, 4)
    assert found["f1"] == pytest.approx(2 * 2 / (2 + 1 + 4)) and found["false_objects_a_view"] == 0.25
    assert found["something_a_view"] == 0.25
    low, high = found["f1_interval95"]
    assert low <= found["f1"] <= high
    assert figures(some, 0.5) == found and figures(some, 0.0)["false"] == 2
    one = [counted("a", (0.9, Worth.right))] * 3 + [counted("b", (0.9, Worth.false))]
    assert figures(one, 0.5)["false_objects_a_view_interval95"] == [0.25, 0.25]    # b is drawn each time
    nothing = figures([counted("a", asked=0)], 0.5)
    assert nothing["f1"] is None and nothing["calibration_error"] is None


def test_calibration_error_is_how_far_confidences_are_from_shares():
    sure = [counted("a", *[(0.75, Worth.right)] * 3, (0.75, Worth.false), asked=4)]
    assert calibration_error(sure) == pytest.approx(0.0)
    assert calibration_error([counted("a", *[(0.95, Worth.false)] * 4)]) == pytest.approx(0.95)
    both = [counted("a", (0.95, Worth.right), (0.55, Worth.false), (0.55, Worth.ignored), (0.01, Worth.false))]
    assert calibration_error(both) == pytest.approx((0.05 + 0.55) / 2)


# -- labels ----------------------------------------------------------------------------------------------------------

def write_labels(path, pictures, **source):
    path.write_text(json.dumps({"format": labels_module.FORMAT, "sources": [
        {"name": "ours 1.0", "link": "made here", "licence": "CC0-1.0", "by": ["a", "b"], **source,
         "pictures": pictures}]}))
    return path


def test_shipped_labels_are_read_and_say_where_pictures_are_from():
    found = [picture for file in sorted(FOLDER.glob("*.yaml")) for picture in read(file)]
    known = Labels(found)
    assert len(found) > 40 and {one.half for one in found} == {"first", "second"}
    assert all(one.sha256 and one.licence and one.source and len(one.marks) == MARKS for one in found)
    (coffee,) = [one for one in found if one.path.endswith("coffee.png")]
    assert known.of(coffee.sha256, "") == coffee
    assert (coffee.objects[0].color, coffee.objects[0].kind) == ("red", "cylinder")
    balls = [one for picture in found if "ball-detection" in picture.source for one in picture.objects]
    assert len(balls) > 15 and {one.color for one in balls} == {"other"}
    suffixes = {file.suffix for file in FOLDER.rglob("*") if file.is_file()}
    assert suffixes == {".yaml"}        # links and labels, no pictures


def test_what_a_source_says_holds_for_its_pictures_unless_they_say_otherwise(tmp_path):
    file = write_labels(tmp_path / "l.json", [
        {"path": "a.png", "objects": [{"box": [1, 2, 3, 4], "color": "orange", "kind": "cone", "hidden": 0.25}]},
        {"path": "b.png", "view": 90, "height": 0.3, "pitch": "unknown", "licence": "none", "sha256": "0" * 64},
        {"path": "c.png", "view": "unknown"}],
        view=70, pitch=10, half="second")
    one, other, unknown = read(file)
    assert math.isnan(unknown.camera.view)
    assert one == Picture("ours 1.0", "second", "a.png", "", "CC0-1.0", one.camera, (
        Labelled((1.0, 2.0, 3.0, 4.0), "other", "cone", 0.25, "", ("a", "b")),))
    assert math.degrees(one.camera.view) == pytest.approx(70) and math.isnan(one.camera.mount.height)
    assert math.degrees(one.camera.mount.pitch) == pytest.approx(10)
    assert other.camera == Camera(math.pi / 2, Mount(height=0.3)) and other.licence == "none"
    found = Labels([one, other])
    assert found.of("x", "a.png") == one and found.of("0" * 64, "x") == other and found.of("x", "b.png") is None
    with pytest.raises(LabelError, match="labelled twice"):
        Labels([one, one])


@pytest.mark.parametrize(("told", "says"), [
    ("[]", "format: brain-score-1"), ("{", "cannot be read"), ('{"format": "brain-score-2"}', "format: brain-score-1"),
    ([{"path": "a", "objects": [{"box": [3, 2, 1, 4], "color": "red", "kind": "ball"}]}], "left, top, right, bottom"),
    ([{"path": "a", "objects": [{"box": [1, 2, 3, 4], "color": "pink", "kind": "ball"}]}], "needs a color"),
    ([{"path": "a", "objects": [{"box": [1, 2, 3, 4], "color": "red"}]}], "or `ignore`"),
    ([{"path": "a", "objects": [{"box": [1, 2, 3, 4], "ignore": "x", "hidden": 2}]}], "hidden"),
    ([{"path": "a", "sha256": "12"}], "64 hex digits"), ([{"path": "a", "view": 2}], "from 10 to 180, or unknown"),
    ([{"paths": "a"}], "unknown key 'paths'"), ([{"sha256": "0" * 64}], "has no path"), ([3], "is no mapping")])
def test_a_file_that_holds_no_labels_is_refused_in_one_line(tmp_path, told, says):
    file = tmp_path / "l.json"
    if isinstance(told, str):
        file.write_text(told)
    else:
        write_labels(file, told)
    Image.fromarray(blob()).save(tmp_path / "a.png")
    done = score(tmp_path / "a.png", "--labels", file)
    assert done.exit_code == 2 and says in done.output and len(done.output.strip().splitlines()) == 1, done.output


# -- the verb --------------------------------------------------------------------------------------------------------

def test_a_folder_is_looked_at_and_what_cannot_be_read_is_named_and_skipped(tmp_path):
    folder = tmp_path / "pictures"
    (folder / "more").mkdir(parents=True)
    Image.fromarray(blob()).save(folder / "a.png")
    Image.fromarray(blob()[..., 0]).save(folder / "more" / "gray.jpg")
    Image.fromarray(blob(size=(640, 48), box=(10, 10, 20, 20))).save(folder / "strip.png")
    (folder / "notes.txt").write_text("no picture")
    (folder / "torn.png").write_bytes((folder / "a.png").read_bytes()[:200])
    (folder / "lfs.jpg").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")
    spiking = as_json(folder / "strip.png", folder / "a.png", "--only", "spiking")
    assert spiking["views"] == 10 and ["strip.png (whole, spiking)" in one["file"] and "is no camera's" in one["why"]
                                       for one in spiking["skipped"]] == [True]
    (folder / "strip.png").unlink()
    found = as_json(folder, "--only", "conventional", "--film", tmp_path / "sheet.png")
    assert found["views"] == 20 and found["false_objects_a_view"] > 0.3 and not found["labelled"]
    assert {one["file"].rpartition("/")[2] for one in found["skipped"]} == {"notes.txt", "torn.png", "lfs.jpg"}
    assert any("git lfs pull" in one["why"] for one in found["skipped"])
    gray, = [one for one in found["pictures"] if one["gray"]]
    assert gray["file"].endswith("gray.jpg") and gray["told"] == {"conventional": []}
    assert found["visions"]["conventional"]["seen"].keys() <= {"red box", "red cylinder", "red ball"}
    assert Image.open(tmp_path / "sheet.png").size == (720, 270)
    done = score(folder, "--only", "conventional")
    assert done.exit_code == 0 and "notes.txt: it is no JPEG or PNG" in done.output
    assert "without --labels every object counts as false" in done.output


def test_labels_say_what_is_right_and_pictures_without_labels_are_not_counted(tmp_path):
    picture = blob(box=(280, 260, 360, 340))
    Image.fromarray(picture).save(tmp_path / "a.png")
    Image.fromarray(blob((30, 60, 200))).save(tmp_path / "b.png")
    told = as_json(tmp_path / "a.png", "--only", "conventional")["pictures"][0]["told"]["conventional"]
    assert [one["color"] for one in told] == ["red"]
    file = write_labels(tmp_path / "l.json", [{"path": "x/a.png", "objects": [
        {"box": [280, 260, 360, 340], "color": "red", "kind": told[0]["kind"]}]}])
    found = as_json(tmp_path, "--labels", file, "--only", "conventional")
    figures_ = found["visions"]["conventional"]
    assert found["unlabelled"] == 1 and found["views"] == 10 == figures_["views"] and figures_["false"] == 0
    assert figures_["right"] >= 4 and found["f1"] > 0.6 and set(figures_["sources"]) == {"ours 1.0"}
    assert as_json(tmp_path, "--labels", file, "--only", "conventional", "--half", "first")["views"] == 10
    done = score(tmp_path / "a.png", "--labels", file, "--only", "conventional", "--half", "second")
    assert done.exit_code == 2 and "nothing to look at" in done.output


@pytest.mark.parametrize(("arguments", "says"), [
    (["gone.png"], "is not there"), ([".", "--half", "third"], "first and second"),
    ([".", "--half", "first"], "give --labels"), ([".", "--film", "x.mp4"], ".gif"),
    ([".", "--only", "owl"], "there is no vision 'owl'"), ([".", "--weights", "gone.safetensors"], "are missing")])
def test_what_is_wrong_in_a_command_is_said_in_one_line(tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(blob()).save("a.png")
    done = score(*arguments)
    assert done.exit_code == 2 and says in done.output and len(done.output.strip().splitlines()) == 1, done.output


def test_the_spiking_vision_its_twin_and_thresholds_see_a_room_of_the_simulator(tmp_path):
    """The same table has all three; the simulator's own camera is what they know."""
    picture, camera = a_room()
    Image.fromarray(picture).save(tmp_path / "room.png")
    shown = [{"box": box_of(one, picture.shape[1], camera.focal), "color": one.color, "kind": one.shape}
             for one in camera.ground_truth_objects(min_pixels=1)]
    file = write_labels(tmp_path / "l.json", [{"path": "room.png", "view": 90, "objects": shown}])
    found = as_json(tmp_path / "room.png", "--labels", file, "--film", tmp_path / "film.gif")
    assert set(found["visions"]) == {"spiking", "ann", "conventional"} and found["vision"] == "spiking"
    whole = found["pictures"][0]["told"]["spiking"]
    assert "right" in {one["worth"] for one in whole}
    for name, one in found["visions"].items():
        assert one["views"] == 10 and (one["threshold"] > 0.0) == (name != "conventional")
    assert Image.open(tmp_path / "film.gif").size == (360, 270)
    table = score(tmp_path / "room.png", "--labels", file).output
    assert all(name in table for name in ("spiking", "ann", "conventional", "unnamed", "ECE"))


def a_room():
    """A picture of a room of the simulator that shows a large object, and the camera."""
    for seed in range(40):
        camera = RayCamera(room_xml(generate_room("val", seed)))
        picture = camera.render(0.0, 0.0, 0.7, np.random.default_rng(0))
        if camera.ground_truth_objects(min_pixels=80):
            return picture, camera
    raise AssertionError("no room shows one")


def box_of(one, columns, focal):
    """A box of an object of the simulator's, of which the direction and the angle are known."""
    left, right = (columns / 2 - focal * math.tan(one.camera_bearing + side * one.width / 2) for side in (1, -1))
    return [left, 24, right, 24 + max(right - left, 4)]


def test_a_still_is_looked_at_from_rest_whatever_was_seen_before():
    (looker,) = visions(only={"spiking"}).values()
    room, _ = a_room()
    info = camera_info((96, 64), math.pi / 2)
    first = looker.look_at_still(room, info, VIEW, LEVEL)
    noise = np.random.default_rng(0).integers(0, 256, room.shape).astype(np.uint8)
    for _ in range(3):
        looker.look_at_still(noise, info, VIEW, LEVEL)
    assert not looker.refused       # four looks are too few for a watch on a camera that has died
    again = looker.look_at_still(room, info, VIEW, LEVEL)
    assert first and [one[:4] for one in again] == [one[:4] for one in first]


class Told(Region):
    """A vision of another network, with another input: it hears a mounting by its parameters, and tells what it got."""

    @dataclass(frozen=True)
    class Parameters:
        """Mounting of the camera, as it asks for it."""

        camera_x: float = parameter(0.0, "ahead", unit="m", low=-5.0, high=5.0)
        camera_height: float = parameter(-1.0, "above the floor", unit="m", low=-1.0, high=5.0)

    image = In("eye/picture", IMAGE, SENSOR, trigger=True, device=True)
    info = In("eye/lens", INFO, SENSOR, device=True)
    odom = In("odom", "nav_msgs/msg/Odometry", SENSOR, device=True)
    found = Out("eye/found", "brain_interfaces/msg/DetectedObjects", FEATURE, stamp_from="image")

    def step(self, inbox, state, dt, rng):
        seen = make("brain_interfaces/msg/DetectedObject", color=1, shape=2, confidence=0.9, bearing=0.1,
                    distance=float(dt), width=self.parameters.camera_height)
        self.heard = inbox.get("odom") is not None
        return {"found": self.found(objects=[seen])}, state


# -- recordings ------------------------------------------------------------------------------------------------------

def write_bag(path, count=20, storage="mcap", transport=False, stamped=True, gap=0.0, odom=True, static=None, bad=()):
    """A bag of pictures 50 ms apart of a red square that wanders, 20 ms old when they are recorded."""
    topic = "camera/image_raw" + ("/compressed" if transport else "")
    kind = "sensor_msgs/msg/CompressedImage" if transport else IMAGE
    with BagWriter(path, storage) as bag:
        for name, what in ((topic, kind), ("camera/camera_info", INFO), ("odom", "nav_msgs/msg/Odometry"),
                           ("tf_static", "tf2_msgs/msg/TFMessage")):
            bag.declare(name, what)
        if static is not None:
            bag.write("tf_static", 0.5, static)
        for number in range(count):
            stamp = 1.0 + 0.05 * number + (gap if number >= count // 2 else 0.0)
            at = stamp + 0.02
            picture = blob(box=(100 + 5 * number, 260, 180 + 5 * number, 340))
            if transport:
                file = io.BytesIO()
                Image.fromarray(picture).save(file, "PNG")
                data = b"none" if number in bad else file.getvalue()
                message = make(kind, format="png", data=np.frombuffer(data, np.uint8))
            else:
                message = message_of(picture, 0.0)
                message.encoding = "yuv" if number in bad else "rgb8"
            message.header.frame_id = "cam_optical_frame"
            message.header.stamp = time_message(stamp if stamped else 0.0)
            info, moved = camera_info((640, 480), VIEW), make("nav_msgs/msg/Odometry")
            for one in (info, moved):
                one.header.stamp = message.header.stamp
            moved.pose.pose.orientation.w = 1.0
            if odom:
                bag.write("odom", at - 0.001, moved)
            bag.write("camera/camera_info", at, info)
            bag.write(topic, at, message)
    return path


@pytest.mark.parametrize(("storage", "transport"), [(STORAGES[0], False), (STORAGES[1], False), (STORAGES[0], True)])
def test_a_recording_is_played_and_its_times_are_told(tmp_path, storage, transport):
    bag = write_bag(tmp_path / "drive", 20, storage, transport, gap=1.0, bad=(3, 4))
    found = as_json(bag, "--only", "conventional", "--film", tmp_path / "drive.gif")
    (one,) = found["recordings"]
    assert one["looked_at"] == 18 and list(one["refused"].values()) == [2] and found["views"] == 18
    at = one["topics"][one["pictures"]]
    assert at["messages"] == 20 and at["gaps"] == 1 and at["longest_gap"] == pytest.approx(1.05, abs=0.01)
    assert at["age_p50"] == pytest.approx(0.02, abs=1e-3) and one["topics"]["camera/camera_info"]["messages"] == 20
    ((name, times),) = one["seen_in"]["conventional"].items()
    assert name.startswith("red ") and times >= 15
    assert Image.open(tmp_path / "drive.gif").n_frames > 5
    told = score(bag, "--only", "conventional").output
    assert "1 gaps, the longest 1.05 s; 20.0 ms old" in told and "2 pictures were refused" in told, told


def test_a_recording_without_stamps_is_played_by_the_time_it_was_recorded(tmp_path):
    (one,) = as_json(write_bag(tmp_path / "drive", 10, stamped=False), "--only", "conventional")["recordings"]
    at = one["topics"]["camera/image_raw"]
    assert one["looked_at"] == 10 and at["unstamped"] == 10 and at["age_p50"] is None
    assert at["rate"] == pytest.approx(20.0, abs=0.1)


def test_pictures_of_a_recording_are_labelled_by_their_bytes(tmp_path):
    bag = write_bag(tmp_path / "drive", 4)
    digest = hashlib.sha256(blob(box=(105, 260, 185, 340)).tobytes()).hexdigest()
    file = write_labels(tmp_path / "l.json", [{"path": "drive", "sha256": digest, "objects": [
        {"box": [105, 260, 185, 340], "color": "red", "kind": kind} for kind in ("box",)]}])
    found = as_json(bag, "--labels", file, "--only", "conventional")
    assert found["views"] == 1 and found["unlabelled"] == 3 and found["visions"]["conventional"]["asked"] == 1


def static_of(roll):
    """Fixed frames of a camera 0.2 m ahead and 0.3 m high that is rolled."""
    message = make("tf2_msgs/msg/TFMessage", transforms=[
        make("geometry_msgs/msg/TransformStamped", child_frame_id=child) for child in ("body", "cam_optical_frame")])
    body, optical = message.transforms
    body.header.frame_id, optical.header.frame_id = "base_link", "body"
    body.transform.translation.x, body.transform.translation.z = 0.2, 0.3
    body.transform.rotation.x, body.transform.rotation.w = math.sin(roll / 2), math.cos(roll / 2)
    for axis, value in zip("xyzw", (-0.5, 0.5, -0.5, 0.5)):
        setattr(optical.transform.rotation, axis, value)
    return message


def test_another_network_with_another_input_is_played_to_as_a_robot_would(tmp_path):
    looker, shown = Looker(Told), []
    report = play(write_bag(tmp_path / "drive", 5, static=static_of(0.0)), {"it": looker}, lambda digest: None,
                  shown.append)
    assert set(report.times) == {"camera/image_raw", "camera/camera_info", "odom"} and looker._region.heard
    told = [one.told["it"][0] for one in shown]
    assert [one.message.width for one in told] == pytest.approx([0.3] * 5)      # the mounting that it asks for
    assert [one.message.distance for one in told] == pytest.approx([0.0, *[0.05] * 4])
    assert looker.threshold == 0.0 and (told[0].color, told[0].kind) == ("red", "box")
    # seen from the camera, which is 0.2 m ahead of the base
    x, y = 0.05 * math.cos(0.1) - 0.2, 0.05 * math.sin(0.1)
    assert told[1].bearing == pytest.approx(math.atan2(y, x))


def test_a_camera_upside_down_is_not_looked_through_by_a_vision_that_does_not_undo_it(tmp_path):
    bag, told = write_bag(tmp_path / "drive", 3, static=static_of(math.pi)), []
    report = play(bag, {"it": Looker(Told)}, lambda digest: None, told.append)
    ((why, count),) = report.refused.items()
    assert "rolled by" in why and "180 degrees, which vision does not undo" in why and count == 3


def test_color_thresholds_turn_the_picture_of_a_camera_upside_down(tmp_path):
    found = {}
    for roll in (0.0, math.pi):
        shown = []
        play(write_bag(tmp_path / f"{roll:.0f}", 3, static=static_of(roll)), {"it": visions(
            only=["conventional"])["conventional"]}, lambda digest: None, shown.append)
        found[roll] = [one.told["it"][0] for one in shown]
    assert len(found[0.0]) == 3 and all(one.color == "red" for some in found.values() for one in some)
    assert [one.bearing for one in found[math.pi]] == pytest.approx([-one.bearing for one in found[0.0]], abs=0.02)


def test_recordings_in_a_folder_are_played_beside_its_pictures(tmp_path):
    write_bag(tmp_path / "runs" / "one", 3)
    (file,) = write_bag(tmp_path / "runs" / "two", 4).glob("*.mcap")
    (file.parent / "metadata.yaml").unlink()
    (tmp_path / "runs" / "torn.mcap").write_bytes(b"none")
    Image.fromarray(blob()).save(tmp_path / "runs" / "a.png")
    found = as_json(tmp_path / "runs", "--only", "conventional")
    assert [one["looked_at"] for one in found["recordings"]] == [3, 4] and found["views"] == 3 + 4 + 10
    assert [one["file"].rpartition("/")[2] for one in found["skipped"]] == ["torn.mcap"]


@pytest.mark.parametrize("damage", ["torn", "pointer", "no pictures", "two"])
def test_a_recording_that_cannot_be_played_is_named(tmp_path, damage):
    bag = write_bag(tmp_path / "drive", 3)
    (file,) = bag.glob("*.mcap")
    says = {"torn": "recover", "pointer": "git lfs pull", "no pictures": "has no pictures; record some",
            "two": "say which with --pictures TOPIC"}[damage]
    if damage == "torn":
        file.write_bytes(file.read_bytes()[:-2000])
    elif damage == "pointer":
        file.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    else:
        with BagWriter(tmp_path / "other") as made:
            for name in () if damage == "no pictures" else ("left/image", "right/image"):
                made.declare(name, IMAGE)
            made.declare("odom", "nav_msgs/msg/Odometry")
        bag = tmp_path / "other"
    done = score(bag, "--only", "conventional")
    assert done.exit_code == 2 and says in done.output and str(bag) in done.output, done.output
    assert len(done.output.strip().splitlines()) == 1


def test_without_the_reader_of_recordings_its_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("brain_eval.score.recorded.READER", "brain_gone.recordings")
    with pytest.raises(RecordingProblem, match="drive is a recording: .*brain_gone"):
        play(write_bag(tmp_path / "drive", 1), {}, lambda digest: None, lambda shown: None)

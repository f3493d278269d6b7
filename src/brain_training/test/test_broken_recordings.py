# SPDX-License-Identifier: Apache-2.0
"""Recordings that are broken, lie, or are none: one line that names the file and the remedy."""
import shutil
import tracemalloc
from contextlib import closing

import numpy as np
import pytest
from bags_by_hand import BALL, OBJECTS, all_frames, image, noise, told, write

from brain_observe.bags import STORAGES, BagWriter
from brain_training.recordings.bags import RecordingError
from brain_training.recordings.library import find
from brain_training.recordings.reading import frames
from brain_wire.messages import encode, make


def torn(path):
    (file,) = [f for f in path.iterdir() if f.suffix in (".mcap", ".db3")]
    file.write_bytes(file.read_bytes()[:-file.stat().st_size // 3])


def filled(path):
    (file,) = [f for f in path.iterdir() if f.suffix in (".mcap", ".db3")]
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle:middle + 40_000] = b"\xff" * 40_000
    file.write_bytes(data)


def lying(path, change):
    """A bag whose only picture's bytes were changed."""
    with BagWriter(path) as bag:
        bag.declare("camera/image_raw", "sensor_msgs/msg/Image")
        bag.declare("labels", OBJECTS)
        data = bytearray(encode(image(noise(1)[0], 0.0)))
        bag._writer.write(bag._connections["camera/image_raw"], 1, change(data))
        bag.write("labels", 0.0, told(0.0, BALL))


def longer(data):
    at = len(data) - 64 * 96 * 3 - 4
    assert int.from_bytes(data[at:at + 4], "little") == 64 * 96 * 3
    data[at:at + 4] = (2**31).to_bytes(4, "little")
    return bytes(data)


MONO = image(noise(1)[0], 0.0, "mono8")
SHORT = image(noise(1)[0], 0.0, height=4000)
HUGE = make("sensor_msgs/msg/CompressedImage", format="png", data=np.frombuffer(
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\0\0\0\1\0\0\10\2\0\0\0\xc8\xb0\x5b\x9b", np.uint8))
JUNK = make("sensor_msgs/msg/CompressedImage", format="jpeg", data=np.zeros(100, np.uint8))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("damage", [torn, filled])
def test_a_torn_bag_is_named_with_the_remedy(tmp_path, storage, damage):
    path = write(tmp_path / "bag", noise(40), storage=storage)
    damage(path)
    with pytest.raises(RecordingError, match="recover") as error:
        all_frames(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("make_bag", "says"), [
    (lambda path: write(path, noise(3), label=None), "no picture has a label in labels"),
    (lambda path: write(path, noise(3), stamps=[1.0, 2.0, 1.5]), "go back from 2.000 to 1.500 s"),
    (lambda path: write(path, [MONO]), "encoding 'mono8'"), (lambda path: write(path, [SHORT]), "cannot have"),
    (lambda path: write(path, [HUGE], kind="sensor_msgs/msg/CompressedImage"), "format 'png'|pixels"),
    (lambda path: write(path, [JUNK], kind="sensor_msgs/msg/CompressedImage"), "format 'jpeg'"),
    (lambda path: write(path, noise(2, 8, 8)), "8 x 8"), (lambda path: lying(path, longer), "broken"),
    (lambda path: lying(path, lambda data: bytes(data[:9])), "broken"), (lambda path: write(path, []), "no picture"),
    (lambda path: write(path, [told(0)], kind=OBJECTS), "carries brain_interfaces/msg/DetectedObjects, not sensor"),
])
def test_what_is_wrong_in_a_bag_is_one_line_that_names_it(tmp_path, make_bag, says):
    make_bag(tmp_path / "bag")
    with pytest.raises(RecordingError, match=says) as error:
        all_frames(tmp_path / "bag")
    assert str(tmp_path / "bag") in str(error.value) and "\n" not in str(error.value)


def test_a_bag_without_the_topic_says_which_there_are(tmp_path):
    path = write(tmp_path / "bag", noise(2))
    for source, lacks in (("hand/labels", "hand/labels"), ("self", "odom")):
        with pytest.raises(RecordingError, match=rf"no topic {lacks} \(topics: /camera/image_raw, /labels\)"):
            all_frames(path, source)


def test_what_is_no_recording_is_named(tmp_path):
    with pytest.raises(RecordingError, match="is not there"):
        find([tmp_path / "gone"])
    with pytest.raises(RecordingError, match="has no recording"):
        find([tmp_path])
    path = write(tmp_path / "bag", noise(2))
    (path / "metadata.yaml").write_text("- no")
    with pytest.raises(RecordingError, match="cannot be read"):
        find([tmp_path])
    (path / "metadata.yaml").unlink()       # as where the recorder was killed: its one file is read
    assert len(all_frames(path)) == 2
    shutil.copy(path / "bag.mcap", path / "more.mcap")
    with pytest.raises(RecordingError, match="2 files and no metadata.yaml; make one with `ros2 bag reindex"):
        find([tmp_path])


@pytest.mark.parametrize("storage", STORAGES)
def test_a_bag_is_never_held_as_a_whole(tmp_path, storage):
    pictures = (noise(1, 480, 640, seed=n)[0] for n in range(60))
    path = write(tmp_path / "bag", pictures, storage=storage)
    size = sum(file.stat().st_size for file in path.iterdir())
    (recording,) = find([path])
    tracemalloc.start()
    with closing(frames(recording, "labels")) as reading:
        count = sum(1 for _ in reading)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 60 and size > 50e6 and most < 0.4 * size

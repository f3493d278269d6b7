# SPDX-License-Identifier: Apache-2.0
"""The recordings in some folders, and which split each belongs to: a recording is in one split as a whole.

A folder may hold ``recordings.json``, all of whose keys may be left out::

    {"pictures": "camera/image_raw", "camera_x": 0.15, "camera_y": 0.0, "camera_height": 0.35, "camera_yaw": 0.0,
     "camera_pitch": 0.0, "camera_roll": 0.0,
     "splits": {"train": ["monday-1"], "val": ["monday-2"], "test": ["tuesday-1"]}}

A recording that is not listed belongs where its name's hash puts it: of 10 about 8 to train, 1 to val, 1 to test. One
of the simulated robot, which has ``sim/world``, belongs where its room does: to train, or by its hash to val or test.
How the camera is mounted the recording's ``tf_static`` says, where it has the camera's frame, else the list. Pictures
are levelled by that.
"""
from __future__ import annotations

import hashlib
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from brain_regions.vision.levelling import level_mount
from brain_runtime.contract.frames import FLOORS, FrameError, Frames
from brain_runtime.contract.optics import Mount
from brain_sim.room import stable_hash
from brain_training.recordings.bags import COMPRESSED, FILES, Bag, RecordingError, bag_files, file_of, opened

LIST = "recordings.json"
SPLITS = ("train", "val", "test")
PICTURES = "camera/image_raw"
IMAGES = ("sensor_msgs/msg/Image", COMPRESSED)
USUAL = Mount(x=0.15, height=0.35)      # of the simulated robot's camera
MOUNTED = {f"camera_{name}": value for name, value in vars(USUAL).items()}
SELF = "self"
"""Labels that a recording's own looks make: :mod:`.own_labels`."""
OUTCOMES = "outcomes"
"""Of these only those of things that the outcome of a goal has decided about: :mod:`.outcomes`."""


class Recording(NamedTuple):
    """One recording.

    Attributes:
        name: of its folder or file, without its ending.
        path: of it.
        split: one of :data:`SPLITS`.
        digest: of its first picture, by which a copy is known.
        pictures: topic of its pictures.
        mount: of its camera.
    """

    name: str
    path: Path
    split: str
    digest: str
    pictures: str
    mount: Mount


class _Listed(NamedTuple):
    splits: dict[str, str]
    pictures: str
    mount: Mount


def find(folders: Sequence[Path]) -> list[Recording]:
    """All recordings of folders, by name. A folder may be a recording itself.

    Raises:
        RecordingError: there is none, one cannot be opened or has no pictures, or one is in two splits.
    """
    found: dict[str, Recording] = {}
    digests: dict[str, Recording] = {}
    for folder in folders:
        paths = _paths(folder)
        own = folder in paths
        listed = _listed(folder.parent if own else folder, None if own else {path.stem for path in paths})
        for path in paths:
            one = _recording(path, listed)
            if one.name in found:
                raise RecordingError(f"{found[one.name].path} and {path} have one name, which decides their split; "
                                     f"rename one of them")
            twin = digests.get(one.digest)
            if twin is not None:
                where = f"{twin.split} and {one.split}" if twin.split != one.split else f"{one.split} twice"
                raise RecordingError(f"{path} is the same recording as {twin.path}, and would be in {where}; take one "
                                     f"of them out")
            found[one.name] = digests[one.digest] = one
    return [found[name] for name in sorted(found)]


def _paths(folder: Path) -> list[Path]:
    """Recordings in a folder, or the folder itself."""
    if not folder.exists():
        raise RecordingError(f"{folder} is not there; name a folder with recordings")
    if folder.is_file() or (folder / "metadata.yaml").exists():
        return [folder]
    found = sorted([*bag_files(folder), *(path for path in folder.iterdir() if path.is_dir()
                                          and ((path / "metadata.yaml").exists() or bag_files(path)))])
    if not found:
        raise RecordingError(f"{folder} has no recording: no folder with metadata.yaml and no file that ends in "
                             f"{' or '.join(FILES)}; record one with `ros2 bag record` or `brain eval --record`")
    return found


def _listed(folder: Path, names: set[str] | None) -> _Listed:
    """Reads ``recordings.json``; ``names``: of the recordings that are there, None: of one recording only."""
    file = folder / LIST
    if not file.exists():
        return _Listed({}, PICTURES, USUAL)
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(told, dict):
            raise ValueError("it must hold an object")
        unknown = told.keys() - {"pictures", "splits", *MOUNTED}
        if unknown:
            raise ValueError(f"unknown key {sorted(unknown)[0]!r}")
        numbers = [float(told.get(key, usual)) for key, usual in MOUNTED.items()]
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"{', '.join(MOUNTED)} must be numbers")
        mount = Mount(*numbers)
        if not 0.0 < mount.height <= 5.0:
            raise ValueError("camera_height must be above 0 and at most 5 (m)")
        splits: dict[str, str] = {}
        for split, members in told.get("splits", {}).items():
            if split not in SPLITS or not isinstance(members, list):
                raise ValueError(f"splits are lists named {', '.join(SPLITS)}, not {split!r}")
            for name in map(str, members):
                if splits.setdefault(name, split) != split:
                    raise ValueError(f"recording {name!r} is in {splits[name]} and in {split}; list it once")
        if names is not None and (missing := splits.keys() - names):
            raise ValueError(f"recording {sorted(missing)[0]!r} is listed but is not in the folder")
        return _Listed(splits, str(told.get("pictures", PICTURES)), mount)
    except (ValueError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise RecordingError(f"{file}: {error}; see docs/training.md") from error


def _recording(path: Path, listed: _Listed) -> Recording:
    name = path.stem if path.is_file() else path.name
    file_of(path)
    mount = listed.mount
    with opened(path) as bag:
        digest = ""
        for heard in bag.messages({listed.pictures: IMAGES}):
            digest = hashlib.sha256(repr(heard.message.header.stamp).encode() + bytes(heard.message.data)
                                    ).hexdigest()[:16]
            mount = _mount(bag, listed.pictures, heard.message.header.frame_id) or mount
            break
        if not digest:
            raise RecordingError(f"{path} has no picture in {listed.pictures}; take it out of the folder")
        room = _room(bag)
    split = listed.splits.get(name) or _split_by_name(name, room)
    if room is not None and (room == "train") != (split == "train"):
        raise RecordingError(f"{path} shows a room of the simulator's split {room} and is listed in {LIST} as {split}; "
                             f"rooms of train are trained on, and no others")
    return Recording(name, path, split, digest, listed.pictures, mount)


def _mount(bag: Bag, pictures: str, frame: str) -> Mount | None:
    """Mounting of the camera of a frame by the bag's fixed frames, or by who levelled its pictures; None: not told."""
    if (lens := bag.lens_of(pictures)) is not None:
        for heard in bag.messages({lens: ("sensor_msgs/msg/CameraInfo",)}):
            if (found := level_mount(heard.message)) is not None:
                return found
            break
    if bag.topic("tf_static") is None:
        return None
    known = Frames()
    for heard in bag.messages({"tf_static": ("tf2_msgs/msg/TFMessage",)}):
        with suppress(FrameError):
            known.take(heard.message)
    for base in FLOORS:
        with suppress(FrameError):
            found = known.mount(frame, base)
            return found if found.height > 0.01 else None
    return None


def room_of(path: Path) -> str | None:
    """Split of the simulated room that a recording shows; None: it shows none. Raises RecordingError."""
    with opened(path) as bag:
        return _room(bag)


def _room(bag: Bag) -> str | None:
    if bag.topic("sim/world") is not None:
        for heard in bag.messages({"sim/world": ("std_msgs/msg/String",)}):
            return _split_of_room(heard.message)
    return None


def _split_of_room(message: Any) -> str | None:
    """Split of the simulated room, or None where the text does not say."""
    try:
        request = json.loads(message.data)["request"]
        split = request.get("split", request.get("episode", {}).get("split"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return split if split in SPLITS else None


def _split_by_name(name: str, room: str | None) -> str:
    number = stable_hash(f"brain/recording/{name}") % 10
    if room == "train":
        return "train"
    if room is not None:
        return "val" if number < 5 else "test"
    return {0: "val", 1: "test"}.get(number, "train")


__all__ = ["IMAGES", "LIST", "OUTCOMES", "PICTURES", "SELF", "SPLITS", "Recording", "find", "room_of"]

# SPDX-License-Identifier: Apache-2.0
"""Pictures and their labels for vision: clips of a driving robot's camera in generated rooms.

Labels come from which object each ray met, so they also know what stands behind what.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np

from brain_regions.vision.network import COLUMNS, HEIGHT, SLOTS, WIDTH
from brain_sim.camera import RayCamera, SeenObject
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room, split_rng
from brain_sim.things import COLORS, SHAPES
from brain_training.driving import Drive, Pose
from brain_training.looks import PLAIN, Look

NOTHING, UNSURE = -1, -2
"""Color labels of columns that show no object, and of those about which nothing is asked: too little to tell."""
CLEAR_PIXELS = 10       # an object counts from so many visible pixels on
COLUMN_SHARE = 0.34     # of the object's fullest column: columns with less are its edge, and not asked about
NEAR_SHARE = 0.4        # of the training clips begin close to an object

Progress = Callable[[int, int], None]
"""Called with what is done and what there is to do."""


class Labels(NamedTuple):
    """Labels of the columns of pictures, the nearest object first: arrays [..., SLOTS, COLUMNS].

    Attributes:
        color: int8, number in COLORS, or NOTHING, or UNSURE.
        shape: int8, number in SHAPES (0 where there is none).
        bearing: float32, rad, of the object's center from the camera.
        distance: float32, m, from the camera.
        width: float32, rad, that the object covers, or would without what hides it.
    """

    color: np.ndarray
    shape: np.ndarray
    bearing: np.ndarray
    distance: np.ndarray
    width: np.ndarray


class Clips(NamedTuple):
    """Training clips: uint8 pictures [clips, frames, HEIGHT, WIDTH, 3] and labels [clips, frames, SLOTS, COLUMNS]."""

    images: np.ndarray
    labels: Labels


class Way(NamedTuple):
    """A held-out way: uint8 pictures [frames, HEIGHT, WIDTH, 3], and the visible objects of each; None: not known.

    Of a way that was driven there are the base's ``poses``, too.
    """

    images: np.ndarray
    objects: Sequence[list[SeenObject] | None]
    poses: Sequence[Pose] = ()


def object_width(radius: float, distance: float) -> float:
    """Angle (rad) that an object of ``radius`` m at ``distance`` m covers."""
    return 2.0 * float(np.arcsin(min(radius / max(distance, radius), 0.999)))


def label_columns(camera: RayCamera, radii: dict[str, float]) -> Labels:
    """Labels [SLOTS, COLUMNS] of the picture that ``camera`` rendered last; ``radii`` in m by name.

    Objects that a column shows clearly fill its slots from the nearest on. A slot that is left says that nothing is
    there, unless the column shows the edge of an object or a faint one: about that nothing is asked.
    """
    color = np.full((SLOTS, COLUMNS), NOTHING, np.int8)
    shape = np.zeros((SLOTS, COLUMNS), np.int8)
    bearing, distance, width = (np.zeros((SLOTS, COLUMNS), np.float32) for _ in range(3))
    ids = camera.geom_ids.reshape(HEIGHT, COLUMNS, WIDTH // COLUMNS)
    filled, unsure = np.zeros(COLUMNS, int), np.zeros(COLUMNS, bool)
    for seen in sorted(camera.ground_truth_objects(), key=lambda o: o.camera_distance):
        count = (ids == camera.model.geom(seen.name).id).sum(axis=(0, 2))
        clear = (count >= max(1, COLUMN_SHARE * count.max())) & (seen.pixels >= CLEAR_PIXELS)
        unsure |= (count > 0) & ~clear
        (columns,) = np.nonzero(clear & (filled < SLOTS))
        at = filled[columns], columns
        color[at], shape[at] = COLORS.index(seen.color), SHAPES.index(seen.shape)
        bearing[at], distance[at] = seen.camera_bearing, seen.camera_distance
        width[at] = object_width(radii[seen.name], seen.camera_distance)
        filled[columns] += 1
    (columns,) = np.nonzero(unsure & (filled < SLOTS))
    color[filled[columns], columns] = UNSURE
    return Labels(color, shape, bearing, distance, width)


def _room(split: str, seed: int, purpose: str, look: Look
          ) -> tuple[RayCamera, Drive, dict[str, float], np.random.Generator]:
    room = look.over(generate_room(split, seed))
    rng = split_rng(split, seed, purpose)
    return RayCamera(room_xml(room)), Drive(room, rng), {o.name: o.radius for o in room.objects}, rng


class Studio:
    """Takes training clips. Each is a function of its room's seed and its number there, whichever are taken before.

    Args:
        rooms: how many, with the seeds from ``first_seed`` on.
        clips_per_room, frames: clips in each room, and pictures (50 ms apart) in each clip.
        split, first_seed: of the rooms.
        look: that they have.

    Raises:
        ValueError: the split is ``test``, on which nothing is trained.
    """

    def __init__(self, rooms: int, clips_per_room: int, frames: int, *, split: str = "train",
                 first_seed: int = 0, look: Look = PLAIN) -> None:
        if split == "test":
            raise ValueError("training refuses the split 'test': use 'train'")
        self.first_seed, self._split, self._per_room, self._frames = first_seed, split, clips_per_room, frames
        self._look = look
        self._count, self._open = rooms * clips_per_room, None
        self._clips: Clips | None = None
        self._taken = np.zeros(self._count, bool)

    def __len__(self) -> int:
        """Returns the number of clips."""
        return self._count

    def take(self, number: int) -> Clips:
        """One clip: pictures [frames, HEIGHT, WIDTH, 3] and labels [frames, SLOTS, COLUMNS]."""
        if self._clips is None:
            shape = self._count, self._frames
            self._clips = Clips(np.empty((*shape, HEIGHT, WIDTH, 3), np.uint8), Labels(*(
                np.empty((*shape, SLOTS, COLUMNS), kind) for kind in (np.int8, np.int8, *(np.float32,) * 3))))
        kept = Clips(self._clips.images[number], Labels(*(part[number] for part in self._clips.labels)))
        if not self._taken[number]:
            room, clip = divmod(number, self._per_room)
            camera, drive, radii = self._enter(room)
            rng = drive.rng = split_rng(self._split, self.first_seed + room, f"vision clip {clip}")
            start = drive.place(near=rng.random() < NEAR_SHARE)
            for frame, pose in enumerate(drive.poses(start, self._frames)):
                kept.images[frame] = camera.render(*pose, rng)
                for array, values in zip(kept.labels, label_columns(camera, radii)):
                    array[frame] = values
            self._taken[number] = True
        return kept

    def take_all(self, progress: Progress | None = None) -> Clips:
        """All clips: pictures [clips, frames, ...] and labels [clips, frames, ...]."""
        for number in range(self._count):
            self.take(number)
            if progress and (number + 1) % self._per_room == 0:
                progress((number + 1) // self._per_room, self._count // self._per_room)
        return self._clips

    def _enter(self, room: int) -> tuple[RayCamera, Drive, dict[str, float]]:
        """Camera, drive and sizes of things of a room; that of the last room is kept."""
        if self._open is None or self._open[0] != room:
            self._open = room, _room(self._split, self.first_seed + room, "vision clips", self._look)[:3]
        return self._open[1]


def make_clips(rooms: int, clips_per_room: int, frames: int, *, split: str = "train", first_seed: int = 0) -> Clips:
    """All clips of a :class:`Studio`."""
    return Studio(rooms, clips_per_room, frames, split=split, first_seed=first_seed).take_all()


def make_ways(rooms: int, frames: int, *, split: str, first_seed: int,
              progress: Progress | None = None, look: Look = PLAIN, purpose: str = "vision ways") -> Iterator[Way]:
    """One driven way of ``frames`` pictures in each of ``rooms`` rooms, for thresholds and held-out figures.

    Who drives for another ``purpose`` drives other ways.
    """
    for room in range(rooms):
        camera, drive, _, rng = _room(split, first_seed + room, purpose, look)
        images, objects = np.empty((frames, HEIGHT, WIDTH, 3), np.uint8), []
        poses = drive.poses(drive.place(near=False), frames)
        for frame, pose in enumerate(poses):
            images[frame] = camera.render(*pose, rng)
            objects.append(camera.ground_truth_objects())
        if progress:
            progress(room + 1, rooms)
        yield Way(images, objects, poses)


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of the training of vision."""

    rooms: int = 1500
    clips_per_room: int = 4
    frames: int = 3
    epochs: int = 7
    batch: int = 16
    rate: float = 3e-3

    def studio(self, seed: int) -> Any:
        """Makes the source of a training's clips, by its seed: a :class:`Studio`, or something like it."""
        return Studio(self.rooms, self.clips_per_room, self.frames, first_seed=seed * 10_000)
